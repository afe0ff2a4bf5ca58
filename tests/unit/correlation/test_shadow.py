"""The shadow of correlations whose groups end without a result: the history tells of them."""

import json
from dataclasses import replace

import pytest

from tests.unit.engine.test_correlate import AGENT, LEGS
from tests.unit.shadow.scene import Scene, all_identical, figures


def played(seed: int, history: str) -> Scene:
    """Groups by the clock of the worker, with crashes. Those without all legs have no result."""
    assert AGENT.aggregation is not None
    assert AGENT.aggregation.correlation is not None
    correlation = replace(AGENT.aggregation.correlation, remember=10_000.0)
    rule = replace(AGENT.aggregation, since_first=6.0, correlation=correlation)
    scene = Scene(replace(AGENT, aggregation=rule, having='reason == "until"', history=history), seed=seed)
    scene.correlate(150, LEGS)
    return scene


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_the_history_tells_of_are_identical(seed: int) -> None:
    scene = played(seed, "history")
    result = scene.shadow()
    assert all_identical(result), json.dumps(result.document(), indent=1)
    assert result.results.counts["identical"] > 20
    assert any(scene.log.topics["history"])


def test_a_message_of_the_history_that_is_gone_is_missing() -> None:
    scene = played(0, "history")
    whole = figures(scene.shadow())["identical"]
    messages = next(partition for partition in scene.log.topics["history"] if partition)
    del messages[len(messages) // 2]
    assert figures(scene.shadow()) == {"identical": whole - 1, "missing": 1}
