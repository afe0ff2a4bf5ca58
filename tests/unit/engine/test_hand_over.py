"""A partition goes to another worker, or its worker stops, without a fault: no row that arrived is sent again."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.engine.worker import Worker
from sluicegate.streams.errors import HandlerStopped, PersistenceError
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, feed

PLACE = ("in", 0)


def written(log: Log) -> Counter[str | None]:
    """How often each result is in its topic."""
    return Counter(header(message, "sluicegate-id") for partition in log.topics["out"] for message in partition)


class Slow:
    """A producer whose reports come only when it is flushed, after some calls."""

    def __init__(self, driver: Driver, calls: int) -> None:
        self.driver, self.left = driver, calls
        self.flush = driver.producer.flush
        driver.producer.hold = True
        driver.producer.flush = self  # type: ignore[assignment]

    def __call__(self, timeout: float) -> int:
        self.left -= 1
        self.driver.producer.hold = self.left > 0
        return self.flush(timeout)


def handed_over(log: Log, store: MemoryStore, clock: ManualClock, calls: int = 3, **agent: Any) -> Driver:
    """The first worker has sent results whose reports are out; then the group gives its partition to a second one."""
    first, second = (Driver(an_agent(count=1, **agent), store, log, clock) for _ in range(2))
    feed(log, ("a", 1), ("b", 2), ("c", 3))
    first.give(0).turns(4)
    Slow(first, calls)
    feed(log, ("a", 4), ("b", 5))
    first.turns(2)
    first.input.take(PLACE)
    second.give(0).turns(6)
    first.turns(3)
    second.turns(3)
    return second


def test_rows_that_arrived_are_recorded_before_the_group_takes_the_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handed_over(log, store, clock)
    assert sorted(written(log).values()) == [1, 1, 1, 1, 1]


def test_twin_without_that_the_next_owner_sends_them_again(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "_finish", lambda self, places: None)
    handed_over(log, store, clock)
    assert max(written(log).values()) == 2


def test_the_group_does_not_wait_for_ever(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """A broker that does not answer: after HAND_OVER the partition is let go, and its rows are sent again."""
    handed_over(log, store, clock, calls=1_000)
    assert len(written(log)) == 5
    assert max(written(log).values()) == 2


def test_records_that_were_not_committed_are_left_to_the_next_owner(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    first, second = (Driver(an_agent(count=2), store, log, clock) for _ in range(2))
    first.give(0).turns(3)
    owner = first.worker._owners[PLACE]
    feed(log, ("a", 1))
    owner.accept(log.after(*PLACE, 0, 10), clock.now)  # in the middle of a turn
    first.input.take(PLACE)
    feed(log, ("a", 2))
    second.give(0).turns(8)
    first.turns(2)
    assert list(written(log).values()) == [1]


def test_another_owner_that_came_first_is_no_error(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    first, second = (Driver(an_agent(count=1), store, log, clock) for _ in range(2))
    first.give(0).turns(3)
    Slow(first, 2)
    feed(log, ("a", 1))
    first.turns(2)
    second.give(0).turns(6)  # by a group that did not wait
    first.input.take(PLACE)
    first.turns(3)
    assert not first.worker._owners
    assert written(log).total() in (1, 2)


# -- a clean stop ------------------------------------------------------------------------------------------------------


def stopped(log: Log, store: MemoryStore, clock: ManualClock, ends: Callable[[Driver], object]) -> None:
    """The partition is lost to an error while reports of its rows are out, and the worker is asked to stop; another one
    starts."""
    first = Driver(an_agent(count=1), store, log, clock).give(0).turns(3)
    Slow(first, 2)
    feed(log, ("a", 1), ("b", 2))
    first.turns(2)
    ends(first)
    assert not first.worker._owners
    first.worker.run(lambda: True, drain=5.0)
    Driver(an_agent(count=1), store, log, clock).give(0).turns(8)


def fails(driver: Driver) -> None:
    driver.worker._lost(driver.worker._owners[PLACE], PersistenceError("the store does not answer"))


def halts(driver: Driver) -> None:
    driver.worker._lost(driver.worker._owners[PLACE], HandlerStopped("then is stop"))


@pytest.mark.parametrize("ends", [fails, halts])
def test_a_clean_stop_records_what_arrived_of_a_partition_that_it_lost(
    log: Log, store: MemoryStore, clock: ManualClock, ends: Callable[[Driver], object]
) -> None:
    stopped(log, store, clock, ends)
    assert sorted(written(log).values()) == [1, 1]


@pytest.mark.parametrize("ends", [fails, halts])
def test_twin_without_one_more_claim_they_are_sent_again(
    log: Log, store: MemoryStore, clock: ManualClock, ends: Callable[[Driver], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "_confirm", lambda self, deadline: None)
    stopped(log, store, clock, ends)
    assert sorted(written(log).values()) == [2, 2]
