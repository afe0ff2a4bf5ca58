"""The state of all partitions, read from the store at once."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError
from sluicegate.streams.operations import auditing
from sluicegate.streams.operations.auditing import PlacedChange
from sluicegate.streams.operations.groups.cold_groups import parts
from sluicegate.streams.operations.groups.contents import PartitionContents, held
from sluicegate.streams.operations.groups.group_changes import where
from sluicegate.streams.operations.groups.open_groups import OpenGroup, groups_in
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.windows.groups import WindowGroups

MOST_GROUPS = 100_000
"""An agent with more open groups is not read, because it would need too much memory of the supervisor."""


class PartitionShown(NamedTuple):
    """One partition in the store. `watermark` is in milliseconds since 1970; None without windows and before the first
    record. `earlier` counts the groups of each earlier version of the rule. `again` counts the records that are still
    to be read again. `note` is the reason why its groups could not be read."""

    partition: Partition
    owner: str
    offset: int
    unsent: int
    dead: int
    watermark: int | None = None
    version: int = 0
    earlier: Mapping[int, int] = {}
    again: int = 0
    note: str = ""


class StoreSnapshot(NamedTuple):
    """`groups` are by agent. `unread` names the agents with too many groups."""

    partitions: Sequence[PartitionShown]
    groups: Mapping[str, Sequence[OpenGroup]]
    changes: Sequence[PlacedChange]
    unread: Sequence[str]


def taken(app: App, store: Store, counts: Mapping[str, int]) -> StoreSnapshot:
    """Read a snapshot. `counts` are the numbers of open groups that the workers of each agent reported. Raises
    PersistenceError."""
    agents = {agent.name: agent for agent in app.agents if counts.get(agent.name, 0) <= MOST_GROUPS}
    shown: list[PartitionShown] = []
    groups: dict[str, list[OpenGroup]] = {name: [] for name in agents}
    changes: list[PlacedChange] = []
    for partition in store.partitions(app.name):
        if partition.agent in agents:
            for row, contents in _read(agents[partition.agent], partition, store):
                shown.append(row)
                if contents is not None:
                    groups[partition.agent] += (group for part in parts(contents, store) for group in groups_in(part))
                    changes += auditing.amended(contents)
    for agent in agents.values():
        if agent.scope == "shared":
            groups[agent.name] += shared_groups(store.buffer, app.name, agent, time.time())
    return StoreSnapshot(shown, groups, changes, [agent.name for agent in app.agents if agent.name not in agents])


def _read(
    agent: Agent, partition: Partition, store: Store
) -> Iterator[tuple[PartitionShown, PartitionContents | None]]:
    """Yields nothing for a partition that was never claimed."""
    view = store.read(partition)
    if view is None:
        return
    row = PartitionShown(partition, view.claim.owner, view.claim.offset, view.unsent, view.dead)
    try:
        contents = held(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError) as error:
        yield row._replace(note=str(error)), None
        return
    newest = contents.groups
    watermark = newest.event.watermark if isinstance(newest, WindowGroups) and newest.event.watermark >= 0 else None
    earlier = {each.version: len(each.groups.states) for each in contents.older}
    again = sum(group.unread or 0 for group in groups_in(contents)) if contents.older else 0
    version = view.claim.source.version if view.claim.source else 0
    yield row._replace(watermark=watermark, version=version, earlier=earlier, again=again), contents


def identity(group: OpenGroup) -> tuple[str, bytes, int | None]:
    """A key that identifies the group among all groups of its agent, except groups of an earlier version of the
    rule."""
    return where(group), group.key, None if group.window is None else group.window.start
