"""The life of a timeout from its insert to its end, by one instance or several."""

from datetime import timedelta

from sluicegate.streams.contracts.leased import TimeoutStore
from tests.contracts.timeouts.given import Place, ids


def test_222_due_timeouts_of_the_scheduled_table_are_emitted(place: Place) -> None:
    store = place.store()
    due, later = place.due(), place.later()
    store.timeouts.insert(due, later)
    batch = store.timeouts.get_batch()
    assert store.timeouts.emit(batch) == 1
    assert [row.message.topic for row in store.outbox.find(topic=due.destination)] == [due.destination]
    assert (ids(store.timeouts.find()), store.outbox.find(topic=later.destination)) == ([later.id], [])


def test_232_a_batch_has_what_is_due_and_only_a_hint_of_what_follows(place: Place, timeouts: TimeoutStore) -> None:
    due, later = place.due(), place.later()
    timeouts.insert(due, later)
    batch = timeouts.get_batch()
    assert (ids(batch), batch.next_due) == ([due.id], later.due_at)
    assert timeouts.next_due() == later.due_at


def test_233_one_instance_needs_no_owner_and_several_share_without_overlap(
    place: Place, timeouts: TimeoutStore
) -> None:
    timeouts.insert(*[place.due() for _ in range(6)])
    first, second = timeouts.get_batch(4), place.timeouts().get_batch()
    assert (len(first), len(second), set(ids(first)) & set(ids(second))) == (4, 2, set())
    for entry in (*first, *second):
        timeouts.remove(entry.id)
    assert (timeouts.count(), timeouts.reap_stale_leases()) == (0, 0)


def test_234_remove_commits_and_release_rolls_back(place: Place, timeouts: TimeoutStore) -> None:
    done, failed = place.due(2), place.due(1)
    timeouts.insert(done, failed)
    batch = timeouts.get_batch()
    timeouts.remove(done.id, batch.owner)
    timeouts.release(failed.id, batch.owner)
    assert ids(timeouts.get_batch()) == [failed.id]


def test_235_leases_that_ran_out_are_reaped_by_whoever_asks(place: Place) -> None:
    timeouts = place.timeouts(lease=timedelta(milliseconds=200))
    timeouts.insert(place.due(), place.due())
    batch = timeouts.get_batch()
    place.until(batch.expires_at)
    assert (place.timeouts().reap_stale_leases(), place.timeouts().reap_stale_leases()) == (2, 0)
