"""Remove, release, reap, and who may (behaviours 103 to 116, 128)."""

from uuid import uuid4

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import TimeoutBatch
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.timeouts.given import MINUTES, SHORT, Place, error_of, ids


def polled(timeouts: TimeoutStore, count: int = 1) -> TimeoutBatch:
    batch = timeouts.get_batch(count)
    assert len(batch) == count
    return batch


def test_103_remove_without_an_owner_removes_what_is_leased_too(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due(), place.due())
    [leased] = polled(timeouts)
    [free] = [document for document in timeouts.find() if document != leased]
    timeouts.remove(leased.id)
    assert timeouts.find() == [free]
    timeouts.remove(free.id)
    assert timeouts.count() == 0


def test_104_remove_without_an_owner_of_what_is_gone_is_silent(place: Place, timeouts: TimeoutStore) -> None:
    due = place.due()
    timeouts.insert(due)
    for id in (due.id, due.id, uuid4()):
        timeouts.remove(id)
    assert timeouts.count() == 0


def test_105_remove_by_the_owner_of_a_live_lease_deletes(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due(), place.due())
    batch = polled(timeouts)
    timeouts.remove(batch[0].id, batch.owner)
    assert ids(timeouts.find()) == ids(timeouts.get_batch())
    assert timeouts.count() == 1


def test_106_remove_by_another_owner_is_refused_and_changes_nothing(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due(), place.due())
    batch, other = polled(timeouts), polled(timeouts)
    for owner in (other.owner, "nobody", ""):
        with pytest.raises(ConcurrencyError):
            timeouts.remove(batch[0].id, owner)
    assert timeouts.count() == 2
    timeouts.remove(batch[0].id, batch.owner)


def test_107_remove_by_an_owner_whose_lease_ran_out_and_was_taken_is_refused(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(place.due())
    batch = polled(timeouts)
    place.until(batch.expires_at)
    taken = polled(place.timeouts(lease=MINUTES))
    with pytest.raises(ConcurrencyError):
        timeouts.remove(batch[0].id, batch.owner)
    timeouts.remove(taken[0].id, taken.owner)
    assert timeouts.count() == 0


def test_108_remove_after_the_lease_ran_out_is_refused_even_if_nobody_took_it(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(place.due())
    batch = polled(timeouts)
    place.until(batch.expires_at)
    with pytest.raises(ConcurrencyError):
        timeouts.remove(batch[0].id, batch.owner)
    assert timeouts.count() == 1


def test_109_remove_by_an_owner_of_what_is_gone_is_refused(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due())
    batch = polled(timeouts)
    timeouts.remove(batch[0].id, batch.owner)
    with pytest.raises(ConcurrencyError):
        timeouts.remove(batch[0].id, batch.owner)
    with pytest.raises(ConcurrencyError):
        timeouts.remove(uuid4(), batch.owner)


def test_110_what_is_released_comes_with_the_next_poll(place: Place, timeouts: TimeoutStore) -> None:
    timeouts.insert(place.due(100), place.due(90))
    batch = polled(timeouts, 2)
    timeouts.release(batch[0].id, batch.owner)
    again = timeouts.get_batch()
    assert ids(again) == [batch[0].id]
    timeouts.release(batch[0].id)
    assert ids(timeouts.get_batch()) == [batch[0].id]
    with pytest.raises(ConcurrencyError):
        timeouts.remove(batch[0].id, again.owner)


def test_111_release_by_another_owner_is_refused_and_of_what_is_gone_is_silent(
    place: Place, timeouts: TimeoutStore
) -> None:
    timeouts.insert(place.due(), place.due())
    batch, other = polled(timeouts), polled(timeouts)
    with pytest.raises(ConcurrencyError):
        timeouts.release(batch[0].id, other.owner)
    assert len(timeouts.get_batch()) == 0
    timeouts.release(uuid4())
    with pytest.raises(ConcurrencyError):
        timeouts.release(uuid4(), batch.owner)


def test_release_after_the_lease_ran_out_is_refused(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(place.due())
    batch = polled(timeouts)
    place.until(batch.expires_at)
    taken = polled(place.timeouts(lease=MINUTES))
    with pytest.raises(ConcurrencyError):
        timeouts.release(batch[0].id, batch.owner)
    timeouts.remove(taken[0].id, taken.owner)


def test_113_reap_returns_0_where_no_lease_is_over(place: Place, timeouts: TimeoutStore) -> None:
    assert timeouts.reap_stale_leases() == 0
    timeouts.insert(place.due())
    assert timeouts.reap_stale_leases() == 0


def test_114_reap_clears_leases_that_are_over_and_returns_how_many(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(*(place.due() for _ in range(3)))
    batch = polled(timeouts, 3)
    place.until(batch.expires_at)
    assert timeouts.reap_stale_leases() == 3
    assert timeouts.reap_stale_leases() == 0
    assert timeouts.count() == 3
    assert sorted(ids(place.timeouts().get_batch())) == sorted(ids(batch))


def test_115_reap_leaves_live_leases_and_free_ones_alone(place: Place) -> None:
    brief, long = place.timeouts(lease=SHORT), place.timeouts(lease=MINUTES)
    brief.insert(*(place.due(100 - number) for number in range(3)))
    over, live = polled(brief), polled(long)
    place.until(over.expires_at)
    assert long.reap_stale_leases() == 1
    long.remove(live[0].id, live.owner)
    assert len(long.get_batch()) == 2


def test_116_a_lease_that_is_over_needs_no_reaping(place: Place) -> None:
    timeouts = place.timeouts(lease=SHORT)
    timeouts.insert(*(place.due() for _ in range(3)))
    batch = polled(timeouts, 3)
    place.until(batch.expires_at)
    assert sorted(ids(place.timeouts(lease=MINUTES).get_batch())) == sorted(ids(batch))
    assert timeouts.reap_stale_leases() == 0


def test_128_a_lease_means_the_same_to_every_call(place: Place) -> None:
    """Live: only its owner may. Over: nobody may in its name, whoever calls, taken or not."""
    timeouts, other = place.timeouts(lease=SHORT), place.timeouts(lease=MINUTES)
    timeouts.insert(place.due())
    batch = polled(timeouts)
    id = batch[0].id
    place.until(batch.expires_at)
    over = [
        error_of(lambda: timeouts.remove(id, batch.owner)),
        error_of(lambda: timeouts.release(id, batch.owner)),
        timeouts.emit(batch),
    ]
    assert over == [ConcurrencyError, ConcurrencyError, 0]
    live = polled(other)
    calls = [
        error_of(lambda: other.remove(id, "x")),
        error_of(lambda: other.release(id, "x")),
        other.emit(batch),
        len(other.get_batch()),
    ]
    assert calls == [ConcurrencyError, ConcurrencyError, 0, 0]
    assert error_of(lambda: other.release(id, live.owner)) is None
    assert ids(other.get_batch()) == [id]
