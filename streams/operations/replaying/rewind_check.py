"""Judges, before a deployment with the policy `rewind`, whether the records of the open groups can be read again. It
reads them as the partitions will. Claims nothing, writes nothing."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.layout import FIRST
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition, TopicFacts
from sluicegate.streams.errors import RewindMismatch
from sluicegate.streams.operations.groups.cold_groups import whole
from sluicegate.streams.operations.groups.contents import PartitionContents, contents_of
from sluicegate.streams.ownership.rereading import lowest, read_again
from sluicegate.streams.rules.versions import Deployed
from sluicegate.streams.topic_names import matching

ENDING = "wait until it has ended, or end it with `sluicegate groups fire`"


class InputHistory(Protocol):
    """The part of Kafka that this check needs, without joining a group."""

    def facts(self, topic: str, number: int) -> TopicFacts: ...
    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]: ...
    def compacted(self, topics: Sequence[str]) -> list[str]: ...


class RewindCheck:
    """Judges each version once, however often the deployment is tried."""

    def __init__(self, store: Store, app: str, history: InputHistory) -> None:
        self._store, self._app, self._history = store, app, history
        self._known: dict[tuple[str, int], list[str]] = {}

    def refused(self, old: Agent, before: Deployed) -> list[str]:
        """The reason why the groups that are open under `old`, the newest version of `before`, cannot be rewound.
        Raises PersistenceError and SystemNotReady."""
        place = old.name, before.number
        if place not in self._known:
            mine = [partition for partition in self._store.partitions(self._app) if partition.agent == old.name]
            texts = [text for partition in mine if (text := self._judge(old, before, partition))]
            self._known[place] = [*self._compacted(old, mine), *self._unclaimed(old, mine), *texts]
        return self._known[place]

    def _unclaimed(self, agent: Agent, known: Sequence[Partition]) -> list[str]:
        """The partitions without a claim. A worker that does not know the newest version yet may claim them first, and
        change to it afterwards."""
        places = {(partition.topic, partition.number) for partition in known}
        return [
            f"{topic}/{number} has no version yet; wait until a worker has claimed it"
            for topic in sorted(_topics(agent, known))
            for number in range(self._history.facts(topic, 0).partitions)
            if (topic, number) not in places
        ]

    def _compacted(self, agent: Agent, mine: Sequence[Partition]) -> list[str]:
        topics = self._history.compacted(sorted(_topics(agent, mine)))
        return [
            f"records of {topic} are deleted by their key (cleanup.policy), so some may be missing" for topic in topics
        ]

    def _judge(self, agent: Agent, before: Deployed, partition: Partition) -> str | None:
        view, place = self._store.read(partition), f"{partition.topic}/{partition.number}"
        source = view.claim.source if view is not None else None
        if view is None or source is None or source.version != before.number:
            return f"{place} has not changed to version {before.number} yet; wait until a worker has claimed it"
        if source.older:
            oldest = source.older[0].version
            return f"{place} still has a group of version {oldest}; {ENDING}"
        contents = whole(contents_of(agent, partition, view), self._store)
        if not contents.groups.states:
            return None
        return self._unreadable(contents, place) or self._mismatch(contents)

    def _unreadable(self, contents: PartitionContents, place: str) -> str | None:
        source, low = (
            contents.claim.source,
            self._history.facts(contents.partition.topic, contents.partition.number).low,
        )
        for key, state in contents.groups.states.items():
            which = f"the group of key {key.decode(errors='replace')!r} in {place}, which began at {state[FIRST]},"
            if source is not None and state[FIRST] < source.began:
                return f"{which} was converted from an earlier version; {ENDING}"
            if state[FIRST] < low:
                return f"{which} cannot be read again: the topic begins at {low}"
        return None

    def _mismatch(self, contents: PartitionContents) -> str | None:
        """Reads the records as the owner of the partition will."""
        groups, (topic, number), end = contents.groups, contents.partition[2:], contents.claim.offset
        try:
            for records in self._history.read(topic, number, lowest(groups), end):
                read_again(groups, records, end)
        except RewindMismatch as error:
            return f"{topic}/{number}: {error}"
        if groups.states:
            return f"{topic}/{number}: the topic lacks records of {len(groups.states)} open groups"
        return None


def _topics(agent: Agent, mine: Sequence[Partition]) -> list[str]:
    """The topics that the agent reads. Of a pattern, the matching topics that it has read."""
    return matching(agent.topics, {partition.topic for partition in mine})
