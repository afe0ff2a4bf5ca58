"""The runtime objects that all partitions of a worker share."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Input, Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.processor import RecordProcessor
from sluicegate.streams.handlers.slow import Slow
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.ownership.matching_topics import MatchingTopics
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.rules.versions import UNVERSIONED, Deployed


class AgentRuntime(NamedTuple):
    """`process` is a random name of this process; `member` is the name that operators see. `slow` runs handlers outside
    of the commits (`concurrency`). `rows` creates the rows of a partition for a rule of the agent. `deployed` has the
    versions of the rule up to the one that this worker runs. `on_rule_change` is the policy if no version was recorded.
    `mac` signs rows and verifies records; without it all headers are trusted. `matching` has the topics of patterns.
    `clusters`: rows are sent to several clusters, independently of each other. `probes_first` is as in Probing."""

    agent: Agent
    rule: Rule
    store: Store
    input: Input
    process: str
    member: str
    on_rule_change: str
    processor: RecordProcessor
    slow: Slow | None
    rows: Callable[[Partition, Agent], Rows]
    ids: IdRule | None = None
    schemas: RegisteredSchemas | None = None
    deployed: Deployed = UNVERSIONED
    mac: Mac | None = None
    matching: MatchingTopics | None = None
    clusters: Collection[str] = ()
    probes_first: bool = False
