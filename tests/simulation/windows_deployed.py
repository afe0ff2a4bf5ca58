"""Windows that are open while other versions of their rule are deployed."""

from dataclasses import replace
from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Reducer
from sluicegate.streams.keys import CONVERT, FINISH
from tests.simulation import windowed

KIND = "windows deployed"


def policies(agent: Agent) -> tuple[str, ...]:
    """A session that finishes is not joined with one of the next rule, so which sessions there are would not follow
    from the log alone."""
    window = agent.aggregation.window if agent.aggregation else None
    return (CONVERT,) if window is not None and window.windower.extends else (FINISH, CONVERT)


def agent(chance: Random) -> Agent:
    """Windows without revisions."""
    while True:
        made = windowed.agent(chance)
        window = made.aggregation.window if made.aggregation else None
        if window is not None and window.late != "amend":
            return made


def rules(base: Agent, chance: Random) -> tuple[Agent, ...]:
    """This rule, another sum, and two that go on with the open windows of this one."""
    rule = base.aggregation or Aggregation()
    other = replace(base, aggregation=replace(rule, compute=(Reducer("total", "sum", "m"),)))
    return base, other, replace(base, revision="2"), replace(base, having="count > 0")
