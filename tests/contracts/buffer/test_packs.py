"""Packs: many records of a group as one thing to insert; everything that counts counts records."""

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.streams.contracts.leased_values import PACK
from sluicegate.streams.errors import ConcurrencyError, WatermarkMoved
from tests.contracts.buffer.given import HOUR, at_once, entries, message, of, sent
from tests.contracts.buffer.packing import pack, put, records
from tests.contracts.leasing import SHORT, WHILE, Clock


@pytest.fixture
def types() -> None:
    """Packs stay bytes."""


def test_a_pack_is_cut_where_the_count_of_its_group_ends(buffer: Any, ns: str) -> None:
    gate = of(4)
    assert put(buffer, ns, [pack("g", 0, 3), pack("h", 3, 2)], gate) == []
    batches = put(buffer, ns, [pack("g", 5, 7), pack("h", 12, 2)], gate, 5)
    assert [(batch.group, batch.reason, records(batch.entries)) for batch in batches] == [
        ("g", "count", [0, 1, 2, 5]),
        ("g", "count", [6, 7, 8, 9]),
        ("h", "count", [3, 4, 12, 13]),
    ]
    assert len({batch.id for batch in batches}) == 3
    assert (buffer.count(ns), buffer.count_resolved(ns)) == (14, 14)
    assert sorted(records(buffer.get_data(ns))) == list(range(14))
    assert [buffer.complete(ns, batch) for batch in batches] == [4, 4, 4]
    assert (buffer.count(ns), records(buffer.iter_raw(ns))) == (2, [10, 11])
    [rest] = put(buffer, ns, [pack("g", 14, 2)], gate, 14)
    assert records(rest.entries) == [10, 11, 14, 15]


def test_a_pack_that_ends_its_group_seals_what_the_count_has_left(buffer: Any, ns: str) -> None:
    gate = of(4)
    assert put(buffer, ns, [pack("g", 0, 3), pack("h", 3, 2)], gate) == []
    packs = [pack("g", 5, 2, ends=True), pack("h", 7, 2, ends=True), pack("g", 9, 2, ends=True), pack("g", 11, 1)]
    batches = put(buffer, ns, packs, gate, 5)
    assert sorted((batch.group, batch.reason, records(batch.entries)) for batch in batches) == [
        ("g", "count", [0, 1, 2, 5]),
        ("g", "until", [6]),
        ("g", "until", [9, 10]),
        ("h", "count", [3, 4, 7, 8]),
    ]
    assert len({batch.id for batch in batches}) == 4
    assert [buffer.complete(ns, batch) for batch in batches] == [len(records(batch.entries)) for batch in batches]
    assert records(buffer.iter_raw(ns)) == [11]
    [rest] = put(buffer, ns, [pack("g", 12, 3)], gate, 12)
    assert (rest.reason, records(rest.entries)) == ("count", [11, 12, 13, 14])


def test_what_is_large_is_cut_and_becomes_rows_as_what_is_small(buffer: Any, ns: str) -> None:
    gate = of(15)
    put(buffer, ns, [pack("g", 0, 9, 200)], gate)
    batches = put(buffer, ns, [pack("g", 9, 40, 200), pack("h", 49, 2, 2000)], gate, 9)
    assert [records(batch.entries) for batch in batches] == [list(range(15)), list(range(15, 30)), list(range(30, 45))]
    assert sorted(records(buffer.get_data(ns))) == list(range(51))
    assert sorted(records(buffer.get_snapshot(ns).entries)) == list(range(45, 51))
    assert [buffer.complete(ns, batch) for batch in batches] == [15] * 3


def test_a_batch_of_packs_comes_again_unchanged_and_is_completed_once(store: Any, ns: str, clock: Clock) -> None:
    gate = of(3, lease=SHORT)
    [first] = put(store.buffer, ns, [pack("g", 0, 2), pack("g", 2, 2)], gate)
    clock.passed(SHORT)
    [again] = store.buffer.due(ns, of(3))
    assert (again.id, again.group, records(again.entries), again.attempts) == (first.id, "g", [0, 1, 2], 2)
    with pytest.raises(ConcurrencyError):
        store.buffer.complete(ns, first, [message(ns, "late")])
    with pytest.raises(ConcurrencyError):
        store.buffer.renew(ns, first.token)
    store.buffer.renew(ns, again.token, HOUR)
    assert list(store.buffer.complete_all(ns, [(first, [message(ns, "late")]), (again, [message(ns, ns)])])) == [
        False,
        True,
    ]
    assert list(store.buffer.complete_all(ns, [(again, [message(ns, "again")])])) == [False]
    assert (sent(store, ns), store.buffer.count(ns), store.buffer.due(ns, gate)) == ([ns], 1, [])


def test_a_released_batch_of_packs_is_handed_out_at_once(buffer: Any, ns: str) -> None:
    [batch] = put(buffer, ns, [pack("g", 0, 2)], of(2))
    assert buffer.due(ns, of(2)) == []
    assert (buffer.release(ns, batch), buffer.release(ns, batch)) == (True, False)
    [again] = buffer.due(ns, of(2))
    assert (again.id, records(again.entries), again.attempts) == (batch.id, [0, 1], 2)
    assert buffer.release(ns, again, 1) is True
    [last] = buffer.due(ns, of(2))
    assert (last.id, records(last.entries), last.attempts) == (batch.id, [0, 1], 2)


def test_many_batches_are_completed_together_and_each_by_itself(store: Any, ns: str) -> None:
    batches = put(store.buffer, ns, [pack(f"g{number}", 10 * number, 10) for number in range(20)], of(5))
    assert len(batches) == 40
    assert store.buffer.complete(ns, batches[7], [message(ns, f"{ns}-07")]) == 5
    ends = [(batch, [message(ns, f"{ns}-{number:02}")]) for number, batch in enumerate(batches)]
    assert list(store.buffer.complete_all(ns, ends)) == [number != 7 for number in range(40)]
    assert (sent(store, ns), store.buffer.count(ns)) == ([f"{ns}-{number:02}" for number in range(40)], 0)


def test_a_batch_that_is_not_as_it_was_sealed_spoils_none_that_is_completed_with_it(store: Any, ns: str) -> None:
    batches = [
        store.buffer.insert_and_seal(ns, entries(at, at + 1, group=f"g{at}"), of(2)).batches[0] for at in (0, 2, 4)
    ]
    store.buffer.remove_one(ns, batches[1].entries[0].correlation_id, force=True)
    assert list(store.buffer.complete_all(ns, [(batch, [message(ns, batch.group)]) for batch in batches])) == [
        True,
        False,
        True,
    ]
    assert (sent(store, ns), store.buffer.count(ns)) == (["g0", "g4"], 1)


def test_deadlines_of_packed_groups_are_those_of_rows(buffer: Any, ns: str, clock: Clock) -> None:
    first, last = of(9, after_first=2 * WHILE), of(9, after_last=2 * WHILE)
    put(buffer, ns, [pack("g", 0, 2)], first)
    put(buffer, f"{ns}-last", [pack("g", 0, 2)], last)
    clock.passed(WHILE)
    put(buffer, ns, [pack("g", 2, 9)], first, 2)
    put(buffer, f"{ns}-last", [pack("g", 2, 2)], last, 2)
    assert [*buffer.due(ns, first), *buffer.due(f"{ns}-last", last)] == []
    clock.passed(WHILE)
    assert [*buffer.due(ns, first), *buffer.due(f"{ns}-last", last)] == []  # one's rest came later, the other's last
    clock.passed(WHILE)
    batches = [*buffer.due(ns, first), *buffer.due(f"{ns}-last", last)]
    assert [(batch.reason, records(batch.entries)) for batch in batches] == [
        ("timeout", [9, 10]),
        ("timeout", [0, 1, 2, 3]),
    ]
    assert [*buffer.due(ns, first), *buffer.due(f"{ns}-last", last)] == []


def test_a_count_that_was_lowered_cuts_what_is_there(buffer: Any, ns: str) -> None:
    put(buffer, ns, [pack("g", 0, 5), pack("g", 5, 5)], of(100))
    seal = buffer.seal(ns, "g", of(3))
    assert (seal.reason, records(seal.entries)) == ("manual", [0, 1, 2])
    batches = put(buffer, ns, [pack("g", 10, 1)], of(3), 10)
    assert [records(batch.entries) for batch in batches] == [[3, 4, 5], [6, 7, 8]]
    assert records(buffer.seal(ns, "g", of(3)).entries) == [9, 10]
    assert buffer.seal(ns, "g", of(3)) is None


def test_packs_move_the_watermark_or_are_not_stored(buffer: Any, ns: str) -> None:
    put(buffer, ns, [pack("g", 0, 2)], of(9))
    with pytest.raises(WatermarkMoved) as raised:
        put(buffer, ns, [pack("g", 0, 2)], of(9))
    assert (raised.value.next, buffer.position(ns, "topic", 0), buffer.count(ns)) == (2, 2, 2)


def test_of_many_that_insert_packs_of_one_place_at_once_one_does(another: Callable[[], Any], ns: str) -> None:
    def insert(item: tuple[Any, int]) -> int:
        try:
            put(item[0].buffer, ns, [pack("g", item[1], 2)], of(9))
        except WatermarkMoved:
            return 0
        return 1

    assert sum(at_once(insert, [(another(), number) for number in range(4)])) == 1
    assert another().buffer.count(ns) == 2


def test_rows_and_packs_of_a_group_are_one_group(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(5, after_first=2 * WHILE)
    put(buffer, ns, [pack("g", 0, 2), pack("h", 2, 2)], gate)
    clock.passed(WHILE)
    [batch] = buffer.insert_and_seal(ns, entries(1, 2, 3, group="g"), gate).batches
    assert ([entry.type for entry in batch.entries], records(batch.entries[:2])) == (
        [PACK, PACK, "json", "json", "json"],
        [0, 1],
    )
    assert [records(batch.entries) for batch in put(buffer, ns, [pack("h", 4, 3)], gate, 4)] == [[2, 3, 4, 5, 6]]
    put(buffer, ns, [pack("h", 7, 1)], gate, 7)
    assert (buffer.count(ns), buffer.complete(ns, batch), buffer.count(ns)) == (11, 5, 6)
    clock.passed(WHILE)
    assert buffer.due(ns, gate) == []
    clock.passed(WHILE)
    assert [records(batch.entries) for batch in buffer.due(ns, gate)] == [[7]]


def test_a_snapshot_has_the_records_of_packs_as_rows(buffer: Any, ns: str) -> None:
    put(buffer, ns, [pack("g", 0, 3), pack("h", 3, 2)], of(9))
    [sealed] = put(buffer, ns, [pack("x", 5, 9)], of(9), 5)
    snapshot = buffer.get_snapshot(ns, 4)
    assert sorted(records(snapshot.entries) + records(buffer.get_snapshot(ns).entries)) == [0, 1, 2, 3, 4]
    assert (len(snapshot.ids), buffer.get_snapshot(ns).leased_elsewhere) == (4, 14)
    assert (buffer.remove_snapshot(ns, snapshot), buffer.count(ns)) == (4, 10)
    assert (buffer.complete(ns, sealed), buffer.count(ns)) == (9, 1)


def test_one_record_of_a_pack_is_removed(buffer: Any, ns: str) -> None:
    put(buffer, ns, [pack("g", 0, 3)], of(9))
    buffer.remove_one(ns, "t/0/0+1")
    assert (records(buffer.get_data(ns)), buffer.count(ns)) == ([0, 2], 2)


def test_everything_is_removed_with_its_packs_sealed_or_not(buffer: Any, ns: str, clock: Clock) -> None:
    gate = of(4, after_first=SHORT)
    [batch] = put(buffer, ns, [pack("g", 0, 7), pack("h", 7, 2)], gate)
    assert (buffer.remove_all(ns), buffer.count(ns), list(buffer.iter_raw(ns))) == (9, 0, [])
    with pytest.raises(ConcurrencyError):
        buffer.complete(ns, batch)
    clock.passed(SHORT)
    assert buffer.due(ns, gate) == []
    assert put(buffer, ns, [pack("g", 9, 3)], gate, 9) == []
    assert buffer.position(ns, "topic", 0) == 12
