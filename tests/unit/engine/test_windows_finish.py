"""Windows and correlations that are open when the rule changes, and finish under their own rule beside the next one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App, Deduplication, Reducer, Window
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.operations.replaying.shadowing import Shadowing
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.rules import rule_of
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.windows.correlated import CorrelatedByTime
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine import test_correlate, test_correlate_by_time
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.finishing import Run
from tests.unit.engine.rebuilding import LogHistory, rebuild
from tests.unit.engine.scene import a_log, dead
from tests.unit.engine.test_windows import MINUTE, put, results, windowed_agent
from tests.unit.shadow.scene import ALL, NoWatch

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
    [partition] = [partition for partition in store.partitions("app") if place is None or partition.topic == place]
    view = store.read(partition)
    assert view is not None
    assert view.claim.source is not None
    return len(view.claim.source.older)


def test_an_open_window_takes_its_records_under_its_rule(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Windows that begin later are of the new rule. One watermark closes all."""
    rules = both()
    driver = changed(log, store, clock, rules, ("a", 0, 1), ("a", 10, 2))
    put(log, ("a", 20, 3), ("b", 20, 3), ("b", 21, 4), ("a", 65, 5), ("a", 66, 6), ("c", 200, 1))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 6, "event"), ("a", 60, 6, "event"), ("b", 0, 7, "event")]
    named = {header(message, "sluicegate-rule"): message for message in distinct(log, "out")}
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


def test_a_record_of_the_new_rule_closes_windows_of_the_earlier_one(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = changed(log, store, clock, both(), ("a", 0, 1))
    put(log, ("b", 50, 2), ("a", 100, 3), ("b", 55, 4))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 1, "event"), ("b", 0, 2, "event")]
    assert dead(log) == [("3", "late")]


def test_twin_with_a_watermark_of_its_own_a_late_record_counts(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WindowGroups, "beside", lambda self, newest: None)
    driver = changed(log, store, clock, both(), ("a", 0, 1))
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


def test_results_are_in_order_under_each_rule_and_not_between_two_rules(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The earlier rule waits longer for records out of order, so a session of it closes after one that begins later."""
    session = replace(MINUTE, kind="session", size=10.0, grace=100.0)
    rules = windowed_agent(session), windowed_agent(replace(session, grace=0.0), compute=MOST)
    driver = changed(log, store, clock, rules, ("a", 0, 1), ("a", 30, 2))
    put(log, ("a", 60, 3), ("a", 80, 4), ("b", 100, 5))
    driver.turns()
    put(log, ("b", 150, 6))
    driver.turns()
    named = [header(message, "sluicegate-rule") for message in distinct(log, "out")]
    begins = [begin for _, begin, _, _ in results(log)]
    old, new = (rule_of(rule).short for rule in rules)
    assert list(zip(begins, named, strict=True)) == [(60, new), (80, new), (0, old), (30, old), (100, new)]


def test_limits_hold_for_both_rules_together(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The window that closes next makes room, of the earlier rule first."""
    window = replace(MINUTE, grace=100.0)
    rules = windowed_agent(window, max_groups=2), windowed_agent(window, compute=MOST, max_groups=2)
    driver = changed(log, store, clock, rules, ("b", 65, 1), ("a", 0, 2))
    put(log, ("c", 121, 3))
    driver.turns()
    assert results(log) == [("a", 0, 2, None)]
    put(log, ("d", 121, 3))
    driver.turns()
    assert results(log)[1:] == [("b", 60, 1, None)]


def test_people_see_under_which_rule_a_window_finishes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rules = both()
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("b", 60, 2))
    driver.turns()
    seen = {group.key: why(group, rules[1]) for group in open_groups(store, "app", rules[1])}
    assert "finishes under an earlier version of the rule" in seen[b"a"]
    assert "finishes" not in seen[b"b"]
    marks = {text.partition("the watermark is ")[2].partition(",")[0] for text in seen.values()}
    assert len(marks) == 1


# -- against a program that shares no code with the engine -------------------------------------------------------------


SAME, OTHER = (), (0, 10, 40)  # the graces of the rules


@pytest.mark.parametrize("graces", [SAME, OTHER])
def test_each_window_has_one_result_of_one_rule(graces: Sequence[int]) -> None:
    """Also if each rule leaves out other records, and closes its windows at another time."""
    mixed = 0
    for seed in range(100):
        run = Run(seed, (MINUTE,), graces).play()
        assert run.results() == run.wanted(), seed
        assert run.twice() == [], seed
        if run.late == "dead-letter":
            assert run.late_letters() == run.refused, seed
        mixed += run.rules_named() > 1
    assert mixed > 50


def test_twin_records_that_all_go_to_the_new_rule_split_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Generations, "take", lambda self, records, *_: [(records, None)])
    runs = [Run(seed, (MINUTE,)).play() for seed in range(20)]
    assert any(run.results() != run.wanted() for run in runs)
    assert any(run.twice() for run in runs)


@pytest.mark.parametrize(
    "window",
    [MINUTE, replace(MINUTE, size=90_000.0, max_ahead=1e9, kind="calendar", calendar="day", zone="Europe/Vienna")],
    ids=["tumbling", "calendar"],
)
def test_a_record_that_the_earlier_rule_leaves_out_opens_no_window_of_the_new_one(
    window: Window, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """It moves the watermark, and a record that the earlier rule refuses is a dead letter."""
    old, new = both(window)
    driver = changed(log, store, clock, (replace(old, where="amount < 5"), new), ("a", 0, 1))
    put(log, ("a", 20, 7), ("b", 20, 7), ("a", 21, "x"), ("a", 22, 2))
    driver.turns()
    put(log, *[("z", 500 if window is MINUTE else 90_000, 0)])
    driver.turns()
    assert [(key, total) for key, _, total, _ in results(log)] == [("a", 3)]
    assert [offset for offset, _ in dead(log)] == ["3"]


def test_a_record_that_the_earlier_rule_leaves_out_makes_none_a_duplicate(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    old, new = (replace(rule, dedupe=Deduplication("key")) for rule in both())
    driver = changed(log, store, clock, (replace(old, where="amount < 5"), new), ("z", 0, 1))
    put(log, ("a", 5, 7), ("a", 6, 2), ("a", 7, 3), ("y", 500, 0))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 2, "event"), ("z", 0, 1, "event")]


def test_a_session_has_the_records_that_touch_it_or_they_are_in_none(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    session = replace(MINUTE, kind="session", size=10.0, grace=20.0)
    old, new = both(session)
    driver = changed(log, store, clock, (replace(old, where="amount < 5"), new), ("a", 0, 1))
    put(log, ("a", 8, 7), ("a", 9, 2), ("b", 9, 7), ("a", 100, 9))
    driver.turns()
    assert sorted(results(log)) == [("a", 0, 3, "event"), ("b", 9, 7, "event")]


def test_a_longer_grace_of_the_new_rule_opens_no_window_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rules = windowed_agent(), windowed_agent(replace(MINUTE, grace=100.0), compute=MOST)
    driver = changed(log, store, clock, rules, ("a", 0, 1))
    put(log, ("a", 100, 2), ("a", 30, 4), ("a", 101, 8), ("z", 1000, 0))
    driver.turns()
    assert results(log) == [("a", 0, 1, "event"), ("a", 60, 8, "event")]
    assert dead(log) == [("2", "late")]
    assert older(store) == 0


# -- replays -----------------------------------------------------------------------------------------------------------

SILENT = replace(MINUTE, idle=None, at_most=None)


def shadow(log: Log, store: MemoryStore, rule: Agent) -> Shadowed:
    app = App("app", "memory://", (rule,))
    return Shadowing(app, rule, store, LogHistory(log, "app.sums"), ALL, NoWatch()).compare(rule)


def test_a_shadow_waits_for_what_finishes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Then it says how many results an earlier version made."""
    rules = both(SILENT)
    driver = changed(log, store, clock, rules, ("a", -70, 1), ("a", 0, 1))
    put(log, ("a", 10, 2))
    driver.turns(4)
    with pytest.raises(ConfigurationError, match="earlier version of the rule still finish in in/0"):
        shadow(log, store, rules[1])
    put(log, ("z", 500, 0))
    driver.turns(4)
    compared = shadow(log, store, rules[1])
    assert compared.notes == ["2 results of another version of the rule: they may differ"]
    assert (compared.results.counts["identical"], compared.results.counts["changed"]) == (1, 1)


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "session"])
def test_a_rebuild_goes_on_with_what_finished_under_the_rule_of_the_file(
    kind: str, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """Each window still has one result. What an earlier rule counted otherwise is refused."""
    window = replace(SILENT, kind=kind, size=10.0 if kind == "session" else 60.0, every=20.0 * (kind == "hopping"))
    rules = both(window)
    driver = changed(log, store, clock, rules, ("a", -70, 1), ("a", 0, 1), ("b", 1, 1))
    put(log, ("a", 5, 2))
    driver.turns(4)
    clock.now += 1
    driver.turns(4)
    with pytest.raises(ConfigurationError, match="another rule or dedupe than now"):
        rebuild(replace(rules[1], where="amount > 1"), memory(clock), log, clock)
    rebuild(rules[1], store := memory(clock), log, clock)
    put(log, ("a", 6, 4), ("z", 500, 0))
    Driver(rules[1], store, log, clock).give(0).turns(6)
    windows = [result[:2] for result in results(log)]
    assert len(windows) == len({*windows})
    assert ("a", 0, 4, "event") in results(log)


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
    ended = [(message.k, (header(message, "sluicegate-rule") or "")) for message in distinct(log, "out")]
    assert ended == [(b"b", rule_of(new).short), (b"a", rule_of(old).short), (b"c", rule_of(old).short)] or (
        sorted(ended) == [(b"a", rule_of(old).short), (b"b", rule_of(new).short), (b"c", rule_of(old).short)]
    )
    assert dead(log) == [("6", "late")]


def test_a_correlation_that_is_open_keeps_of_a_leg_what_its_own_rule_says(
    store: MemoryStore, clock: ManualClock
) -> None:
    """`keep` of the leg payment changes from last to all."""
    old = correlated(test_correlate.AGENT, "has(group.order)")
    rule = old.aggregation
    assert rule is not None
    [order, payment, note] = rule.compute
    new = replace(old, aggregation=replace(rule, compute=(order, replace(payment, kind="collect"), note)))
    log = a_log("in", "out", "dead")
    leg(log, "a", "payment", 1)
    again(log, store, clock, [old]).turns()
    driver = again(log, store, clock, [old, new]).turns()
    for key in ("a", "b"):
        leg(log, key, "payment", 2), leg(log, key, "payment", 3), leg(log, key, "order", 4)
    driver.turns()
    ended = {message.k: json.loads(message.v or b"")["payment"] for message in distinct(log, "out")}
    assert ended == {b"a": 3, b"b": [2, 3]}


def test_a_correlation_without_versions_finishes_under_no_rule(store: MemoryStore, clock: ManualClock) -> None:
    """Only the layout of its groups is known, and so nothing would end them."""
    old, log = test_correlate.AGENT, a_log("in", "out", "dead")
    leg(log, "a", "payment")
    Driver(old, store, log, clock).give(0).turns()
    rule = old.aggregation
    assert rule is not None
    new = replace(old, aggregation=replace(rule, compute=rule.compute[:2], until="has(group.order)"))
    with pytest.raises(ConfigurationError, match="while 1 groups of in/0 are open"):
        Driver(new, store, log, clock, on_rule_change="finish").give(0).turns()


def leg(log: Log, key: str, name: str, value: int = 1) -> None:
    log.append("in", 0, key.encode(), b'{"%s": %d}' % (name.encode(), value))


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
    ended = {message.k: header(message, "sluicegate-rule") for message in reversed(distinct(scene.log, "out"))}
    short = {rule.aggregation.until: rule_of(rule).short for rule in (old, new) if rule.aggregation}
    assert ended[b"a"] == ended[b"b"] == short[old.aggregation.until]  # type: ignore[union-attr]
    assert ended[b"c"] == short["has(group.order)"]
    assert (scene.late != []) is shared
