"""Every backend against the memory one: any sequence of operations has the same results and the same errors."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule, run_state_machine_as_test

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.sql.leased import buffer_seals
from sluicegate.streams.contracts.leased_values import Entry, Gate, PositionMove, SealedBatch, Snapshot
from sluicegate.streams.contracts.options import LeasedOptions
from sluicegate.streams.errors import SluicegateError
from tests.contracts.buffer.given import HOUR
from tests.contracts.leasing import Clock, Injected, Real, decoders

examples = itertools.count()

SECOND = timedelta(seconds=1)
NUMBER = st.integers(0, 12)


def _entry(key: int, correlation: int, type: str, data: bytes, group: str, ends: bool) -> Entry:
    """What will not decode has a group of its own: nothing else tells two batches of it apart."""
    own = type != "unknown" and data == b"\xff"
    return Entry(f"k{key}", f"c{correlation}", type, data, [("h", data)], f"bad-{key}" if own else group, ends=ends)


ENTRY = st.builds(
    _entry,
    NUMBER,
    st.integers(0, 3),
    st.sampled_from(["json", "json", "text", "unknown"]),
    st.sampled_from([b"1", b"2", b"3", b"\xff"]),
    st.sampled_from(["", "g"]),
    st.sampled_from([False, False, True]),
)
ENTRIES = st.lists(ENTRY, max_size=6)
# On servers leases last, since time there is real: what runs out is for backends with a clock to move.
LEASE = st.sampled_from([HOUR, 10 * SECOND])
GATE = st.builds(Gate, st.none() | st.integers(1, 3), st.just(HOUR), st.none() | st.just(2 * HOUR), lease=st.just(HOUR))
MOVED_GATE = st.builds(
    Gate, st.none() | st.integers(1, 3), st.just(10 * SECOND), st.none() | st.just(15 * SECOND), lease=LEASE
)
PROGRESS = st.none() | st.builds(
    PositionMove, st.just("topic"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 2)
)
KEPT = st.sampled_from([timedelta(0), HOUR, 10 * SECOND])


def comparable(result: Any) -> Any:
    """Without what two stores give by themselves: names of rows and batches, tokens, times."""
    if isinstance(result, Snapshot):
        return (
            list(result.entries),
            values(result.entries),
            result.unresolved,
            bool(result.token),
            result.leased_elsewhere,
        )
    if isinstance(result, SealedBatch):
        return (
            result.group,
            result.reason,
            list(result.entries),
            values(result.entries),
            result.unresolved,
            result.attempts,
        )
    if isinstance(result, list | tuple):
        return [comparable(part) for part in result]
    return result


def values(results: Any) -> list[Any]:
    return [result.value for result in results]


def ordered(batches: Any) -> list[SealedBatch]:
    """A store may hand out several groups in any order."""
    return sorted(batches, key=lambda batch: (batch.group, [entry.idempotency_key for entry in batch.entries]))


def outcome(action: Callable[[], Any]) -> tuple[object, Any]:
    """What can be compared, and what it really returned (None when it raised)."""
    try:
        result = action()
    except (SluicegateError, ValueError) as error:
        return (type(error), getattr(error, "next", None)), None
    return comparable(result), result


class Comparison(RuleBasedStateMachine):
    """The same calls on the buffer under test and on one in memory."""

    snapshots = Bundle("snapshots")
    batches = Bundle("batches")

    def __init__(self, store: Any, clock: Clock, app: str) -> None:
        super().__init__()
        self.clock, self.ours = clock, Injected()
        if isinstance(clock, Injected):
            self.ours.seconds = clock.seconds
        self.buffers = (MemoryStore(self.ours, options=LeasedOptions(decoders())).buffer, store.buffer)
        self.app = f"{app}-{next(examples)}"
        self.moves = isinstance(clock, Injected)

    def same(self, call: Callable[[Any], Any]) -> list[Any]:
        ours, theirs = (outcome(lambda buffer=buffer: call(buffer)) for buffer in self.buffers)
        assert theirs[0] == ours[0]
        return [ours[1], theirs[1]]

    def paired(self, both: Any) -> dict[int, Any]:
        return dict(zip(map(id, self.buffers), both, strict=True))

    def name(self, number: int) -> str:
        return f"{self.app}-{number}"

    @rule(number=st.integers(0, 1), entries=ENTRIES, at=PROGRESS, keep=KEPT)
    def insert(self, number: int, entries: list[Entry], at: PositionMove | None, keep: timedelta) -> None:
        self.same(lambda buffer: buffer.insert(self.name(number), entries, at, self.kept(keep)))

    def kept(self, keep: timedelta) -> timedelta:
        return keep if self.moves or keep != 10 * SECOND else HOUR

    @rule(
        target=batches, number=st.integers(0, 1), entries=ENTRIES, long=GATE, moved=MOVED_GATE, at=PROGRESS, keep=KEPT
    )
    def insert_and_seal(
        self, number: int, entries: list[Entry], long: Gate, moved: Gate, at: PositionMove | None, keep: timedelta
    ) -> Any:
        now = moved if self.moves else long

        def filled(buffer: Any) -> Any:
            result, batches = buffer.insert_and_seal(self.name(number), entries, now, at, self.kept(keep))
            return result, ordered(batches)

        ours, theirs = self.same(filled)
        return multiple(*zip(ours[1], theirs[1], strict=True)) if ours else multiple()

    @rule(target=snapshots, number=st.integers(0, 1), limit=st.none() | st.integers(1, 4), most=LEASE)
    def get_snapshot(self, number: int, limit: int | None, most: timedelta) -> Any:
        return tuple(
            self.same(lambda buffer: buffer.get_snapshot(self.name(number), limit, most if self.moves else HOUR))
        )

    @rule(number=st.integers(0, 1), both=snapshots, part=st.integers(0, 3))
    def remove_snapshot(self, number: int, both: Any, part: int) -> None:
        mine = self.paired(both)
        cut = {key: replace(batch, ids=batch.ids[part:]) for key, batch in mine.items()}
        self.same(lambda buffer: buffer.remove_snapshot(self.name(number), cut[id(buffer)]))

    @rule(number=st.integers(0, 1), both=snapshots)
    def release_snapshot(self, number: int, both: Any) -> None:
        mine = self.paired(both)
        self.same(lambda buffer: buffer.release_snapshot(self.name(number), mine[id(buffer)]))

    @rule(number=st.integers(0, 1), both=snapshots | batches, attempts=st.none() | st.integers(0, 3))
    def renew(self, number: int, both: Any, attempts: int | None) -> None:
        mine = self.paired(both)
        self.same(lambda buffer: bool(buffer.renew(self.name(number), mine[id(buffer)].token, HOUR, attempts)))

    @rule(target=batches, number=st.integers(0, 1), long=GATE, moved=MOVED_GATE)
    def due(self, number: int, long: Gate, moved: Gate) -> Any:
        now = moved if self.moves else long
        return multiple(*zip(*self.same(lambda buffer: ordered(buffer.due(self.name(number), now))), strict=True))

    @rule(number=st.integers(0, 1), both=batches)
    def complete(self, number: int, both: Any) -> None:
        mine = self.paired(both)
        self.same(lambda buffer: buffer.complete(self.name(number), mine[id(buffer)]))

    @rule(number=st.integers(0, 1), both=batches, attempts=st.none() | st.integers(0, 3))
    def release(self, number: int, both: Any, attempts: int | None) -> None:
        mine = self.paired(both)
        self.same(lambda buffer: buffer.release(self.name(number), mine[id(buffer)], attempts))

    @rule(number=st.integers(0, 1), correlation=st.integers(0, 3), force=st.booleans())
    def remove_one(self, number: int, correlation: int, force: bool) -> None:
        self.same(lambda buffer: buffer.remove_one(self.name(number), f"c{correlation}", force))

    @rule(number=st.integers(0, 1))
    def remove_all(self, number: int) -> None:
        self.same(lambda buffer: buffer.remove_all(self.name(number)))

    @rule(number=st.integers(0, 1))
    def read(self, number: int) -> None:
        name = self.name(number)
        self.same(
            lambda buffer: [
                list(buffer.iter_raw(name)),
                values(buffer.get_data(name)),
                buffer.count(name),
                buffer.count_resolved(name),
            ]
        )
        self.same(lambda buffer: [buffer.position(name, "topic", partition) for partition in (0, 1)])

    @rule(seconds=st.sampled_from([1, 4, 9, 20]))
    def later(self, seconds: int) -> None:
        if isinstance(self.clock, Injected):
            for clock in (self.clock, self.ours):
                clock.passed(seconds * SECOND)


def compared(store: Any, clock: Clock, ns: str, examples: int, phases: tuple[Phase, ...]) -> None:
    run_state_machine_as_test(
        lambda: Comparison(store, clock, ns),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_078_any_sequence_of_operations_gives_what_the_memory_store_gives(store: Any, clock: Clock, ns: str) -> None:
    compared(store, clock, ns, 8 if isinstance(clock, Real) else 30, (Phase.generate, Phase.shrink))


def without_ends(seal: Any) -> Any:
    return lambda at, touched, ends, *more: seal(at, touched, [], *more)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("sluicegate.connectors.sql.leased.buffer_seals.set_deadlines", lambda at, groups, gate, new=None: None),
        ("sluicegate.connectors.sql.leased.buffer_seals.seal_full", without_ends(buffer_seals.seal_full)),
        ("sluicegate.connectors.sql.leased.buffer._free", lambda at, token: 0),
        ("sluicegate.connectors.sql.leased.buffer_rows.resolvable", lambda types: ()),
    ],
)
def test_a_buffer_that_differs_in_one_step_is_found(
    store: Any, clock: Clock, ns: str, place: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, wrong)
    with pytest.raises(AssertionError):
        compared(store, clock, ns, 1000, (Phase.generate,))  # ends with the first it finds
