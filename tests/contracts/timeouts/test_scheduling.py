"""Cancel, reschedule, find and count."""

from datetime import datetime
from uuid import uuid4

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.timeouts.given import Place, ids


def test_cancel_says_whether_it_was_there(place: Place, timeouts: TimeoutStore) -> None:
    due, other = place.due(), place.due()
    timeouts.insert(due, other)
    assert [timeouts.cancel(due.id), timeouts.cancel(due.id), timeouts.cancel(uuid4())] == [True, False, False]
    assert ids(timeouts.get_batch()) == [other.id]


def test_cancel_takes_what_is_leased_too(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due())
    batch = timeouts.get_batch()
    assert timeouts.cancel(batch[0].id)
    with pytest.raises(ConcurrencyError):
        timeouts.remove(batch[0].id, batch.owner)


def test_reschedule_moves_frees_and_keeps_the_rest(place: Place, timeouts: TimeoutStore) -> None:
    due = place.due(key=b"k", value=b"v", headers=[("h", b"1")], owner="o")
    timeouts.insert(due)
    batch = timeouts.get_batch()
    moved = place.later()
    assert timeouts.reschedule(due.id, moved.due_at)
    assert len(timeouts.get_batch()) == 0
    with pytest.raises(ConcurrencyError):
        timeouts.remove(due.id, batch.owner)
    earlier = place.due(30).due_at
    assert timeouts.reschedule(due.id, earlier)
    [stored_timeout] = timeouts.get_batch()
    assert (
        stored_timeout.due_at,
        stored_timeout.key,
        stored_timeout.value,
        stored_timeout.headers,
        stored_timeout.owner,
    ) == (earlier, b"k", b"v", (("h", b"1"),), "o")


def test_reschedule_of_what_is_gone_is_false(place: Place, timeouts: TimeoutStore) -> None:
    assert not timeouts.reschedule(uuid4(), place.due().due_at)
    assert timeouts.count() == 0


def test_reschedule_without_a_time_zone_is_refused(place: Place, timeouts: TimeoutStore) -> None:
    due = place.due()
    timeouts.insert(due)
    with pytest.raises(ValueError, match="time zone"):
        timeouts.reschedule(due.id, datetime(2026, 1, 1))
    assert timeouts.find() == [due]


def test_find_joins_its_conditions_and_leases_nothing(place: Place, timeouts: TimeoutStore) -> None:
    a = place.due(50, destination="a", owner="x", key=b"\0k")
    b = place.due(40, destination="a", owner="y", key=b"\0k")
    c = place.later(60, destination="b", owner="x", key=None)
    timeouts.insert(c, b, a)
    assert timeouts.find() == [a, b, c]
    assert timeouts.find(destination="a") == [a, b]
    assert timeouts.find(owner="x") == [a, c]
    assert timeouts.find(key=b"\0k") == [a, b]
    assert timeouts.find(destination="a", owner="x", key=b"\0k") == [a]
    assert timeouts.find(destination="A") == []
    assert timeouts.find(limit=2) == [a, b]
    assert timeouts.find(owner="x", limit=1) == [a]
    assert ids(timeouts.get_batch()) == [a.id, b.id]
    assert timeouts.find() == [a, b, c]


def test_count_is_of_all_free_or_not_due_or_not(place: Place, timeouts: TimeoutStore) -> None:
    assert timeouts.count() == 0
    timeouts.insert(place.due(), place.due(), place.later())
    timeouts.get_batch(1)
    assert timeouts.count() == 3
