"""What a poll returns, and who has it then (behaviours 91 to 102, 127)."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.options import TimeoutOptions
from tests.contracts.timeouts.given import MINUTES, SHORT, Place, ids


def test_091_a_poll_returns_only_what_is_due(place: Place, timeouts: TimeoutStore) -> None:
    due = place.due()
    timeouts.insert(place.later(), due)
    assert ids(timeouts.get_batch()) == [due.id]


def test_092_what_a_poll_returns_is_locked_by_a_fresh_owner_until_the_lease_ends(
    place: Place, timeouts: TimeoutStore
) -> None:
    timeouts.insert(place.due(), place.due())
    before = place.now()
    first, second = timeouts.get_batch(1), timeouts.get_batch(1)
    assert first.owner
    assert second.owner
    assert first.owner != second.owner
    for batch in (first, second):
        assert batch.expires_at is not None
        assert (
            before + MINUTES - timedelta(seconds=2) <= batch.expires_at <= place.now() + MINUTES + timedelta(seconds=2)
        )


def test_093_they_come_by_due_time_and_then_by_id(place: Place, timeouts: TimeoutStore) -> None:
    at = place.due().due_at
    same = [place.due(id=UUID(int=number << 64), due_at=at) for number in (3, 1, 2)]
    early, late = place.due(120), place.due(30)
    timeouts.insert(late, *same, early)
    expected = [early.id, *(UUID(int=number << 64) for number in (1, 2, 3)), late.id]
    assert ids(timeouts.find()) == expected
    assert [id for _ in range(5) for id in ids(timeouts.get_batch(1))] == expected


@pytest.mark.parametrize("size", [0, -1])
def test_094_a_batch_of_less_than_one_is_refused(place: Place, timeouts: TimeoutStore, size: int) -> None:
    timeouts.insert(place.due())
    with pytest.raises(ValueError, match="at least 1"):
        timeouts.get_batch(size)
    assert len(timeouts.get_batch()) == 1


def test_095_without_a_size_it_is_the_cap_of_the_options_or_all(place: Place) -> None:
    timeouts = place.timeouts(batch_size=3)
    timeouts.insert(*(place.due() for _ in range(5)))
    assert len(timeouts.get_batch()) == (5 if place.url.startswith("memory:") else 3)


def test_096_the_cap_is_500_unless_said_otherwise(place: Place) -> None:
    assert TimeoutOptions().batch_size == 500
    timeouts = place.timeouts(batch_size=TimeoutOptions().batch_size)
    timeouts.insert(*(place.due() for _ in range(501)))
    assert len(timeouts.get_batch()) == (501 if place.url.startswith("memory:") else 500)


def test_097_a_size_caps_the_batch_and_the_rest_stays_for_the_next(place: Place, timeouts: TimeoutStore) -> None:
    due = [place.due(100 - number) for number in range(5)]
    timeouts.insert(*due)
    assert [ids(timeouts.get_batch(2)) for _ in range(4)] == [ids(due[:2]), ids(due[2:4]), ids(due[4:]), []]


def test_098_what_is_locked_is_not_returned_to_another(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due())
    assert len(timeouts.get_batch()) == 1
    assert len(timeouts.get_batch()) == 0
    assert len(place.timeouts().get_batch()) == 0


def test_099_two_polls_at_once_never_share_a_timeout(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(*(place.due() for _ in range(200)))
    handles = [timeouts, place.timeouts(), place.timeouts()]

    def drained(handle: TimeoutStore) -> list[UUID]:
        timeout_ids: list[UUID] = []
        while batch := handle.get_batch(7):
            timeout_ids += ids(batch)
        return timeout_ids

    with ThreadPoolExecutor(3) as threads:
        taken = [id for item in threads.map(drained, handles) for id in item]
    assert len(taken) == len(set(taken)) == 200


def test_100_a_lease_that_ran_out_is_taken_by_a_new_owner(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(place.due())
    first = timeouts.get_batch()
    place.until(first.expires_at)
    second = timeouts.get_batch()
    assert ids(second) == ids(first)
    assert second.owner != first.owner
    assert first.expires_at is not None
    assert second.expires_at is not None
    assert second.expires_at > first.expires_at


def test_101_what_is_not_due_is_never_returned_locked_or_not(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    was_locked, never = place.due(), place.later()
    timeouts.insert(was_locked, never)
    batch = timeouts.get_batch()
    assert ids(batch) == [was_locked.id]
    timeouts.reschedule(was_locked.id, place.later().due_at)
    assert len(timeouts.get_batch()) == 0
    place.until(batch.expires_at)
    assert len(timeouts.get_batch()) == 0


def test_102_locked_ones_before_it_do_not_hide_what_is_free(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(*(place.due(100 - number) for number in range(20)))
    locked = timeouts.get_batch(20)
    behind = place.due(10)
    timeouts.insert(behind)
    assert ids(place.timeouts().get_batch(1)) == [behind.id]
    timeouts.release(locked[19].id, locked.owner)
    assert ids(place.timeouts().get_batch(1)) == [locked[19].id]


def test_127_none_comes_before_its_time(place: Place, timeouts: TimeoutStore) -> None:
    soon = place.later(0.3)
    timeouts.insert(soon)
    while not (batch := timeouts.get_batch()):
        if place.is_ours:
            place.clock.now += 0.05
    assert place.now() >= soon.due_at
    assert ids(batch) == [soon.id]
