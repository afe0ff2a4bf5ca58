"""Another file under open groups: refused, dropped, flushed, or judged again."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation import groups
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.rules import rule_of
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import an_agent, feed, totals


def changed(log: Log, store: MemoryStore, clock: ManualClock, choice: str, **rule: Any) -> Driver:
    """Two open groups, then another file."""
    feed(log, ("a", 1), ("a", 2), ("b", 5))
    Driver(an_agent(), store, log, clock).give(0).turns()
    return Driver(an_agent(**rule), store, log, clock, choice).give(0)


OTHER = {"compute": (Reducer("total", "max", "amount"), Reducer("rows", "collect"))}


def test_another_compute_under_open_groups_is_refused(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError, match="2 groups"):
        changed(log, store, clock, "refuse", **OTHER).turns()


def test_dropped_groups_are_gone_for_good(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = changed(log, store, clock, "drop", **OTHER).turns()
    feed(log, ("a", 7))
    driver.turns().later(31).turns()
    assert totals(log) == [("a", "timeout", 1, 7)]
    Driver(an_agent(**OTHER), store, log, clock).give(0).turns().later(60).turns()
    assert len(totals(log)) == 1


def test_flushed_groups_fire_as_they_were_computed(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = changed(log, store, clock, "flush", **OTHER).turns()
    driver.later(60).turns()
    assert totals(log) == [("a", "manual", 2, 3), ("b", "manual", 1, 5)]


def test_results_name_the_rule_that_made_them(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Groups that --flush ends were filled under a rule that the store does not name."""
    driver = changed(log, store, clock, "flush", **OTHER).turns()
    feed(log, ("a", 7))
    driver.turns().later(60).turns()
    rules = [
        (header(message, "sluicegate-reason"), header(message, "sluicegate-rule")) for message in distinct(log, "out")
    ]
    assert sorted(rules) == [("manual", None), ("manual", None), ("timeout", rule_of(an_agent(**OTHER)).short)]


def test_a_group_that_goes_on_under_another_count_has_the_new_rule(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    changed(log, store, clock, "refuse", count=2).turns()
    [result] = distinct(log, "out")
    assert header(result, "sluicegate-rule") == rule_of(an_agent(count=2)).short != rule_of(an_agent()).short


def test_missing_fields_that_are_now_ignored_are_another_rule(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    with pytest.raises(ConfigurationError):
        changed(log, store, clock, "refuse", on_missing="ignore").turns()


def test_another_count_judges_open_groups_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    changed(log, store, clock, "refuse", count=2).turns()
    assert totals(log) == [("a", "count", 2, 3)]


def lowered(log: Log, store: MemoryStore, clock: ManualClock) -> list[tuple[str, str, int, Any]]:
    """Groups of 5, 3, and 2 records when the count becomes 3."""
    feed(log, *(("a", 1) for _ in range(5)), *(("b", 1) for _ in range(3)), ("c", 1), ("c", 1))
    Driver(an_agent(count=9), store, log, clock).give(0).turns()
    driver = Driver(an_agent(count=3), store, log, clock).give(0).turns()
    feed(log, ("a", 1), ("b", 1), ("c", 1))
    driver.turns()
    return totals(log)


def test_a_group_of_more_records_than_a_lowered_count_says_so(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert lowered(log, store, clock) == [("a", "count-lowered", 5, 5), ("b", "count", 3, 3), ("c", "count", 3, 3)]
    assert {header(message, "sluicegate-reason") for message in distinct(log, "out")} == {"count", "count-lowered"}


def test_without_a_reason_of_its_own_it_would_say_count(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "COUNT_LOWERED", "count")
    assert any(reason == "count" and size != 3 for _, reason, size, _ in lowered(log, store, clock))


def test_a_shared_batch_that_was_completed_by_a_higher_count_says_so(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", 2), ("a", 3))
    failpoints.arm({"SLUICEGATE_FAILPOINTS": "shared-inserted=raise"})
    with pytest.raises(failpoints.Failpoint):
        Driver(replace(an_agent(), scope="shared"), store, log, clock).give(0).turns()
    failpoints.arm({})
    driver = Driver(replace(an_agent(count=2), scope="shared"), store, log, clock).give(0).turns()
    for _ in range(20):
        driver.later(5).turns()
    [row] = store.outbox.find()
    result = json.loads(row.message.value or b"")
    assert (result["reason"], result["count"], result["total"]) == ("count-lowered", 3, 6)


def test_another_timeout_counts_from_when_the_groups_were_opened(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = changed(log, store, clock, "refuse", since_first=10.0).later(9).turns()
    assert totals(log) == []
    driver.later(1.5).turns()
    assert totals(log) == [("a", "timeout", 2, 3), ("b", "timeout", 1, 5)]


def test_another_scope_under_open_groups_is_another_rule(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("a", 1))
    Driver(an_agent(), store, log, clock).give(0).turns()
    shared = replace(an_agent(), scope="shared")
    with pytest.raises(ConfigurationError, match="format or scope changed while 1 groups"):
        Driver(shared, store, log, clock).give(0).turns()
    Driver(shared, store, log, clock, "flush").give(0).turns()
    assert totals(log) == [("a", "manual", 1, 1)]


def test_records_in_the_shared_buffer_are_not_left_behind_by_another_scope(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("b", 2))
    Driver(replace(an_agent(), scope="shared"), store, log, clock).give(0).turns()
    for choice in ("refuse", "flush"):
        with pytest.raises(ConfigurationError, match="its buffer still holds 2 records"):
            Driver(an_agent(), store, log, clock, choice).give(0).turns()
    Driver(an_agent(), store, log, clock, "drop").give(0).turns()
    assert store.buffer.count("app/a") == 0
