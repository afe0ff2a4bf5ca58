"""A buffer whose store had a clock that was an hour ahead, and is right again: nothing waits for that hour."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import EntryDue, Gate, PositionMove
from tests.contracts.buffer.given import HOUR, entries, entry, keys, of
from tests.contracts.buffer.packing import pack
from tests.contracts.leasing import Real, decoders, leased_store
from tests.contracts.stepping import Stepped
from tests.mutation.twins import without

AFTER = timedelta(seconds=20)
SOON = timedelta(seconds=5)
"""What the calls of a test take on a busy machine."""
LEASE = timedelta(seconds=30)

Insert = Callable[[Any, str, Gate, int], object]
"""Inserts an entry of this number into the group `g`."""


@pytest.fixture
def make(store_url: str, stepped: Stepped) -> Callable[[], Any]:
    return lambda: leased_store(store_url, Real(), decoders() | {"pack": bytes})


def insert_rows(buffer: Any, ns: str, gate: Gate, number: int) -> None:
    buffer.insert_and_seal(ns, entries(number, group="g"), gate)


def insert_packs(buffer: Any, ns: str, gate: Gate, number: int) -> None:
    expected = buffer.position(ns, "topic", 0)
    buffer.insert_packs(ns, [pack("g", number, 1)], gate, PositionMove("topic", 0, expected, expected + 1))


def insert_dues(buffer: Any, ns: str, gate: Gate, number: int) -> None:
    """The first gives a deadline since its insert, and so does the last."""
    buffer.insert_and_seal(ns, [entry(number, group="g", due=DUE) if number != 2 else entry(2, group="g")], gate)


def insert_packed_dues(buffer: Any, ns: str, gate: Gate, number: int) -> None:
    expected = buffer.position(ns, "topic", 0)
    due = EntryDue("first", length(AFTER)) if number == 1 else None
    packs = [pack("g", number, 1)._replace(due=due)]
    buffer.insert_packs(ns, packs, gate, PositionMove("topic", 0, expected, expected + 1))


def fires_in_time(buffer: Any, ns: str, stepped: Stepped, insert: Insert, gate: Gate) -> None:
    """A group of a clock that was ahead has its timeout `after` the time at which the clock is right, not before."""
    stepped.later(HOUR)
    for number in (1, 2, 3):
        insert(buffer, ns, gate, number)
        stepped.later(timedelta(seconds=1))
    stepped.later(-HOUR)
    assert buffer.due(ns, gate) == []
    stepped.later(AFTER - SOON)
    assert buffer.due(ns, gate) == []
    stepped.later(SOON)
    [batch] = buffer.due(ns, gate)
    assert (batch.group, batch.reason, len(batch.entries)) == ("g", "timeout", len(buffer.get_data(ns)))


def batch_is_free_in_time(buffer: Any, ns: str, stepped: Stepped, insert: Insert, gate: Gate) -> None:
    """A batch that was leased, and one whose lease was renewed, by a clock that was ahead."""
    gate = of(1, lease=LEASE)
    stepped.later(HOUR)
    [one] = buffer.insert_and_seal(ns, entries(1, group="g"), gate).batches
    [two] = buffer.insert_and_seal(ns, entries(2, group="g"), gate).batches
    buffer.renew(ns, two.token, LEASE)
    stepped.later(-HOUR)
    assert buffer.due(ns, gate) == []
    stepped.later(LEASE - SOON)
    assert buffer.due(ns, gate) == []
    stepped.later(SOON)
    assert sorted(batch.id for batch in buffer.due(ns, gate)) == sorted([one.id, two.id])


def snapshot_is_free_in_time(buffer: Any, ns: str, stepped: Stepped, insert: Insert, gate: Gate) -> None:
    buffer.insert(ns, entries(1, 2))
    stepped.later(HOUR)
    snapshot = buffer.get_snapshot(ns, 1, lease=LEASE)
    buffer.renew(ns, buffer.get_snapshot(ns, 1, lease=LEASE).token, LEASE)
    stepped.later(-HOUR)
    assert buffer.get_snapshot(ns).leased_elsewhere == 2
    stepped.later(LEASE - SOON)
    assert buffer.get_snapshot(ns).leased_elsewhere == 2
    stepped.later(SOON)
    assert keys(buffer.get_snapshot(ns).entries) == ["m1", "m2"]
    assert buffer.remove_snapshot(ns, snapshot) == 0


def key_is_forgotten_in_time(buffer: Any, ns: str, stepped: Stepped, insert: Insert, gate: Gate) -> None:
    buffer.insert(ns, entries(1, 2), keep_keys=AFTER)
    buffer.remove_one(ns, "c1")
    stepped.later(HOUR)
    buffer.remove_one(ns, "c2")
    stepped.later(-HOUR)
    assert buffer.insert(ns, entries(1, 2), keep_keys=AFTER) == (0, 2)
    stepped.later(AFTER)
    assert buffer.insert(ns, entries(1, 2), keep_keys=AFTER) == (2, 0)


DUE, DUES = EntryDue("last", length(AFTER)), Gate(100, after_first=timedelta(days=9), dues=True)
FIRST, LAST = Gate(after_first=AFTER), Gate(100, after_last=AFTER)
CASES = {
    "rows-first": (fires_in_time, insert_rows, FIRST),
    "rows-last": (fires_in_time, insert_rows, LAST),
    "packs-first": (fires_in_time, insert_packs, FIRST),
    "packs-last": (fires_in_time, insert_packs, LAST),
    "rows-due": (fires_in_time, insert_dues, DUES),
    "packs-due": (fires_in_time, insert_packed_dues, Gate(dues=True)),
    "batch": (batch_is_free_in_time, insert_rows, FIRST),
    "snapshot": (snapshot_is_free_in_time, insert_rows, FIRST),
    "key": (key_is_forgotten_in_time, insert_rows, FIRST),
}
each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_nothing_waits_for_a_clock_that_was_ahead(
    make: Callable[[], Any], ns: str, stepped: Stepped, case: str
) -> None:
    scenario, insert, gate = CASES[case]
    store = make()
    scenario(store.buffer, ns, stepped, insert, gate)
    store.close()


@each_case
def test_without_setting_back_it_waits(make: Callable[[], Any], ns: str, stepped: Stepped, case: str) -> None:
    scenario, insert, gate = CASES[case]
    with without("buffer-set-back"):
        store = make()
        with pytest.raises((AssertionError, ValueError)):
            scenario(store.buffer, ns, stepped, insert, gate)
        store.close()
