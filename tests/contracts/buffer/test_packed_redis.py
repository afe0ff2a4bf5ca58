"""Packs in Redis, which holds them as they come, against a store that holds each record as a row; and what is damaged
there."""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.redis import scripts_packs
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.streams.contracts.leased_values import PACK, Entry, EntryDue, PositionMove, pack_parts
from sluicegate.streams.errors import ConcurrencyError, PersistenceError
from tests.contracts.buffer.given import HOUR, of
from tests.contracts.buffer.packing import pack, put, records
from tests.contracts.leasing import Injected


@pytest.fixture
def types() -> None:
    """Packs stay bytes."""


# -- any sequence of steps, against a store that holds each record as a row
# ------------------------------------------------------------

GROUP, COUNT = st.sampled_from(["g", "h"]), st.integers(1, 6)
DUES = EntryDue("epoch", 0), EntryDue("last", -1), EntryDue("first", 1 << 50), EntryDue("never")
ENDS = st.sampled_from([False, False, False, False, True, *DUES])
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(GROUP, st.integers(1, 9), ENDS), min_size=1, max_size=3), COUNT),
    st.tuples(st.just("put"), st.lists(st.tuples(GROUP, st.integers(1, 9), ENDS), min_size=1, max_size=3), st.just(20)),
    st.tuples(st.just("rows"), st.tuples(GROUP, ENDS), COUNT),
    st.tuples(st.just("seal"), GROUP, COUNT),
    st.tuples(st.sampled_from(["complete", "complete", "complete", "release"]), st.integers(0, 9), st.none()),
    st.tuples(st.sampled_from(["due", "snapshot", "read", "read"]), st.none(), COUNT),
)
ONE_SERVER = pytest.mark.parametrize("backend", ["redis"], indirect=True)
examples = itertools.count()


class Side:
    """One of the two buffers, and what it handed out."""

    def __init__(self, buffer: Any, name: str) -> None:
        self.buffer, self.name, self.at = buffer, name, 0
        self.batches: list[Any] = []

    def told(self, batches: Any) -> list[Any]:
        ordered = sorted(batches, key=lambda batch: (batch.group, plain(batch.entries)))
        self.batches += ordered
        return [(batch.group, batch.reason, batch.attempts, plain(batch.entries)) for batch in ordered]

    def step(self, what: str, which: Any, count: int | None) -> Any:
        gate = of(count or 1, after_first=HOUR, lease=HOUR, dues=True)
        if what == "put":
            packs, begin = [], self.at
            for group, size, ends in which:
                packs.append(pack(group, self.at, size)._replace(**ending(ends)))
                self.at += size
            return self.told(put(self.buffer, self.name, packs, gate, begin))
        if what == "rows":
            self.at += 1
            own = Entry(f"row-{self.at}", "row", "", b"r%d" % self.at, (), which[0], **ending(which[1]))
            moves = PositionMove("topic", 0, self.at - 1, self.at)
            return self.told(self.buffer.insert_and_seal(self.name, [own], gate, moves).batches)
        if what in ("complete", "release"):
            return self.ended(what, which)
        if what == "snapshot":
            snapshot = self.buffer.get_snapshot(self.name, count)
            return plain(snapshot.entries), snapshot.leased_elsewhere, self.buffer.release_snapshot(self.name, snapshot)
        if what in ("seal", "due"):
            batches = self.buffer.due(self.name, gate) if what == "due" else [self.buffer.seal(self.name, which, gate)]
            return self.told(batch for batch in batches if batch)
        return (
            plain(self.buffer.iter_raw(self.name)),
            self.buffer.count(self.name),
            self.buffer.position(self.name, "topic", 0),
        )

    def ended(self, what: str, which: int) -> Any:
        if not self.batches:
            return None
        try:
            return getattr(self.buffer, what)(self.name, self.batches[which % len(self.batches)])
        except ConcurrencyError:
            return "another's"


def ending(how: bool | EntryDue) -> dict[str, Any]:
    """The field of an entry or a pack that ends its group, or gives it a deadline."""
    return {"ends": how} if isinstance(how, bool) else {"due": how}


def plain(results: Any) -> list[bytes]:
    return [item for entry in results for item in (pack_parts(entry.data)[1:] if entry.type == PACK else [entry.data])]


def compared(buffer: Any, ns: str, most: int, *phases: Phase) -> None:
    @settings(max_examples=most, deadline=None, database=None, phases=phases, suppress_health_check=list(HealthCheck))
    @given(st.lists(STEPS, max_size=25))
    def run(steps: list[Any]) -> None:
        name = f"{ns}-{next(examples)}"
        rows, packs = Side(MemoryStore(Injected()).buffer, name), Side(buffer, name)
        for step in [*steps, ("read", None, None)]:
            assert packs.step(*step) == rows.step(*step)

    run()


@ONE_SERVER
def test_any_sequence_of_steps_gives_what_a_row_for_each_record_gives(store: Any, ns: str) -> None:
    compared(store.buffer, ns, 25, Phase.generate, Phase.shrink)


@ONE_SERVER
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("- (count - most))", "- (count - most) - 1)"),
        ("state[1] = state[1] - count", "state[1] = 0"),
        ("nth) == 49", "nth) == 50"),
        ("moment_of(due, state[2], now) <= now", "false"),
    ],
)
def test_a_script_that_is_wrong_in_one_place_is_found(
    store: Any, ns: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right in scripts_packs.INSERT_PACKS
    monkeypatch.setattr(scripts_packs, "INSERT_PACKS", scripts_packs.INSERT_PACKS.replace(right, wrong))
    with pytest.raises((AssertionError, PersistenceError, ExceptionGroup)):
        compared(store.buffer, ns, 500, Phase.generate)  # ends with the first it finds


@ONE_SERVER
@pytest.mark.parametrize("guarded", [True, False])
def test_packs_that_are_others_when_rows_are_made_of_them_are_asked_for_again(
    store: Any, ns: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, guard = store.buffer, "if #packs ~= many then return false end"
    asked, late = buffer._elements, [pack("g", 3, 2)]
    put(buffer, ns, [pack("g", 0, 3)], of(9))

    def stale(key: Any) -> Any:
        answer = asked(key)
        if late:
            put(buffer, ns, [late.pop()], of(9), 3)
        return answer

    buffer._elements = stale
    if not guarded:
        assert guard in scripts_packs.UNPACK
        unguarded = scripts_packs.UNPACK.replace(guard, "").replace("return false end\nend", "end end")
        monkeypatch.setattr(scripts_packs, "UNPACK", unguarded)
    assert (sorted(records(buffer.get_snapshot(ns).entries)) == [0, 1, 2, 3, 4]) == guarded


@ONE_SERVER
def test_a_damaged_pack_is_one_of_our_errors(store: Any, ns: str) -> None:
    put(store.buffer, ns, [pack("g", 0, 9, 200)], of(99))
    client, key = store.buffer._server(), f"{PREFIX}buffer:pack:{len(ns)}:{ns}:g"
    [good] = client.lrange(key, 0, -1)
    head = good.index(b"t/0/0") + len("t/0/0")
    cut, other, huge = (
        (good[:9], good[:head], good[: head + 3], good[:-1]),
        good[:head] + b"\x07" + good[head + 1 :],
        b"\xff" * 50,
    )
    for bad in (*cut, other, good[: head + 1] + huge):
        client.lset(key, 0, bad)
        with pytest.raises(PersistenceError):
            store.buffer.get_data(ns)
    client.lset(key, 0, good)
    assert records(store.buffer.get_data(ns)) == list(range(9))


@ONE_SERVER
def test_nothing_is_inserted_when_the_list_of_one_group_is_damaged(store: Any, ns: str) -> None:
    client = store.buffer._server()
    key = f"{PREFIX}buffer:pack:{len(ns)}:{ns}:h"
    client.set(key, "damaged")
    with pytest.raises(PersistenceError, match="DAMAGED"):
        put(store.buffer, ns, [pack("g", 0, 2), pack("g", 2, 2), pack("h", 4, 2)], of(3))
    assert (store.buffer.count(ns), list(store.buffer.iter_raw(ns)), store.buffer.position(ns, "topic", 0)) == (
        0,
        [],
        0,
    )
    client.delete(key)
    assert [records(batch.entries) for batch in put(store.buffer, ns, [pack("g", 0, 2), pack("g", 2, 2)], of(3))] == [
        [0, 1, 2]
    ]
