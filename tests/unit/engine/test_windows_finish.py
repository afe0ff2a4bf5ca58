"""Windows and correlations that are open when the rule changes, and finish under their own rule beside the next one."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Reducer, Window
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.rules import rule_of
from sluicegate.streams.windows.correlated import CorrelatedByTime
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine import test_correlate, test_correlate_by_time
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.scene import Killed, a_log, dead
from tests.unit.engine.test_windows import MINUTE, put, results, windowed_agent
from tests.unit.windows.oracle import Oracle, Step

MOST = (Reducer("total", "max", "amount"),)


def both(window: Window = MINUTE, **more: Any) -> tuple[Agent, Agent]:
    """The sum of each window, and its greatest amount."""
    return windowed_agent(window), windowed_agent(window, compute=MOST, **more)


def changed(
    log: Log, store: MemoryStore, clock: ManualClock, rules: Sequence[Agent], *first: tuple[str, int, int]
) -> Driver:
    """These records came under the first rule."""
    put(log, *first)
    Driver(rules[0], store, log, clock, deployed=deployed((rules[0], "refuse"))).give(0).turns()
    return again(log, store, clock, rules).turns()


def again(log: Log, store: MemoryStore, clock: ManualClock, rules: Sequence[Agent]) -> Driver:
    steps = [(rule, "finish" if at else "refuse") for at, rule in enumerate(rules)]
    return Driver(rules[-1], store, log, clock, deployed=deployed(*steps)).give(0)


def older(store: MemoryStore, place: Any = None) -> int:
    [partition] = [each for each in store.partitions("app") if place is None or each.topic == place]
    view = store.read(partition)
    assert view is not None
    assert view.claim.source is not None
    return len(view.claim.source.older)


def test_an_open_window_takes_its_records_under_its_rule(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Another window of the key, and the window of another key, are of the new rule. One watermark closes all."""
    rules = both()
    driver = changed(log, store, clock, rules, ("a", 0, 1), ("a", 10, 2))
    put(log, ("a", 20, 3), ("b", 20, 3), ("b", 21, 4), ("a", 65, 5), ("a", 66, 6), ("c", 200, 1))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 6, "event"), ("a", 60, 6, "event"), ("b", 0, 4, "event")]
    named = {header(each, "sluicegate-rule"): each for each in distinct(log, "out")}
    assert {*named} == {rule_of(rule).short for rule in rules}
    assert older(store) == 0


def test_what_finishes_outlives_a_kill(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rules = both()
    changed(log, store, clock, rules, ("a", 0, 1), ("a", 10, 2))
    assert older(store) == 1
    put(log, ("b", 60, 1))
    again(log, store, clock, rules).turns()
    put(log, ("a", 20, 3), ("c", 70, 9), ("a", 21, 9))
    again(log, store, clock, rules).turns()
    assert results(log) == [("a", 0, 6, "event")]
    assert dead(log) == [("5", "late")]


def test_a_record_of_an_open_window_closes_windows_of_the_new_rule(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = changed(log, store, clock, both(), ("a", 61, 1))
    put(log, ("b", 50, 2), ("a", 100, 3), ("b", 55, 4))
    driver.turns()
    assert results(log) == [("b", 0, 2, "event")]
    assert dead(log) == [("3", "late")]


def test_twin_with_a_watermark_of_its_own_a_late_record_counts(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WindowGroups, "beside", lambda self, newest: None)
    driver = changed(log, store, clock, both(), ("a", 61, 1))
    put(log, ("b", 50, 2), ("a", 100, 3), ("b", 55, 4))
    driver.turns()
    assert dead(log) == []


def test_silence_closes_windows_of_both_rules(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rules = both()
    driver = changed(log, store, clock, rules, ("a", -100, 1))
    put(log, ("b", -100, 2))
    driver.turns()
    clock.now += 30.2
    driver.turns(4)
    assert sorted(results(log)) == [("a", -120, 1, "idle"), ("b", -120, 2, "idle")]
    assert older(store) == 0


def test_at_most_ends_a_window_that_finishes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = changed(log, store, clock, both(), ("a", 5, 1))
    for _ in range(16):
        put(log, ("b", 5, 1))
        driver.turns(3)
        clock.now += 20
    driver.turns()
    assert ("a", 0, 1, "at_most") in results(log)


@pytest.mark.parametrize("late", ["amend", "new"])
def test_late_records_of_a_window_that_closed_before_the_change_are_of_its_rule(
    late: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """With `amend` its group stays open, and is revised; with `new` no group is open, so a further one is of the new
    rule."""
    window = replace(MINUTE, late=late, keep=100.0 if late == "amend" else 0.0, gather=5.0)
    driver = changed(log, store, clock, both(window), ("a", 0, 1), ("a", 10, 2), ("b", 70, 1))
    put(log, ("a", 20, 4))
    driver.turns()
    clock.now += 6
    driver.turns()
    assert results(log)[0] == ("a", 0, 3, "event")
    assert results(log)[1:] == [("a", 0, 7 if late == "amend" else 4, "late")]


def test_a_session_that_is_open_goes_on_and_is_not_joined_to_one_of_the_new_rule(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    session = replace(MINUTE, kind="session", size=10.0, grace=20.0)
    driver = changed(log, store, clock, both(session), ("a", 0, 1))
    put(log, ("a", 15, 2), ("a", 8, 4), ("a", 9, 8), ("b", 100, 1))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 13, "event"), ("a", 15, 2, "event")]
    assert older(store) == 0


def test_limits_hold_for_both_rules_together(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The window that closes next makes room, of the earlier rule first."""
    rules = windowed_agent(max_groups=2), windowed_agent(compute=MOST, max_groups=2)
    driver = changed(log, store, clock, rules, ("b", 65, 1), ("a", 0, 2))
    put(log, ("c", 1, 3))
    driver.turns()
    assert results(log) == [("a", 0, 2, None)]
    put(log, ("d", 1, 3))
    driver.turns()
    assert results(log)[1:] == [("b", 60, 1, None)]


def test_people_see_under_which_rule_a_window_finishes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rules = both()
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("b", 30, 2))
    driver.turns()
    seen = {group.key: why(group, rules[1]) for group in open_groups(store, "app", rules[1])}
    assert "finishes under an earlier version of the rule" in seen[b"a"]
    assert "finishes" not in seen[b"b"]
    marks = {text.partition("the watermark is ")[2].partition(",")[0] for text in seen.values()}
    assert len(marks) == 1


# -- against a program that shares no code with the engine -------------------------------------------------------------


class Run:
    """Random records out of order, under two rules, with kills at any commit."""

    def __init__(self, seed: int) -> None:
        self.random, self.log, self.clock = random.Random(seed), a_log(), ManualClock()
        grace = self.random.choice((0.0, 10.0, 40.0))
        window = Window(60.0, grace=grace, idle=None, max_ahead=1e9, late=self.random.choice(("skip", "dead-letter")))
        self.rules = both(window)
        self.store, self.kill_at, self.switch = memory(self.clock), 0, -1
        self.oracle = Oracle(60_000, 0, round(grace * 1000), inf, inf, inf, 1 << 30)
        self.given: list[tuple[str, int, int]] = []
        commit = self.store.commit

        def watched(claim: Any, made: Any) -> Any:
            after = commit(claim, made)
            if made.source is not None and made.source.version == 2 and self.switch < 0:
                self.switch = made.offset
            self.kill_at -= 1
            if self.kill_at == 0:
                raise Killed
            return after

        self.store.commit = watched  # type: ignore[method-assign]

    def play(self) -> "Run":
        changes_at, driver = self.random.randrange(1, 8), again(self.log, self.store, self.clock, self.rules[:1])
        for step in range(12):
            rules = self.rules[: 1 + (step >= changes_at)]
            if step == changes_at or self.random.random() < 0.3:
                driver = again(self.log, self.store, self.clock, rules)
            at = 20 * step
            some = [
                (self.random.choice("ab"), max(0, at - self.random.choice((0, 5, 30, 90))), self.random.randrange(9))
                for _ in range(self.random.randrange(6))
            ]
            put(self.log, *some)
            self.given += some
            self.kill_at = self.random.choice((0, 0, 1, 2))
            try:
                driver.turns(3)
            except Killed:
                driver = again(self.log, self.store, self.clock, rules)
            self.kill_at = 0
        put(self.log, ("z", 100_000, 0))
        self.given.append(("z", 100_000, 0))
        again(self.log, self.store, self.clock, self.rules).turns(6)
        return self

    def wanted(self) -> list[tuple[Any, ...]]:
        refused = {int(offset or "") for offset, reason in dead(self.log) if reason == "crash"}  # three deaths at one
        for offset, (key, at, amount) in enumerate(self.given):
            if offset not in refused:
                self.oracle.take(offset, Step(0.0, key.encode(), 1000 * at, amount))
        refused |= {offset for offset, _ in self.oracle.refused}
        wanted = []
        for each in self.oracle.results:
            taken = [
                amount
                for offset, (key, at, amount) in enumerate(self.given)
                if offset not in refused and key.encode() == each.key and each.start <= 1000 * at < each.end
            ]
            total = sum(taken) if each.first < self.switch else max(taken)
            wanted.append((each.key.decode(), each.start // 1000, total, "event"))
        return sorted(wanted)


def test_each_window_is_wholly_of_the_rule_under_which_it_was_opened() -> None:
    mixed = 0
    for seed in range(100):
        run = Run(seed).play()
        assert sorted(results(run.log)) == run.wanted(), seed
        rules = [header(each, "sluicegate-rule") for each in distinct(run.log, "out")]
        mixed += len({*rules}) == 2
        if run.rules[0].aggregation.window.late == "dead-letter":  # type: ignore[union-attr]
            late = [int(at or "") for at, reason in dead(run.log) if reason == "late"]
            assert late == [offset for offset, _ in run.oracle.refused], seed
    assert mixed > 50


def test_twin_records_that_all_go_to_the_new_rule_split_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Generations, "take", lambda self, records, *_: [(records, None)])
    runs = [Run(seed).play() for seed in range(20)]
    assert any(sorted(results(run.log)) != run.wanted() for run in runs)


# -- correlations ------------------------------------------------------------------------------------------------------


def correlated(agent: Agent, until: str) -> Agent:
    assert agent.aggregation is not None
    return replace(agent, aggregation=replace(agent.aggregation, until=until))


def test_a_correlation_that_is_open_is_complete_as_its_own_rule_says(store: MemoryStore, clock: ManualClock) -> None:
    """The new rule waits for nothing but an order. A key that ended under the earlier rule is ended for the new one."""
    old, new = test_correlate.AGENT, correlated(test_correlate.AGENT, "has(group.order)")
    log = a_log("in", "out", "dead")
    leg(log, "a", "payment"), leg(log, "c", "payment")
    again(log, store, clock, [old]).turns()
    driver = again(log, store, clock, [old, new]).turns()
    leg(log, "a", "order"), leg(log, "b", "order"), leg(log, "a", "note"), leg(log, "a", "note"), leg(log, "a", "note")
    driver.turns()
    clock.now += 61
    driver.turns()
    ended = [(each.k, (header(each, "sluicegate-rule") or "")) for each in distinct(log, "out")]
    assert ended == [(b"b", rule_of(new).short), (b"a", rule_of(old).short), (b"c", rule_of(old).short)] or (
        sorted(ended) == [(b"a", rule_of(old).short), (b"b", rule_of(new).short), (b"c", rule_of(old).short)]
    )
    assert dead(log) == [("6", "late")]


def leg(log: Log, key: str, name: str) -> None:
    log.append("in", 0, key.encode(), b'{"%s": 1}' % name.encode())


@pytest.mark.parametrize("shared", [True, False])
def test_a_correlation_by_time_finishes_by_the_watermark_of_all_legs(
    shared: bool, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key b ends under the earlier rule. Its next leg is late; with ended keys apart it opens a group (the twin)."""
    if not shared:
        monkeypatch.setattr(CorrelatedByTime, "beside", WindowGroups.beside)
    old = test_correlate_by_time.MAIN
    new = correlated(old, "has(group.order)")
    scene = test_correlate_by_time.Scene(clock, store)
    scene.owner = again(scene.log, store, clock, [old])
    scene.put("payment", ("a", 0), ("b", 1)).put("order", ("z", 1)).run()
    scene.owner = again(scene.log, store, clock, [old, new])
    scene.put("order", ("b", 2)).run()
    scene.put("payment", ("b", 3)).put("order", ("c", 100)).put("payment", ("d", 100)).run()
    ended = {each.k: header(each, "sluicegate-rule") for each in reversed(distinct(scene.log, "out"))}
    short = {rule.aggregation.until: rule_of(rule).short for rule in (old, new) if rule.aggregation}
    assert ended[b"a"] == ended[b"b"] == short[old.aggregation.until]  # type: ignore[union-attr]
    assert ended[b"c"] == short["has(group.order)"]
    assert (scene.late != []) is shared
