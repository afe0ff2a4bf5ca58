"""The factory gives windows to the rules that ask for them, and plain groups to all others."""

from dataclasses import replace

from sluicegate.schemas import codec
from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.tumbling_groups import TumblingGroups
from tests.unit.windows.turning import an_agent


def test_a_rule_with_a_window_has_windows() -> None:
    assert type(groups_of(Rule(an_agent(Window(60.0)), codec("json")))) is TumblingGroups


def test_a_rule_without_a_window_has_plain_groups() -> None:
    agent = an_agent(Window(60.0))
    assert agent.aggregation is not None
    plain = replace(agent, aggregation=replace(agent.aggregation, window=None))
    assert type(groups_of(Rule(plain, codec("json")))) is Groups
