"""The state of a partition, read from its changelog for operators."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import Amendment
from sluicegate.streams.aggregation.durable.paging import Paging
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule, restored
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, Partition, PartitionView
from sluicegate.streams.handlers.sealed import Sealed
from sluicegate.streams.ownership.beginning import idle_since
from sluicegate.streams.ownership.generations import Older, beside
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.windows.opening import groups_of


class GenerationContents(NamedTuple):
    """The open groups of one generation, and the rule that filled them. `version` 0: unknown."""

    generation: int
    rule: Rule
    groups: Groups
    version: int = 0


class PartitionContents(NamedTuple):
    """The groups of a partition under `rule`, the items that wait for slow handlers, and the changes by operators. The
    cold groups are not in `groups`: `paging` describes them (cold_groups.py). `older` are the generations that still
    have groups of earlier versions of the rule."""

    partition: Partition
    claim: Claim
    rule: Rule
    groups: Groups
    sealed: Sealed
    amended: list[Amendment]
    paging: Paging
    older: Sequence[GenerationContents] = ()

    @property
    def open_groups(self) -> int:
        """The number of open groups."""
        return self.groups.cold.count + sum(len(generation.groups.states) for generation in self.every)

    @property
    def every(self) -> list[GenerationContents]:
        """The generations, oldest first; the last one takes the records."""
        source = self.claim.source
        generation, version = (source.generation, source.version) if source else (0, 0)
        return [*self.older, GenerationContents(generation, self.rule, self.groups, version)]


def contents_of(agent: Agent, partition: Partition, view: PartitionView) -> PartitionContents:
    """The contents of a partition. Raises ChangelogIncomplete, and ConfigurationError when the rule that filled the
    groups cannot be restored."""
    rule = Rule(agent, formats.reads(agent))
    source = view.claim.source
    if source is not None and source.rule != rule.fingerprint:
        rule = restored(agent, source.rule)
    groups, sealed = groups_of(rule), Sealed(place=(partition.topic, partition.number))
    older = [Older(known, agent) for known in (source.older if source is not None else ())]
    generation = source.generation if source is not None else 0
    by_number = {part.known.number: part.groups for part in older}
    log = Changelog(groups, view.claim.first, sealed=sealed, generation=generation, older=by_number)
    log.replay(view.entries, view.claim.first, view.claim.last, ReceivedShards(partition.topic))
    beside(older, groups)
    groups.idle = idle_since(source, rule, len(groups.states) + groups.cold.count, view.claim.store_time) or 0.0
    earlier = [
        GenerationContents(part.known.number, part.groups.rule, part.groups, part.known.version) for part in older
    ]
    return PartitionContents(partition, view.claim, rule, groups, sealed, list(log.amended), log.paging, earlier)


def place_of(partition: Partition) -> str:
    """The partition as TOPIC/NUMBER."""
    return f"{partition.topic}/{partition.number}"


def partitions(store: Store, app: str, agent: Agent, place: str | None = None) -> Iterator[PartitionContents]:
    """The contents of this partition (None: of all, by topic and number). Raises PersistenceError and SystemNotReady,
    and the errors of `contents_of`."""
    for partition in store.partitions(app):
        wanted = partition.agent == agent.name and place in (None, place_of(partition))
        view = store.read(partition) if wanted else None
        if view is not None:
            yield contents_of(agent, partition, view)
