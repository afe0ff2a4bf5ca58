"""Filters the records of a partition that are new to its agent."""

from collections.abc import Sequence

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.topic_names import reads


class RecordGate:
    """The gate of a partition. Every reader of its records uses it: a worker, a rebuild, a shadow, and commands. `ids`
    is None without `dedupe`. `receives`: Sluicegate agents write the topic. `passed_over` counts records that are
    addressed to another agent, since the last count."""

    __slots__ = ("_partition", "dedupe", "passed_over", "proof", "receives", "senders")

    def __init__(self, partition: Partition, agent: Agent, ids: IdRule | None, proof: HeaderProof) -> None:
        self._partition, self.proof = partition, proof
        self.receives, self.senders = reads(agent.receive, partition.topic), ReceivedShards(partition.topic)
        self.dedupe = DuplicateFilter(ids) if ids else None
        self.passed_over = 0

    def fresh(self, records: Sequence[Record], now: float) -> Sequence[Record]:
        """The records for this agent, without repeats of Sluicegate senders."""
        ours = for_us(records, self._partition, self.proof)
        self.passed_over += len(records) - len(ours)
        return self.senders.drop_repeats(ours, now, self.proof) if self.receives else ours
