"""Timeouts that recur: the next one takes the place of the one that was emitted, in one transaction."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sluicegate.streams.contracts.headers import DUE_AT, EVERY
from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from tests.contracts.timeouts.given import MINUTES, SHORT, Place
from tests.contracts.timeouts.test_emission import sent

HOURLY = "1h"


def hourly(place: Place) -> Timeout:
    """Due since half an hour."""
    due = place.due()
    return replace(due, due_at=due.due_at - timedelta(minutes=30), every=HOURLY)


def test_the_next_one_takes_the_place_of_the_one_that_was_emitted(place: Place, timeouts: TimeoutStore) -> None:
    first = hourly(place)
    once = place.due()
    timeouts.insert(first, once)
    assert timeouts.emit(timeouts.get_batch()) == 2
    [following] = timeouts.find()
    assert (following.id, following.every, following.due_at) == (first.id, HOURLY, first.due_at + timedelta(hours=1))
    assert (following.key, following.value, following.owner) == (first.key, first.value, first.owner)
    assert not timeouts.get_batch()
    [row] = sent(place, first)
    headers = dict(row.message.headers)
    assert headers[EVERY] == b"1h"
    assert datetime.fromisoformat((headers[DUE_AT] or b"").decode()) - first.due_at < timedelta(milliseconds=1)


def two_emit(place: Place) -> tuple[int, int]:
    """The first one's lease ran out before it emitted; the messages, and the timeouts that are left."""
    brief, long = place.timeouts(lease=SHORT), place.timeouts(lease=MINUTES)
    first = hourly(place)
    brief.insert(first)
    late = brief.get_batch()
    place.until(late.expires_at)
    assert long.emit(long.get_batch()) == 1
    assert (brief.emit(late), long.emit(late)) == (0, 0)
    return len(sent(place, first)), long.count()


def test_a_process_whose_lease_ended_adds_no_message_and_no_next_one(place: Place) -> None:
    assert two_emit(place) == (1, 1)


def test_one_that_waits_can_be_cancelled_moved_and_not_inserted_again(place: Place, timeouts: TimeoutStore) -> None:
    first = hourly(place)
    timeouts.insert(first)
    timeouts.emit(timeouts.get_batch())
    with pytest.raises(Exception, match="already exists"):
        timeouts.insert(first)
    assert timeouts.reschedule(first.id, first.due_at)
    timeouts.emit(timeouts.get_batch())
    assert [document.every for document in timeouts.find()] == [HOURLY]
    assert (timeouts.cancel(first.id), timeouts.count()) == (True, 0)


def test_one_that_was_cancelled_while_it_was_locked_does_not_come_back(place: Place, timeouts: TimeoutStore) -> None:
    first = hourly(place)
    timeouts.insert(first)
    batch = timeouts.get_batch()
    assert timeouts.cancel(first.id)
    assert (timeouts.emit(batch), timeouts.count()) == (0, 0)


def test_what_passed_while_nothing_ran_is_sent_once(place: Place, timeouts: TimeoutStore) -> None:
    due = place.due()
    old = replace(due, due_at=due.due_at - timedelta(days=2, minutes=30), every=HOURLY)
    timeouts.insert(old)
    assert (timeouts.emit(timeouts.get_batch()), len(timeouts.get_batch())) == (1, 0)
    [following] = timeouts.find()
    assert following.due_at == old.due_at + timedelta(hours=49)


def test_many_of_a_batch_recur(place: Place, timeouts: TimeoutStore) -> None:
    every = [hourly(place) for _ in range(5)]
    timeouts.insert(*every)
    batch = timeouts.get_batch()
    part = TimeoutBatch(batch.timeouts[:3], batch.owner, batch.expires_at, None)
    assert (timeouts.emit(part), timeouts.emit(batch), timeouts.count()) == (3, 2, 5)


def test_a_timeout_says_at_once_that_it_recurs_at_no_time() -> None:
    with pytest.raises(ValueError, match="minute"):
        replace(Timeout(Place("memory://").due().id, "t", datetime.now(UTC)), every="61 * * * *")
