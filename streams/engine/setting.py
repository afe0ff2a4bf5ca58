"""What all partitions of a worker share."""

from typing import NamedTuple

from streams.agent import Agent
from streams.aggregation.rule import Rule
from streams.contracts import Input, Store
from streams.engine.handling import Handling
from streams.engine.rekey import Rekeying


class Setting(NamedTuple):
    """`process` is a random name of this process, `member` the one people see; `handling` is what is done with each message
    instead of an aggregation, or with its groups."""

    agent: Agent
    rule: Rule
    store: Store
    input: Input
    process: str
    member: str
    on_rule_change: str
    handling: Handling | Rekeying | None = None
