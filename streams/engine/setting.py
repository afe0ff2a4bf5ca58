"""What all partitions of a worker share."""

from typing import NamedTuple

from streams.agent import Agent
from streams.aggregation.rule import Rule
from streams.contracts import Input, Store
from streams.engine.handling import Handling


class Setting(NamedTuple):
    """`process` is a random name of this process, `member` the one people see; `handling` is None without handlers."""

    agent: Agent
    rule: Rule
    store: Store
    input: Input
    process: str
    member: str
    on_rule_change: str
    handling: Handling | None = None
