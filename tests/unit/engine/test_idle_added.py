"""A file adds a timeout since the last record: open groups count from its first claim, whatever claims follow."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.ownership.claiming import takeover
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.testing.group import groups as as_tests_see
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import an_agent, feed, totals

IDLE = {"since_first": None, "since_last": 10.0}
FIRED = [("a", "timeout", 2, 3)]


def added(log: Log, store: MemoryStore, clock: ManualClock, seconds: float = 100.0) -> Driver:
    """A group that is that old when another file takes over, which ends it 10 s after its last record."""
    feed(log, ("a", 1), ("a", 2))
    Driver(an_agent(since_first=None), store, log, clock).give(0).turns().later(seconds)
    return restarted(log, store, clock)


def restarted(log: Log, store: MemoryStore, clock: ManualClock, **rule: Any) -> Driver:
    return Driver(an_agent(**(IDLE | rule)), store, log, clock).give(0).turns()


def test_open_groups_count_from_the_take_over(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = added(log, store, clock).later(9.5).turns()
    assert totals(log) == []
    driver.later(1).turns()
    assert totals(log) == FIRED


def test_without_that_a_group_counts_from_its_first_record_and_fires_at_once(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "idle_since", lambda *_: 0.0)
    added(log, store, clock)
    assert totals(log) == FIRED


def often_restarted(log: Log, store: MemoryStore, clock: ManualClock) -> list[float]:
    """A process is killed every 4 s; after how many seconds the group had fired."""
    added(log, store, clock)
    begun = clock.now
    while clock.now < begun + 40 and not totals(log):
        clock.now += 4
        restarted(log, store, clock)
    return [clock.now - begun] if totals(log) else []


def test_processes_that_restart_again_and_again_do_not_keep_it_open(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert often_restarted(log, store, clock) == [12]


def test_without_a_durable_moment_each_restart_moves_it(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Takeover, "_idle_begins", lambda *_: False)
    assert often_restarted(log, store, clock) == []


def test_a_record_after_the_take_over_counts_as_ever(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = added(log, store, clock).later(6)
    feed(log, ("b", 5))
    driver.turns().later(5).turns()
    assert totals(log) == FIRED
    driver.later(6).turns()
    assert totals(log) == [*FIRED, ("b", "timeout", 1, 5)]


def test_a_file_without_it_in_between_begins_anew(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """It took a record of which it kept no time."""
    added(log, store, clock, 0.0)
    feed(log, ("b", 1))
    restarted(log, store, clock).later(50)
    feed(log, ("a", 5), ("b", 2))
    Driver(an_agent(since_first=None, count=9), store, log, clock).give(0).turns().later(50)
    driver = restarted(log, store, clock, count=9)
    assert [result for result in totals(log) if result[1] == "timeout"] == []
    driver.later(10.5).turns()
    assert sorted(totals(log)) == [("a", "timeout", 3, 8), ("b", "timeout", 2, 3)]


def test_whoever_looks_at_the_store_sees_the_same_deadline(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    added(log, store, clock).later(4)
    view = store.read(store.partitions("app")[0])
    assert view is not None
    [group] = as_tests_see(an_agent(**IDLE), view, store)
    assert group.due_in == pytest.approx(6.0)
