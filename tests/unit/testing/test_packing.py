"""How the shared intake packs records, and what a batch's firing gets of them."""

from collections.abc import Sequence
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased_values import PACK, Entry, Gate, pack_data, pack_parts, singles
from sluicegate.streams.contracts.record import Headers, KeptRecord
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.shared import shared_records, shared_runs
from sluicegate.streams.shared.shared_fires import UNDER_WAY, SharedFires
from sluicegate.streams.shared.shared_firing import Made
from sluicegate.streams.shared.shared_leases import SharedLeases
from sluicegate.streams.shared.shared_records import (
    Common,
    RecordOrigin,
    RecordRun,
    encode_item,
    no_records,
    packed,
    packs,
    unpacked,
)
from sluicegate.streams.shared.shared_runs import Packing

COMMON = Common("in", "id", 3, 1.5)


def record(offset: int, value: bytes | None = b"v", headers: Headers | None = None) -> KeptRecord:
    return KeptRecord(
        ("in", 3, offset), b"k", value, [("h", b"x"), ("n", None)] if headers is None else headers, (1, 5)
    )


def a_run(*records: tuple[str, KeptRecord]) -> RecordRun:
    items = [encode_item((record.offset(), record.k, record.v, record.h or None, record.at)) for _, record in records]
    return RecordRun([record.offset() for _, record in records], [group for group, _ in records], items, [], [])


def entries(made: Any) -> list[Entry]:
    return [Entry(case.first, case.first, PACK, case.data, (), case.group) for case in made]


def test_what_is_packed_comes_out_as_it_was_whole_or_one_by_one() -> None:
    headers = [("a", record(7)), ("b", record(8, None, [])), ("a", record(9, b"w"))]
    made = packs(a_run(*headers), COMMON)
    assert [(case.group, case.first, case.items) for case in made] == [("a", "id/3/7", 2), ("b", "id/3/8", 1)]
    single = packed(record(11), "id", 1.5)
    for item in (entries(made), singles(made)):
        records = unpacked([*item, Entry("k", "c", "", single)])
        assert [record.origin for record in records] == [
            RecordOrigin("in", "id", 3, offset) for offset in (7, 9, 8, 11)
        ]
        assert [(message.offset(), message.value(), message.taken_at) for message in records] == [
            (number, value, 1.5) for number, value in enumerate([b"v", b"w", None, b"v"])
        ]
        assert [record.real for record in records] == [headers[0][1], headers[2][1], headers[1][1], record(11)]
    assert [entry.idempotency_key for entry in singles(made)] == ["id/3/7", "id/3/7+1", "id/3/8"]


def test_large_records_and_small_counts_are_cut_into_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_records, "PACK_BYTES", 100)
    run = a_run(*(("a", record(offset, b"v" * 60)) for offset in range(7)))
    made = packs(run, COMMON)
    assert [case.items for case in made] == [2, 2, 2, 1]
    assert len({case.first for case in made}) == 4
    assert [record.origin.offset for record in unpacked(entries(made))] == list(range(7))
    monkeypatch.setattr(shared_records, "PACK_BYTES", 100_000)
    assert [[pack.items for pack in packs(run, COMMON, most)] for most in (3, 7)] == [[3, 3, 1], [7]]


def test_a_pack_ends_with_the_record_that_ends_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(*((group, record(offset, b"v" * 60)) for offset, group in enumerate("aababbaa")))._replace(
        ends=[3, 9, 5]
    )
    tuples = [(pack.group, pack.first, pack.items, pack.ends) for pack in packs(run, COMMON)]
    assert tuples == [("a", "id/3/0", 3, True), ("b", "id/3/2", 3, True), ("a", "id/3/6", 2, False)]
    monkeypatch.setattr(shared_records, "PACK_BYTES", 100)
    assert [pack.ends for pack in packs(run, COMMON)] == [False, True, False, True, False]
    assert [entry.ends for entry in singles(packs(run, COMMON))] == [*[False, False, True] * 2, False, False]


def test_an_insert_has_so_many_records_bytes_and_packs_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(run: RecordRun, count: float = inf) -> list[int]:
        parts = [*shared_runs.parts(run, runs, count)]
        assert [offset for part in parts for offset in part.offsets] == run.offsets
        return [len(part.items) for part in parts]

    buffer: Any = SimpleNamespace(at_once=5)
    runs = Packing("b", Gate(9), buffer, lambda: 1.5)
    run = a_run(*((f"g{offset}", record(offset, b"v" * 60)) for offset in range(7)))
    assert (sizes(run), sizes(no_records())) == ([5, 2], [])
    monkeypatch.setattr(shared_runs, "INSERT_PACKS", 3)
    assert sizes(run) == [2, 3, 2]
    assert sizes(one := RecordRun(run.offsets, ["a"] * 7, run.items, [], [])) == [5, 2]
    assert sizes(one, 1) == [2, 1, 2, 2]  # each of them a pack
    monkeypatch.setattr(shared_runs, "INSERT_BYTES", 100)
    assert sizes(run) == [1] * 7


def test_records_are_packed_as_they_are_read_and_what_cannot_be_used_is_refused() -> None:
    buffer: Any = SimpleNamespace(at_once=5)
    agent = Agent(
        "a", ("in",), Aggregation(key="k", count=9, compute=(Reducer("n", "count"),)), Destination("out"), "dead"
    )
    groups = Groups(Rule(agent, codec("json")))
    values = (b'{"k":"a"}', b"{", b'{"k":"b"}', None, b'{"k":"%s"}' % (b"c" * 999))
    records = [record(offset, value, [] if offset == 3 else None) for offset, value in enumerate(values, 1)]
    run = Packing("b", Gate(9), buffer, lambda: 1.5).read(groups, records)
    assert (run.offsets, run.groups) == ([1, 3], ["a", "b"])
    assert [record.real for record in unpacked(entries(packs(run, COMMON)))] == [records[0], records[2]]
    assert [(event.record.offset(), event.reason) for event in groups.drain() if isinstance(event, Refused)] == [
        (2, "undecodable"),
        (4, "null-value"),
        (5, "too-large"),
    ]


def test_what_is_cut_off_is_no_pack() -> None:
    with pytest.raises(ValueError, match="cut off"):
        pack_parts(pack_data(b"c", [b"item"])[:-1])


class Refusing:
    """A buffer that does not take the batch `bad`, nor anything together with it."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def complete_all(self, name: str, ends: Sequence[Any]) -> list[bool]:
        self.calls.append([batch.token for batch, _ in ends])
        if "bad" in self.calls[-1]:
            raise PersistenceError("too large")
        return [True] * len(ends)

    def due(self, *of: Any) -> list[Any]:
        return []


class AtOnce:
    """Calls that are over when they begin; `running` says how many others are not."""

    running = 0

    def begin(self, call: Any, then: Any, failed: Any) -> None:
        try:
            answer = call()
        except PersistenceError as error:
            failed(error)
        else:
            then(answer)

    def turn(self) -> int:
        return 0


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=0.0)


def fires_of(buffer: Refusing, calls: AtOnce, clock: SimpleNamespace) -> SharedFires:
    firing = SimpleNamespace(made=lambda *of: Made([], [], {}, 0))
    backoff = SimpleNamespace(delay=lambda: 1.0, reset=lambda: None)
    meter = SimpleNamespace(count=lambda *of, **labels: None)
    after: Any = (meter, lambda: clock.now)
    parts: Any = ("b", Gate(2), buffer, calls, lambda batch: None, None, *after, backoff)
    rest: Any = (firing, None, None, calls, *after, lambda: 0.0, backoff)
    return SharedFires(SharedLeases(*parts), *rest)


def batches(*tokens: str) -> Any:
    return [SimpleNamespace(token=token, id=token) for token in tokens]


def test_what_is_sealed_while_the_store_is_busy_is_completed_together(clock: SimpleNamespace) -> None:
    buffer, calls = Refusing(), AtOnce()
    fires = fires_of(buffer, calls, clock)
    calls.running = UNDER_WAY
    for token in ("one", "two"):
        fires.leases.take(batches(token))
        fires.turn(0.0)
    assert buffer.calls == []
    calls.running -= 1
    fires.leases.take(batches("three"))
    fires.turn(0.0)
    assert buffer.calls == [["one", "two", "three"]]


def test_batches_are_completed_together_and_after_a_failure_alone(clock: SimpleNamespace) -> None:
    buffer = Refusing()
    fires = fires_of(buffer, AtOnce(), clock)
    fires.leases.take(batches("one", "bad", "two"))
    fires.turn(0.0)
    assert (buffer.calls, fires.leases.busy) == ([["one", "bad", "two"]], False)
    clock.now = 1.0
    fires.turn(1.0)
    assert buffer.calls[1:] == [["one"], ["bad"], ["two"]]
    clock.now = 2.0
    fires.turn(2.0)
    assert buffer.calls[4:] == [["bad"]]


def test_after_a_failure_of_many_fewer_are_tried_together_then_each_alone_and_then_more_again(
    clock: SimpleNamespace,
) -> None:
    buffer = Refusing()
    fires = fires_of(buffer, AtOnce(), clock)
    fires.leases.take(batches("bad", *(f"b{number}" for number in range(39))))
    sizes = []
    for second in range(6):
        clock.now = float(second)
        fires.turn(clock.now)
        sizes.append([len(call) for call in buffer.calls])
        buffer.calls.clear()
    assert sizes == [[40], [10, 10], [8, 8], [1] * 8 + [14], [1], [1]]
