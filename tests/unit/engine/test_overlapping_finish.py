"""Hopping windows that are open when the rule changes: those up to the last open one finish under their own rule, and
a record counts in the windows of both rules."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Deduplication, Window
from sluicegate.streams.operations.groups.open_groups import open_groups
from sluicegate.streams.ownership import generations
from sluicegate.streams.rules import rule_of
from tests.unit.engine.driver import Log, ManualClock, distinct, header
from tests.unit.engine.finishing import Run
from tests.unit.engine.scene import dead
from tests.unit.engine.test_windows import MINUTE, put, results, windowed_agent
from tests.unit.engine.test_windows_finish import MOST, changed, older

SIZE, EVERY = 60, 20
HOPPING = replace(MINUTE, kind="hopping", every=float(EVERY), grace=0.0)
APART = replace(HOPPING, kind="overlapping")
KINDS = {"panes": (HOPPING, HOPPING), "one by one": (APART, APART), "panes, then one by one": (HOPPING, APART)}
kinds = pytest.mark.parametrize("windows", KINDS.values(), ids=KINDS.keys())


def rules_of(windows: Sequence[Window], **more: Any) -> tuple[Agent, Agent]:
    return windowed_agent(windows[0], **more), windowed_agent(windows[1], compute=MOST, **more)


@kinds
def test_a_record_counts_in_the_windows_of_both_rules(
    windows: Sequence[Window], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The last open window begins at 20: it and those before are of the first rule, for each key."""
    driver = changed(log, store, clock, rules_of(windows), ("a", 0, 1), ("a", 25, 2))
    put(log, ("a", 45, 4), ("b", 30, 8), ("b", 61, 16), ("z", 200, 1))
    driver.turns()
    assert sorted(results(log)) == [
        ("a", -40, 1, "event"),
        ("a", -20, 3, "event"),
        ("a", 0, 7, "event"),
        ("a", 20, 6, "event"),
        ("a", 40, 4, "event"),
        ("b", 0, 8, "event"),
        ("b", 20, 24, "event"),
        ("b", 40, 16, "event"),
        ("b", 60, 16, "event"),
    ]
    short = [rule_of(rule).short for rule in rules_of(windows)]
    made = {
        begin: header(message, "sluicegate-rule")
        for message, (_, begin, *_) in zip(distinct(log, "out"), results(log), strict=True)
    }
    assert made == {begin: short[begin > 20] for begin in range(-40, 61, 20)}
    assert (older(store), dead(log)) == (0, [])


@kinds
def test_people_see_each_window_once(
    windows: Sequence[Window], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rules = rules_of(windows)
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("a", 30, 2))
    driver.turns()
    seen = [(group.key, group.window.start // 1000 % 3600) for group in open_groups(store, "app", rules[1])]
    assert len(seen) == len({*seen}) == 3  # they begin at -20, 0 and 20


@pytest.mark.parametrize("where", ["", "amount >= 0"])
def test_a_record_that_both_rules_take_is_one_of_dedupe(
    log: Log, store: MemoryStore, clock: ManualClock, where: str
) -> None:
    """A loop of a rule that drops duplicates is another one than its loop for records without duplicates."""
    rules = rules_of((HOPPING, HOPPING), dedupe=Deduplication("field", "amount"), where=where)
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("a", 30, 2), ("a", 31, 2), ("z", 200, 4))
    driver.turns()
    assert results(log)[1:] == [("a", -20, 3, "event"), ("a", 0, 3, "event"), ("a", 20, 2, "event")]
    put(log, *[("z", 201, amount) for amount in (4, 16, 16, 16)], ("y", 400, 8))
    driver.turns()
    made = [json.loads(message.v or b"") for message in distinct(log, "out")]
    assert [case["count"] for case in made if case["key"] == "z"] == [2, 2, 2]


def test_a_record_that_no_rule_takes_is_one_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = changed(log, store, clock, rules_of((HOPPING, HOPPING)), ("a", 0, 1))
    put(log, ("a", 5, "x"), ("a", 30, "x"), ("a", 70, "x"), ("a", -90, 1))
    driver.turns()
    assert sorted(offset or "" for offset, _ in dead(log)) == ["1", "2", "3", "4"]


def test_a_record_for_which_the_earlier_rule_has_no_room_is_in_no_window(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    old, new = (
        rules_of((HOPPING, HOPPING), max_groups=most, on_full="dead-letter")[at] for at, most in ((0, 1), (1, 9))
    )
    driver = changed(log, store, clock, (old, new), ("a", 0, 1))
    put(log, ("b", 30, 2), ("z", 200, 1))
    driver.turns()
    assert [offset for offset, _ in dead(log)] == ["1"]
    assert {key for key, *_ in results(log)} == {"a"}


def test_a_window_whose_rule_leaves_a_record_out_does_not_have_it(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """Also where no window of the next rule has the record."""
    old, new = rules_of((HOPPING, HOPPING))
    rules = replace(old, where="amount < 5"), new
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("a", 5, 7), ("a", 30, 9), ("z", 200, 1))
    driver.turns()
    assert results(log) == [("a", -40, 1, "event"), ("a", -20, 1, "event"), ("a", 0, 1, "event"), ("a", 20, 9, "event")]


def test_a_late_record_after_the_earlier_rule_ended_is_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim that ended the earlier rule goes on without its windows."""
    driver = changed(log, store, clock, rules_of((APART, APART)), ("a", 0, 1))
    put(log, ("a", 200, 2))
    driver.turns()
    assert older(store) == 0
    monkeypatch.setattr(generations.Generations, "begin", None)  # no other claim
    put(log, ("a", 1, 4))
    driver.turns()
    assert dead(log) == [("2", "late")]


# -- against a program that shares no code with the engine -------------------------------------------------------------


@kinds
def test_each_window_is_of_one_rule_and_has_each_of_its_records(windows: Sequence[Window]) -> None:
    """Each rule may leave out other records."""
    mixed = 0
    for seed in range(60):
        run = Run(seed, windows).play()
        assert run.results() == run.wanted(), seed
        assert run.twice() == [], seed
        if run.late == "dead-letter":
            assert run.late_letters() == run.refused, seed
        mixed += run.rules_named() == 3
    assert mixed > 20


def test_twin_a_record_that_goes_to_one_rule_is_missing_from_windows_of_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generations.Older, "has_all", lambda self, record: self.divided and self.is_open_for(record))
    runs = [Run(seed, (HOPPING, HOPPING)).play() for seed in range(10)]
    assert any(run.results() != run.wanted() for run in runs)


def test_twin_without_a_division_records_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "divide", lambda older, newest: None)
    runs = [Run(seed, (HOPPING, HOPPING)).play() for seed in range(10)]
    assert any(run.results() != run.wanted() for run in runs)
