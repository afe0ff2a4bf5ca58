"""Two apps on one store: neither sees, cancels, moves nor sends the timeouts of the other. Those of no app belong to
both, and each is sent once."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.given import claimed
from tests.contracts.timeouts.given import Place, ids
from tests.contracts.timeouts.test_commits import ATOMIC
from tests.mutation.twins import without


@dataclass
class Shared:
    """One store, opened for each of two apps, and for none."""

    place: Place
    one: Any
    two: Any
    none: Any


def opened(place: Place) -> Shared:
    made: list[Any] = [open_store(place.url, app=app) for app in ("one", "two", None)]
    place.opened += made
    for store in made:
        store.migrate()
    return Shared(place, *made)


@pytest.fixture
def shared(place: Place) -> Shared:
    return opened(place)


@ATOMIC
def test_an_id_of_the_app_that_is_there_stays_as_it_is(shared: Shared) -> None:
    first = shared.place.due(value=b"first")
    shared.one.timeouts.insert(first)
    claim = shared.one.claim(Partition("one", "a", "t", 0), "token", "member")
    shared.one.commit(claim, Changes(1, timeouts=[replace(first, value=b"second")]))
    kept = shared.one.timeouts.find()
    emptied(shared)
    assert kept == [first]


def apart(shared: Shared) -> None:
    """Fails where one app reaches the timeouts of the other."""
    due, later = shared.place.due(), shared.place.later()
    one, two = shared.one.timeouts, shared.two.timeouts
    one.insert(due, later)
    assert (two.find(), two.count(), two.next_due(), two.reap_stale_leases()) == ([], 0, None, 0)
    assert not two.get_batch()
    assert not two.cancel(later.id)
    assert not two.reschedule(later.id, due.due_at)
    two.remove(later.id)
    two.release(due.id)
    batch = one.get_batch()
    assert ids(batch) == [due.id]
    assert two.emit(batch) == 0
    for call in (two.remove, two.release):
        with pytest.raises(ConcurrencyError):
            call(due.id, batch.owner)
    assert one.find() == [due, later]
    assert one.emit(batch) == 1
    assert (two.count(), one.cancel(later.id), one.count()) == (0, True, 0)


def emptied(shared: Shared) -> None:
    for store in (shared.one, shared.two):
        for document in store.timeouts.find():
            store.timeouts.cancel(document.id)
        store.outbox.drop([row.message.id for row in store.outbox.find("pending")])


def test_an_app_does_not_reach_the_timeouts_of_another(shared: Shared) -> None:
    try:
        apart(shared)
    finally:
        emptied(shared)


def test_without_the_app_in_the_rows_it_does(place: Place) -> None:
    with without("of-its-app"):
        shared = opened(place)
        with pytest.raises(AssertionError):
            apart(shared)
        emptied(shared)


@ATOMIC
def test_a_commit_schedules_for_its_app_and_cancels_there(shared: Shared, partition: Partition) -> None:
    """`partition` is of the same name in both apps."""
    place, one, two = shared.place, shared.one, shared.two
    mine, other = place.later(), place.later()
    claim = one.commit(claimed(one, partition), Changes(1, timeouts=[mine]))
    beside = two.commit(claimed(two, partition._replace(app="two")), Changes(1, timeouts=[other], cancels=[mine.id]))
    assert (one.timeouts.find(), two.timeouts.find(), shared.none.timeouts.find()) == ([mine], [other], [])
    one.commit(claim, Changes(2, cancels=[mine.id, other.id]))
    assert (one.timeouts.find(), two.timeouts.find()) == ([], [other])
    two.commit(beside, Changes(2, cancels=[other.id]))
    assert two.timeouts.count() == 0


def taken(timeouts: TimeoutStore) -> list[UUID]:
    """The ids of all that are due, emitted."""
    timeout_ids: list[UUID] = []
    batch: TimeoutBatch
    while batch := timeouts.get_batch(2):
        timeout_ids += ids(batch)
        assert timeouts.emit(batch) == len(batch)
    return timeout_ids


def test_those_of_no_app_are_of_all_and_are_sent_once(shared: Shared) -> None:
    """As rows of a store from before timeouts had an app."""
    place, none = shared.place, shared.none.timeouts
    own, common = [place.due() for _ in range(3)], [place.due() for _ in range(5)]
    shared.one.timeouts.insert(*own)
    none.insert(*common)
    assert (none.count(), shared.one.timeouts.count(), shared.two.timeouts.count()) == (5, 8, 5)
    assert set(ids(shared.two.timeouts.find())) == set(ids(common))
    batch = shared.two.timeouts.get_batch(1)
    assert shared.two.timeouts.emit(batch) == 1
    assert sorted([*ids(batch), *taken(shared.one.timeouts)]) == sorted(ids([*own, *common]))
    assert (none.count(), shared.one.timeouts.count()) == (0, 0)
    emptied(shared)


@ATOMIC
def test_a_commit_cancels_and_keeps_what_was_scheduled_before_rows_had_an_app(
    shared: Shared, partition: Partition
) -> None:
    place, one = shared.place, shared.one
    before, stays = place.later(), place.later(value=b"first")
    shared.none.timeouts.insert(before, stays)
    second = Timeout(stays.id, stays.destination, stays.due_at, value=b"second")
    one.commit(claimed(one, partition), Changes(1, timeouts=[second], cancels=[before.id]))
    assert one.timeouts.find() == [stays]
    assert one.timeouts.cancel(stays.id)
