"""The runtime that all partitions of a worker share."""

from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.stores import Input, Store
from sluicegate.streams.handlers.processor import RecordProcessor
from sluicegate.streams.handlers.slow import Slow
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.reading.dedupe import IdRule


class AgentRuntime(NamedTuple):
    """`process` is a random name of this process, `member` the name that operators see. `slow` calls handlers outside
    of the commits (`concurrency`)."""

    agent: Agent
    rule: Rule
    store: Store
    input: Input
    process: str
    member: str
    on_rule_change: str
    processor: RecordProcessor
    slow: Slow | None = None
    ids: IdRule | None = None
    schemas: RegisteredSchemas | None = None
