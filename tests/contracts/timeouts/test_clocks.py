"""Timeouts that a store wrote while its clock was ahead: they are due `after` from the time at which the clock is right
again. The rows are those that a store with such a clock writes."""

from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.given import claimed
from tests.contracts.stepping import Stepped
from tests.contracts.timeouts.given import MINUTES, SHORT, Place, ids
from tests.contracts.timeouts.test_commits import ATOMIC
from tests.mutation.twins import without

HOUR = timedelta(hours=1)


def ahead(place: Place, after: timedelta = SHORT) -> Timeout:
    """Scheduled by a clock that was an hour ahead."""
    return place.due(-(HOUR + after).total_seconds(), after=after)


def is_due_in_time(place: Place, timeouts: TimeoutStore, timeout: Timeout) -> None:
    assert not timeouts.get_batch()
    [stored] = timeouts.find()
    assert (stored.id, stored.after) == (timeout.id, SHORT)
    assert place.now() < stored.due_at + SHORT < place.now() + 3 * SHORT
    place.until(stored.due_at)
    batch = timeouts.get_batch()
    assert ids(batch) == [timeout.id]
    assert timeouts.emit(batch) == 1


def test_what_was_inserted_ahead_is_due_after_its_own_time(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(timeout := ahead(place))
    is_due_in_time(place, timeouts, timeout)


@ATOMIC
def test_what_a_commit_scheduled_ahead_is_due_after_its_own_time(
    place: Place, timeouts: TimeoutStore, partition: Partition
) -> None:
    store: Any = place.opened[0]
    store.commit(claimed(store, partition), Changes(1, timeouts=[timeout := ahead(place)]))
    is_due_in_time(place, timeouts, timeout)


def test_without_the_cut_it_waits_for_the_clock_of_then(place: Place) -> None:
    with without("timeout-set-back"):
        timeouts = place.timeouts()
        timeouts.insert(timeout := ahead(place))
        with pytest.raises(AssertionError):
            is_due_in_time(place, timeouts, timeout)


def lock_ends_in_time(place: Place, timeouts: TimeoutStore, stepped: Stepped) -> None:
    """The process that locked two timeouts died while the clock was ahead. One of them was scheduled then."""
    due = place.due(), place.due(-HOUR.total_seconds() + 1, after=SHORT)
    stepped.later(HOUR)
    timeouts.insert(*due)
    assert len(timeouts.get_batch()) == 2
    stepped.later(-HOUR)
    assert not timeouts.get_batch()
    stepped.later(MINUTES - timedelta(seconds=5))
    assert not timeouts.get_batch()
    stepped.later(timedelta(seconds=5))
    assert ids(timeouts.get_batch()) == [due[0].id]
    stepped.later(SHORT)
    assert ids(timeouts.get_batch()) == [due[1].id]


def test_a_lock_of_a_clock_that_was_ahead_ends_after_its_own_time(stepped: Stepped, place: Place) -> None:
    lock_ends_in_time(place, place.timeouts(), stepped)


@pytest.mark.parametrize("name", ["timeout-lock-set-back", "timeout-scheduled-lock-set-back"])
def test_without_the_cut_of_locks_it_waits(stepped: Stepped, place: Place, backend: str, name: str) -> None:
    if name == "timeout-scheduled-lock-set-back" and backend not in ("sqlite", "postgresql", "mariadb", "mongodb"):
        pytest.skip("one search finds both")
    with without(name):
        timeouts = place.timeouts()
        with pytest.raises(AssertionError):
            lock_ends_in_time(place, timeouts, stepped)


def test_many_are_set_back_at_once(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(*(ahead(place, timedelta(minutes=1)) for _ in range(2_300)))
    assert not timeouts.get_batch()
    assert all(timeout.due_at < place.now() + timedelta(minutes=2) for timeout in timeouts.find(limit=10_000))


def test_times_of_a_right_clock_and_given_times_stay(place: Place, timeouts: TimeoutStore) -> None:
    right, later = place.later(60, after=timedelta(seconds=70)), place.later(7200)
    timeouts.insert(right, later)
    assert not timeouts.get_batch()
    assert timeouts.find() == [right, later]


def test_a_time_that_a_person_chose_stays(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(timeout := ahead(place))
    due_at = place.later(7200).due_at
    assert timeouts.reschedule(timeout.id, due_at)
    assert not timeouts.get_batch()
    assert [(timeout.due_at, timeout.after) for timeout in timeouts.find()] == [(due_at, None)]


def test_what_is_gone_leaves_nothing(place: Place, timeouts: TimeoutStore) -> None:
    cancelled, removed, again = ahead(place), ahead(place), ahead(place)
    timeouts.insert(cancelled, removed)
    assert timeouts.cancel(cancelled.id)
    timeouts.remove(removed.id)
    timeouts.insert(again)
    is_due_in_time(place, timeouts, again)
    assert timeouts.count() == 0
