"""The shadow of another count: every figure equals a program that shares no code with the engine."""

import json
from collections import defaultdict
from dataclasses import replace

import pytest

from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene

Ended = dict[int, tuple[int, int, float]]


def ended(scene: Scene, count: int) -> Ended:
    """By the first record of each group that is complete: its last record, its size and its sum."""
    groups: dict[bytes, list[tuple[int, float]]] = defaultdict(list)
    results: Ended = {}
    for record in scene.log.topics["in"][0]:
        amount = json.loads(record.v)["amount"]
        if amount is not None:
            group = groups[record.k]
            group.append((record.o, amount))
            if len(group) == count:
                results[group[0][0]] = (record.o, count, sum(value for _, value in group))
                group.clear()
    return results


@pytest.mark.parametrize("counts", [(6, 3), (3, 6), (4, 3), (2, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_another_count_gives_the_figures_of_the_oracle(counts: tuple[int, int], seed: int) -> None:
    scene = Scene(an_agent(count=counts[0], since_first=None), seed=seed)
    scene.play(200, kill=0.2)
    assert scene.agent.aggregation is not None
    rule = replace(scene.agent, aggregation=replace(scene.agent.aggregation, count=counts[1]))
    live, new = ended(scene, counts[0]), ended(scene, counts[1])
    both = live.keys() & new.keys()
    assert scene.shadow(rule).results.counts == {
        "identical": sum(live[first] == new[first] for first in both),
        "changed": sum(live[first] != new[first] for first in both),
        "missing": len(new.keys() - live.keys()),
        "extra": len(live.keys() - new.keys()),
        "uncertain": 0,
    }
