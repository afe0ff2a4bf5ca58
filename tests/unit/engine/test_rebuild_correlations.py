"""Correlations, and windows over a re-keyed topic, whose store is lost: the rebuilt one holds what the old one held."""

import random
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.rebuilding import rebuild_plan
from sluicegate.streams.windows.opening import known_ids
from sluicegate.streams.windows.replayed import ReplayedGroups
from tests.unit.engine import test_correlate_by_time, test_origins
from tests.unit.engine.driver import ManualClock, memory
from tests.unit.engine.rebuilding import rebuild
from tests.unit.engine.scene import distinct, header


def contents(agent: Agent, store: Any, number: int) -> Any:
    """Offset; by name of each open group count, first and last record and values; what is remembered of ended keys."""
    place = Partition("app", agent.name, agent.topics[0], number)
    view = store.read(place)
    if view is None or view.claim.offset < 0:
        return None
    within = contents_of(agent, place, view)
    groups = within.groups
    ids = known_ids(groups)
    states = {name: (s[:3], within.rule.values(s, groups.bags.get(name, []))) for name, s in groups.states.items()}
    watermark = groups.event.watermark if hasattr(groups, "event") else None
    return view.claim.offset, states, watermark, sorted(ids.remembered() if ids is not None else ())


def correlated(seed: int, by_time: bool) -> tuple[Any, Agent]:
    chance, clock, main = random.Random(seed), ManualClock(), test_correlate_by_time.MAIN
    assert main.aggregation is not None
    rule = main.aggregation if by_time else replace(main.aggregation, window=None, since_first=20.0)
    agent = replace(main, aggregation=rule)
    scene = test_correlate_by_time.Scene(clock, memory(clock), agent)
    for _ in range(30):
        for name in test_correlate_by_time.LEGS:
            at = round(clock.now) - round(ManualClock().now)
            keys = [str(chance.randrange(at // 8 + 4)) for _ in range(chance.randrange(4))]
            scene.put(name, *((key, at - chance.choice([0, 0, 1, 5, 20])) for key in keys))
        scene.run(chance.choice([1, 1, 2, 8]))
        if chance.random() < 0.15:
            scene.owner = scene.new_owner()
    scene.run(3)
    return scene, agent


def compared(scene: Any, agent: Agent, numbers: int) -> bool:
    lost = memory(scene.clock)
    rebuild(agent, lost, scene.log, scene.clock)
    return all(contents(agent, lost, n) == contents(agent, scene.store, n) for n in range(numbers))


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_correlations_come_back(seed: int, by_time: bool) -> None:
    scene, agent = correlated(seed, by_time)
    assert len(distinct(scene.log, "out")) > 5
    assert compared(scene, agent, 1)


@pytest.mark.parametrize("seed", range(5))
def test_windows_over_a_rekeyed_topic_come_back(seed: int) -> None:
    chance, clock = random.Random(seed), ManualClock()
    scene = test_origins.Scene(clock, memory(clock))
    for _ in range(30):
        for number in (0, 1):
            at = round(clock.now) - round(ManualClock().now)
            keys = [chance.choice("abc") for _ in range(chance.randrange(4))]
            scene.put(number, *((key, max(0, at - chance.choice([0, 1, 5, 20, 70])), 1) for key in keys))
        scene.run(chance.choice([1, 1, 2, 8, 40]))
        if chance.random() < 0.15:
            scene.second = scene.owner()
    scene.run(3)
    assert len(distinct(scene.log, "out")) > 5
    assert compared(scene, test_origins.SECOND, 2)


def test_the_worker_goes_on_with_the_rebuilt_state_and_sends_no_id_twice() -> None:
    scene, agent = correlated(1, by_time=True)
    scene.store = memory(scene.clock)
    for item in (agent, *(driver.agent for driver in scene.legs.values())):
        rebuild(item, scene.store, scene.log, scene.clock)
    before = [header(message, "sluicegate-id") for part in scene.log.topics["out"] for message in part]
    scene.legs = {
        name: type(driver)(driver.agent, scene.store, scene.log, scene.clock).give(0)
        for name, driver in scene.legs.items()
    }
    scene.owner = scene.new_owner(agent)
    at = round(scene.clock.now) - round(ManualClock().now)
    scene.put("order", ("new", at), ("z", at + 90)).put("payment", ("new", at), ("z", at + 90)).run(8)
    after = [header(message, "sluicegate-id") for part in scene.log.topics["out"] for message in part]
    assert len(after) > len(before)
    assert len(set(after)) == len(after)


def test_twin_without_the_silence_of_the_results_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watermark of the rebuilt state is another one, or a result has no group."""
    monkeypatch.setattr(ReplayedGroups, "silence", lambda self, to, at, now: None)
    assert not all(_alike(seed) for seed in range(5))


def test_twin_that_waits_for_no_origins_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild_plan, "origins_of", lambda agent, facts: [])
    clock = ManualClock()
    scene = test_origins.Scene(clock, memory(clock))
    scene.put(0, ("a", 1, 1), ("a", 70, 1), ("b", 10, 1))
    scene.run(5, 0)
    assert not compared(scene, test_origins.SECOND, 2)


def _alike(seed: int) -> bool:
    scene, agent = correlated(seed, by_time=True)
    scene.put("order", ("last", 1)).run(1)
    for _ in range(20):
        scene.run(20)
    try:
        return compared(scene, agent, 1)
    except ConfigurationError:
        return False
