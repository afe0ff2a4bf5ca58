"""State in the store of agents and topics that the file does not have. No worker of the file uses it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition, PartitionView
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.operations.planning import Holding
from sluicegate.streams.rules.versions import UNVERSIONED, Deployed
from sluicegate.streams.topic_names import reads
from sluicegate.streams.versions import catalogue

OWN = "~"
"""Is in the names of rows that belong to no agent of a file: the journal, the catalogue, replays."""


class LeftBehind(NamedTuple):
    """A partition that the file does not read. `owner` is the worker that claimed it; empty after a clean stop.
    `holding` None: its groups cannot be read."""

    partition: Partition
    owner: str
    holding: Holding | None

    @property
    def contents(self) -> str:
        return "groups that cannot be read" if self.holding is None else str(self.holding)


def left_behind(store: Store, app: App) -> list[LeftBehind]:
    """The partitions that hold open groups, items or unsent rows, sorted. Raises PersistenceError."""
    read = {agent.name: agent.topics for agent in app.agents}
    mine = [partition for partition in store.partitions(app.name) if OWN not in partition.agent]
    partitions = [partition for partition in mine if not reads(read.get(partition.agent, ()), partition.topic)]
    if not partitions:
        return []
    deployed = _deployed(store, app.name)
    buffered = _buffered(store, app, deployed)
    orphans = []
    for partition in partitions:
        view = store.read(partition)
        if view is None:
            continue
        holding = _holding(partition, view, deployed.get(partition.agent, UNVERSIONED), buffered.get(partition, 0))
        if holding is None or not holding.empty:
            orphans.append(LeftBehind(partition, view.claim.owner, holding))
    return orphans


def texts(app: App, orphans: Sequence[LeftBehind]) -> dict[str, str]:
    """What is left and the remedy, by agent."""
    there = {agent.name for agent in app.agents}
    by_name = {}
    for name in dict.fromkeys(orphan.partition.agent for orphan in orphans):
        mine = [orphan for orphan in orphans if orphan.partition.agent == name]
        topics = ", ".join(dict.fromkeys(orphan.partition.topic for orphan in mine))
        what = f"agent {name} no longer reads {topics}" if name in there else f"agent {name} is not in this file"
        contents = ", ".join(f"{part.contents} in {part.partition.topic}/{part.partition.number}" for part in mine)
        consequence = f"no worker fires or sends what the store holds of it: {contents}"
        by_name[name] = f"{what}, and {consequence}; run the file that has it until they are gone"
    return by_name


def _deployed(store: Store, app: str) -> Mapping[str, Deployed]:
    try:
        return catalogue.read(store, app)
    except ChangelogIncomplete:
        return {}


def _buffered(store: Store, app: App, deployed: Mapping[str, Deployed]) -> dict[Partition, int]:
    """By partition, the number of groups in the buffers of agents with `scope: shared` that the file lacks."""
    there = {agent.name for agent in app.agents}
    counts: dict[Partition, int] = {}
    for name, versions in deployed.items():
        agent = versions.agent(versions.number)
        if name not in there and agent is not None and agent.scope == "shared":
            for group in shared_groups(store.buffer, app.name, agent, 0.0):
                counts[group.partition] = counts.get(group.partition, 0) + 1
    return counts


def _holding(partition: Partition, view: PartitionView, deployed: Deployed, buffered: int) -> Holding | None:
    """What the partition holds. None: it has entries, and no rule that can read them."""
    version = view.claim.source.version if view.claim.source is not None else 0
    agent = (deployed.agent(version) if version else None) or deployed.agent(deployed.number)
    try:
        if agent is None:
            return None if view.entries else Holding(rows=view.unsent)
        contents = contents_of(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError):
        return None
    groups = contents.open_groups + buffered
    return Holding(groups, bool(groups), len(contents.sealed.by_number), view.unsent)
