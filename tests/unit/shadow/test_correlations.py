"""The shadow of correlations by both clocks, and of windows over a re-keyed topic: random records, pauses, crashes."""

import json
import random
from dataclasses import replace

import pytest

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.operations.replaying import shadowing
from sluicegate.streams.operations.replaying.shadowing import Shadowing
from sluicegate.streams.shadow.verdicts import Shadowed
from tests.unit.engine import test_correlate, test_correlate_by_time, test_origins
from tests.unit.engine.driver import Log, ManualClock, memory
from tests.unit.engine.rebuilding import LogHistory
from tests.unit.shadow.scene import ALL, NoWatch, Scene, all_identical


def shadowed(agent: Agent, store: object, log: Log) -> Shadowed:
    app = App("app", "memory://", (agent,))
    history = LogHistory(log, f"app.{agent.name}")
    return Shadowing(app, agent, store, history, ALL, NoWatch()).compare(agent)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
def test_correlations_by_the_clock_of_the_worker_are_identical(seed: int) -> None:
    agent = test_correlate.AGENT
    assert agent.aggregation is not None
    assert agent.aggregation.correlation is not None
    correlation = replace(agent.aggregation.correlation, remember=10_000.0, late=("skip", "dead-letter")[seed % 2])
    agent = replace(agent, aggregation=replace(agent.aggregation, since_first=6.0, correlation=correlation))
    scene = Scene(agent, seed=seed)
    scene.correlate(150, test_correlate.LEGS)
    comparison = scene.shadow()
    assert all_identical(comparison), json.dumps(comparison.document(), indent=1)
    assert comparison.results.counts["identical"] > 20


def by_time(seed: int, agent: Agent) -> tuple[Shadowed, test_correlate_by_time.Scene]:
    chance, clock = random.Random(seed), ManualClock()
    scene = test_correlate_by_time.Scene(clock, memory(clock), agent)
    for _ in range(40):
        for name in test_correlate_by_time.LEGS:
            at = round(clock.now) - round(ManualClock().now)
            keys = [str(chance.randrange(at // 8 + 4)) for _ in range(chance.randrange(4))]
            scene.put(name, *((key, at - chance.choice([0, 0, 1, 5, 20, 70])) for key in keys))
        scene.run(chance.choice([1, 1, 2, 8, 40]), *chance.choice([(), (), ("order",), ("payment",)]))
        if chance.random() < 0.15:
            scene.owner = scene.new_owner()
    scene.run(2)
    return shadowed(agent, scene.store, scene.log), scene


@pytest.mark.parametrize("since", ["first", "last"])
@pytest.mark.parametrize("seed", range(4))
def test_correlations_by_event_time_are_identical(seed: int, since: str) -> None:
    agent = test_correlate_by_time.MAIN
    assert agent.aggregation is not None
    assert agent.aggregation.correlation is not None
    correlation = replace(agent.aggregation.correlation, remember=100_000.0, since=since)  # type: ignore[arg-type]
    comparison, scene = by_time(seed, replace(agent, aggregation=replace(agent.aggregation, correlation=correlation)))
    assert all_identical(comparison), json.dumps(comparison.document(), indent=1)
    assert comparison.results.counts["identical"] > 10
    assert {by for *_, by in scene.results} >= {None, "event"}


def merged(seed: int) -> Shadowed:
    chance, clock = random.Random(seed), ManualClock()
    scene = test_origins.Scene(clock, memory(clock))
    scene.put(0, ("a", 1, 1), ("a", 70, 1), ("a", 140, 1), ("b", 10, 1))
    scene.run(5, 0)  # the other origin is unknown
    for _ in range(40):
        for number in (0, 1):
            at = round(clock.now) - round(ManualClock().now)
            keys = [chance.choice("abc") for _ in range(chance.randrange(4))]
            scene.put(number, *((key, max(0, at - chance.choice([0, 1, 5, 20, 70])), 1) for key in keys))
        scene.run(chance.choice([1, 1, 2, 8, 40]), *chance.choice([(), (), (0,), (1,)]))
        if chance.random() < 0.15:
            scene.second = scene.owner()
    scene.run(2)
    return shadowed(test_origins.SECOND, scene.store, scene.log)


@pytest.mark.parametrize("seed", range(6))
def test_windows_over_a_rekeyed_topic_are_identical(seed: int) -> None:
    comparison = merged(seed)
    assert all_identical(comparison), json.dumps(comparison.document(), indent=1)
    assert comparison.results.counts["identical"] > 10


def test_twin_that_does_not_wait_for_all_origins_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "origins_of", lambda agent, facts: [])
    assert not all(all_identical(merged(seed)) for seed in range(6))
