"""Partitions that commit together, and what becomes of one that cannot."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import PersistenceError, SluicegateError
from sluicegate.streams.ownership.claiming.retries import ClaimRetries
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent, feed, totals

GOOD, BAD = 0, 1


def watched(store: MemoryStore) -> list[int]:
    """How many partitions were in each commit of several."""
    sizes: list[int] = []
    commit_all = store.commit_all

    def counted(commits: Sequence[Any]) -> Any:
        sizes.append(len(commits))
        return commit_all(commits)

    store.commit_all = counted  # type: ignore[method-assign]
    return sizes


def test_partitions_with_work_commit_together(store: MemoryStore, clock: ManualClock) -> None:
    log, sizes = a_log(partitions=3), watched(store)
    driver = Driver(an_agent(count=2), store, log, clock).give(0, 1, 2).turns()
    for number in range(3):
        feed(log, ("k", 1), ("k", 2), number=number)
    driver.turns()
    assert 3 in sizes
    assert totals(log) == [("k", "count", 2, 3)] * 3


def test_one_that_is_fenced_in_a_common_commit_costs_the_others_nothing(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    driver = Driver(an_agent(count=2), store, log, clock).give(GOOD, BAD).turns()
    feed(log, ("k", 1), number=GOOD)
    feed(log, ("k", 1), number=BAD)
    driver.turns()
    store.claim(Partition("app", "sums", "in", BAD), "another", "somebody")
    feed(log, ("k", 2), number=GOOD)
    feed(log, ("k", 2), number=BAD)
    driver.turns(2)
    assert set(driver.worker._owners) == {("in", GOOD)}
    assert totals(log) == [("k", "count", 2, 3)]
    driver.later(1).turns()
    assert totals(log) == [("k", "count", 2, 3)] * 2


def spoiled(store: MemoryStore) -> None:
    """As a server whose rows of partition BAD are damaged: no transaction with it succeeds."""
    commit = store.commit

    def broken(claim: Any, changes: Any) -> Any:
        if claim.partition.number == BAD and changes.entries:
            raise PersistenceError("damaged")
        return commit(claim, changes)

    def all_or_none(commits: Sequence[Any]) -> Sequence[Any]:
        if any(claim.partition.number == BAD and changes.entries for claim, changes in commits):
            error: SluicegateError = PersistenceError("damaged")
            return [error] * len(commits)
        return [commit(claim, changes) for claim, changes in commits]

    store.commit, store.commit_all = broken, all_or_none  # type: ignore[method-assign]


def results_beside_a_damaged_one(log: Log, store: MemoryStore, clock: ManualClock) -> int:
    driver = Driver(an_agent(count=2), store, log, clock).give(GOOD, BAD).turns()
    spoiled(store)
    for round_ in range(40):
        feed(log, ("k", round_), number=GOOD)
        feed(log, ("k", round_), number=BAD)
        driver.later(0.3).turns(2)
    return len(totals(log))


def test_one_that_cannot_be_committed_does_not_hold_up_the_others(store: MemoryStore, clock: ManualClock) -> None:
    assert results_beside_a_damaged_one(a_log(partitions=2), store, clock) == 20


def test_without_commits_alone_after_a_failure_it_does(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClaimRetries, "backoffs", property(lambda self: {}, lambda self, value: None), raising=False)
    assert results_beside_a_damaged_one(a_log(partitions=2), store, clock) < 20
