"""An agent with windows over a re-keyed topic, and the one that re-keys for it."""

from dataclasses import replace
from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Destination
from tests.simulation import windowed

KIND = "origins"
IDLE = 4.0  # seconds


def agents(chance: Random) -> tuple[Agent, Agent]:
    made = windowed.agent(chance)
    rule = made.aggregation
    assert rule is not None
    assert rule.window is not None
    first = Agent(
        "keyed",
        ("in",),
        Aggregation(key="s"),
        Destination("mid", "raw"),
        "dead",
        rekeys="sums",
        times=replace(rule.window, idle=IDLE),
    )
    own = replace(rule, window=replace(rule.window, origins=("keyed/in",)))
    return first, replace(made, topics=("mid",), receive=("mid",), aggregation=own)
