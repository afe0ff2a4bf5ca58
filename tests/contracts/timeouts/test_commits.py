"""`Changes.timeouts` and `Changes.cancels`: what a handler scheduled is part of its commit."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced
from tests.contracts.given import claimed, picture
from tests.contracts.timeouts.given import Place, error_of, ids
from tests.mutation.twins import without

ATOMIC = pytest.mark.parametrize(
    "backend", ["memory", "sqlite", "redis", "mongodb", "postgresql", "mariadb"], indirect=True
)
"""A cluster has the partition on one node and the timeouts on another."""
WAYS = pytest.mark.parametrize("way", ["commit", "commit_all", "commit_with"])


@pytest.fixture
def store(place: Place) -> Any:
    return place.opened[0]


@pytest.fixture
def _no_fence() -> Iterator[None]:
    with without("fence"):
        yield


def committed(store: Any, way: str, claim: Claim, changes: Changes) -> Claim:
    if way == "commit":
        return store.commit(claim, changes)  # type: ignore[no-any-return]
    if way == "commit_with":
        return store.commit_with(claim, lambda session: changes)  # type: ignore[no-any-return]
    [result] = store.commit_all([(claim, changes)])
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


@ATOMIC
@WAYS
def test_a_commit_schedules(place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str) -> None:
    due = place.due(50, key=b"\0k", value=b"\0v", headers=[("h", None), ("h", b"\xff")], owner="o")
    later = place.later(key=None, value=None)
    committed(store, way, claimed(store, partition), Changes(1, timeouts=[later, due]))
    assert timeouts.find() == [due, later]
    assert list(timeouts.get_batch()) == [due]


@ATOMIC
@WAYS
def test_a_commit_cancels(place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str) -> None:
    gone, leased, stays = place.due(60), place.due(50), place.later()
    timeouts.insert(leased)
    batch = timeouts.get_batch()
    timeouts.insert(gone, stays)
    committed(store, way, claimed(store, partition), Changes(1, cancels=[gone.id, uuid4(), leased.id]))
    assert timeouts.find() == [stays]
    assert timeouts.emit(batch) == 0


@ATOMIC
@WAYS
def test_an_id_that_is_there_stays_as_it_is(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    first = place.due(value=b"first")
    timeouts.insert(first)
    batch = timeouts.get_batch()
    other = place.later()
    committed(store, way, claimed(store, partition), Changes(1, timeouts=[replace(first, value=b"second"), other]))
    assert timeouts.find() == [first, other]
    assert timeouts.emit(batch) == 1


@ATOMIC
@WAYS
def test_cancels_come_first_so_that_a_name_is_moved(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    before = place.due(value=b"before")
    timeouts.insert(before)
    after = place.later(id=before.id, value=b"after")
    committed(store, way, claimed(store, partition), Changes(1, timeouts=[after], cancels=[before.id]))
    assert timeouts.find() == [after]


def a_fenced_commit_schedules_nothing(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    stays = place.due()
    timeouts.insert(stays)
    zombie = claimed(store, partition)
    claimed(store, partition)
    raised = error_of(lambda: committed(store, way, zombie, Changes(1, timeouts=[place.due()], cancels=[stays.id])))
    assert timeouts.find() == [stays]
    assert raised is Fenced


@ATOMIC
@WAYS
def test_a_fenced_commit_schedules_and_cancels_nothing(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    a_fenced_commit_schedules_nothing(place, store, timeouts, partition, way)


@ATOMIC
@WAYS
@pytest.mark.usefixtures("_no_fence")
def test_without_the_fence_a_zombie_schedules(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    with pytest.raises(AssertionError):
        a_fenced_commit_schedules_nothing(place, store, timeouts, partition, way)


@ATOMIC
def test_of_two_commits_at_once_the_fenced_one_schedules_nothing(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition
) -> None:
    claim, zombie = claimed(store, partition), claimed(store, partition._replace(number=9))
    claimed(store, zombie.partition)
    mine = place.due()
    store.commit_all([(zombie, Changes(1, timeouts=[place.due()])), (claim, Changes(1, timeouts=[mine]))])
    assert timeouts.find() == [mine]


@ATOMIC
def test_work_that_raises_schedules_nothing(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition
) -> None:
    stays = place.due()
    timeouts.insert(stays)
    claim = claimed(store, partition)
    before = picture(store, partition)

    def work(session: Any) -> Changes:
        raise LookupError

    with pytest.raises(LookupError):
        store.commit_with(claim, work)
    assert (timeouts.find(), picture(store, partition)) == ([stays], before)


@ATOMIC
def test_a_large_commit_schedules_and_cancels_all(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition
) -> None:
    many = [place.due(value=b"x" * 100) for _ in range(1200)]
    claim = store.commit(claimed(store, partition), Changes(1, timeouts=many))
    assert sorted(ids(timeouts.find(limit=5000))) == sorted(ids(many))
    store.commit(claim, Changes(2, cancels=ids(many[1:])))
    assert ids(timeouts.find()) == ids(many[:1])


@pytest.mark.parametrize("backend", ["redis-cluster"], indirect=True)
@WAYS
def test_a_cluster_refuses_a_commit_that_schedules(
    place: Place, store: Any, timeouts: TimeoutStore, partition: Partition, way: str
) -> None:
    claim = claimed(store, partition)
    before = picture(store, partition)
    for changes in (Changes(1, timeouts=[place.due()]), Changes(1, cancels=[uuid4()])):
        with pytest.raises(ConfigurationError, match="cluster"):
            committed(store, way, claim, changes)
    assert picture(store, partition) == before
    assert timeouts.count() == 0
