"""Deadlines: never early, never lost, never waiting for traffic, in slices, whatever the store's clock does."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.ownership import partition_groups
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, dead, distinct, feed, hooked, shown, totals


def test_a_deadline_that_passed_while_nobody_owned_the_partition_fires_before_new_records(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1))
    Driver(an_agent(), store, log, clock).give(0).turns()
    clock.now += 3600
    feed(log, ("a", 2))
    Driver(an_agent(), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "timeout", 1, 1)]


@pytest.mark.parametrize(
    ("rule", "due"),
    [
        ({"since_first": 10.0}, 10),
        ({"since_first": None, "since_last": 4.0}, 10),
        ({"since_first": 8.0, "since_last": 4.0}, 8),
    ],
)
def test_groups_end_by_their_first_or_their_last_record_or_both(
    log: Log, store: MemoryStore, clock: ManualClock, rule: dict[str, Any], due: int
) -> None:
    """Records at 0, 3 and 6 seconds."""
    driver = Driver(an_agent(count=None, **rule), store, log, clock).give(0).turns()
    started = clock.now
    for _ in range(3):
        feed(log, ("a", 1))
        driver.turns(2).later(3)
    clock.now = started + due - 0.01
    driver.turns()
    assert totals(log) == []
    clock.now = started + due + 0.01
    driver.turns()
    assert totals(log) == [("a", "timeout", 3, 3)]


def test_many_groups_that_are_due_at_once_fire_in_slices_each_once(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_groups, "SLICE", 10)
    sizes: list[int] = []
    hooked(store, after=lambda claim, changes: sizes.append(len(changes.outbox)))
    feed(log, *[(f"k{n}", n) for n in range(95)])
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    driver.later(31).turns(1)
    assert max(sizes) == 10
    assert sorted(totals(log)) == sorted((f"k{n}", "timeout", 1, n) for n in range(95))


def test_a_slow_expiry_lets_the_loop_poll_and_a_late_record_starts_a_new_group(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_groups, "SLICE", 10)
    feed(log, *[(f"k{n:02}", n) for n in range(50)])
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    clock.now += 31
    feed(log, ("k49", 1000))

    def slow(claim: Any, changes: Any) -> None:
        if changes.outbox:
            clock.now += 0.15

    hooked(store, after=slow)
    driver.turns(1)
    assert 10 < len(totals(log)) < 50
    driver.turns(20)
    assert sorted(totals(log)) == sorted((f"k{n:02}", "timeout", 1, n) for n in range(50))
    driver.later(31).turns(3)
    assert ("k49", "timeout", 1, 1000) in totals(log)
    assert len(totals(log)) == 51


def fires_of_a_late_record(log: Log, store: MemoryStore, clock: ManualClock) -> list[tuple[str, str, int, Any]]:
    feed(log, ("a", 1), ("b", 1), ("c", 1))
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    groups = driver.worker._owners["in", 0].groups.newest
    clock.now += 31
    groups.expire(driver.worker._owners["in", 0].now(clock.now), 1)
    feed(log, ("c", 2))
    driver.turns()
    return sorted(totals(log))


def test_a_record_that_comes_while_expiry_is_behind_does_not_complete_an_overdue_group(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert fires_of_a_late_record(log, store, clock) == [(key, "timeout", 1, 1) for key in "abc"]


def test_a_clock_that_goes_back_in_the_store_fires_nothing_early_and_nothing_twice_and_nothing_later(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    shift = [0.0]
    store._clock = lambda: clock.now + 1_700_000_000 + shift[0]
    driver = Driver(an_agent(count=None), store, log, clock).give(0).turns()
    feed(log, ("a", 1))
    driver.turns()
    shift[0] = -1000.0
    feed(log, ("b", 1))
    driver.later(20).turns()
    assert driver.worker._owners["in", 0].now(clock.now) == clock.now + 1_700_000_000 - 1_000
    driver.later(29).turns()
    assert totals(log) == []
    driver.later(2).turns()
    assert sorted(totals(log)) == [("a", "timeout", 1, 1), ("b", "timeout", 1, 1)]


def test_a_clock_that_jumps_ahead_fires_what_is_due_by_it_once(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    shift = [0.0]
    store._clock = lambda: clock.now + 1_700_000_000 + shift[0]
    feed(log, ("a", 1))
    driver = Driver(an_agent(count=None), store, log, clock).give(0).turns()
    shift[0] = 7200.0
    feed(log, ("b", 1))
    driver.later(1).turns()
    feed(log, ("c", 1))
    driver.later(1).turns()
    assert sorted(totals(log)) == [("a", "timeout", 1, 1), ("b", "timeout", 1, 1)]
    assert len(log.topics["out"][0]) == 2


@pytest.mark.parametrize("policy", ["discard", "dead-letter"])
def test_a_timeout_does_as_the_file_says(log: Log, store: MemoryStore, clock: ManualClock, policy: str) -> None:
    feed(log, ("a", 1), ("b", 1), ("b", 1), ("b", 1))
    driver = Driver(an_agent(on_timeout=policy), store, log, clock).give(0).turns().later(31).turns()
    assert totals(log) == [("b", "count", 3, 3)]
    assert dead(log) == ([("0", "timeout")] if policy == "dead-letter" else [])
    Driver(an_agent(on_timeout=policy), store, log, clock).give(0).turns().later(60).turns()
    assert len(dead(log)) == (policy == "dead-letter")
    assert shown(driver)[0] == []


def test_the_trace_of_the_first_record_goes_with_the_result(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for n in range(3):
        log.append("in", 0, b"a", b'{"amount":1}', [("traceparent", b"00-%d" % n)])
    Driver(an_agent(count=2), store, log, clock).give(0).turns()
    assert [header(message, "traceparent") for message in distinct(log, "out")] == ["00-0"]
    Driver(an_agent(count=2), store, log, clock).give(0).turns().later(31).turns()
    assert [header(message, "traceparent") for message in distinct(log, "out")] == ["00-0", "00-2"]


def after_a_clock_that_was_ahead(log: Log, store: MemoryStore, clock: ManualClock, **rule: Any) -> Driver:
    """A group is opened by a clock that is an hour ahead, which is set right while nobody owns the partition."""
    shift = [3_600.0]
    store._clock = lambda: clock.now + 1_700_000_000 + shift[0]
    feed(log, ("a", 1))
    Driver(an_agent(count=None, **rule), store, log, clock).give(0).turns()
    shift[0] = 0.0
    return Driver(an_agent(count=None, **rule), store, log, clock).give(0).turns()


@pytest.mark.parametrize("rule", [{"since_first": 20.0}, {"since_first": None, "since_last": 20.0}])
def test_a_group_that_was_opened_by_a_clock_that_was_ahead_waits_for_its_own_time_only(
    log: Log, store: MemoryStore, clock: ManualClock, rule: dict[str, Any]
) -> None:
    driver = after_a_clock_that_was_ahead(log, store, clock, **rule)
    driver.later(19).turns()
    assert totals(log) == []
    driver.later(2).turns()
    assert totals(log) == [("a", "timeout", 1, 1)]


def test_and_claims_do_not_make_it_wait_anew(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    after_a_clock_that_was_ahead(log, store, clock, since_first=20.0)
    for _ in range(3):
        clock.now += 7
        Driver(an_agent(count=None, since_first=20.0), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "timeout", 1, 1)]
