"""The state of all partitions, read from the store at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import NamedTuple

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.console.group_table import GroupTable
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import ColdGroup, Partition, PartitionView
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError
from sluicegate.streams.operations import auditing
from sluicegate.streams.operations.auditing import PlacedChange
from sluicegate.streams.operations.groups.cold_groups import parts
from sluicegate.streams.operations.groups.contents import PartitionContents, contents_of
from sluicegate.streams.operations.groups.open_groups import groups_in
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.wording import counted

MOST_GROUPS = 1_000_000
"""The groups of all agents that are listed, in the order of the partitions. More of them are counted."""
LARGEST_PARTITION = 1_000_000
"""A partition with more hot groups is not read, because the supervisor would need as much memory as its worker."""

BorrowStore = Callable[[], AbstractContextManager[Store]]
"""Lends the store for one call, so that other questions do not wait for the whole reading."""


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
    """`groups` are by agent."""

    partitions: Sequence[PartitionShown]
    groups: Mapping[str, GroupTable]
    changes: Sequence[PlacedChange]


def taken(app: App, borrow: BorrowStore, counts: Mapping[Partition, int]) -> StoreSnapshot:
    """Read a snapshot. `counts` are the numbers of open groups that the workers reported. Raises PersistenceError. The
    memory that it needs beside the result is that of the hot groups of the largest partition."""
    agents = {agent.name: agent for agent in app.agents}
    tables = {agent.name: GroupTable(agent) for agent in app.agents}
    shown: list[PartitionShown] = []
    changes: list[PlacedChange] = []
    with borrow() as store:
        partitions = list(store.partitions(app.name))
    for partition in partitions:
        agent = agents.get(partition.agent)
        if agent is None:
            continue
        with borrow() as store:
            view = store.read(partition)
        if view is not None:  # else it was never claimed
            most = MOST_GROUPS - sum(map(len, tables.values()))
            row, made = _read(agent, view, _ColdReader(borrow), tables[agent.name], most, counts.get(partition, 0))
            shown.append(row)
            changes += made
    for agent in app.agents:
        if agent.scope == "shared":
            with borrow() as store:
                tables[agent.name].add(shared_groups(store.buffer, app.name, agent, time.time()))
    return StoreSnapshot(shown, tables, changes)


def _read(
    agent: Agent, view: PartitionView, cold: "_ColdReader", table: GroupTable, most: int, reported: int
) -> tuple[PartitionShown, list[PlacedChange]]:
    """Adds at most `most` groups of the partition to the table. Returns its row, and the changes by operators."""
    partition = view.claim.partition
    row = PartitionShown(partition, view.claim.owner, view.claim.offset, view.unsent, view.dead)
    rule = agent.aggregation
    if rule is not None and min(reported, rule.hot_groups) > LARGEST_PARTITION:
        table.unlisted += reported
        return row._replace(note=f"not read: it has {counted(reported, 'open group')}"), []
    try:
        contents = contents_of(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError) as error:
        return row._replace(note=str(error)), []
    before = len(table)
    table.add(islice((group for part in parts(contents, cold) for group in groups_in(part)), most))
    if (listed := len(table) - before) == most:
        table.unlisted += max(0, contents.open_groups - listed)
    return _shown(row, contents), list(auditing.amended(contents))


def _shown(row: PartitionShown, contents: PartitionContents) -> PartitionShown:
    newest, source = contents.groups, contents.claim.source
    watermark = newest.event.watermark if isinstance(newest, WindowGroups) and newest.event.watermark >= 0 else None
    earlier = {generation.version: len(generation.groups.states) for generation in contents.older}
    again = sum(group.unread or 0 for group in groups_in(contents)) if contents.older else 0
    return row._replace(watermark=watermark, version=source.version if source else 0, earlier=earlier, again=again)


class _ColdReader:
    """Reads cold groups from a store that it borrows for each page."""

    def __init__(self, borrow: BorrowStore) -> None:
        self._borrow = borrow

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        with self._borrow() as store:
            return store.cold(partition, keys)

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        with self._borrow() as store:
            return store.due(partition, until, limit)

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        with self._borrow() as store:
            return store.keys(partition, after, limit)

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        with self._borrow() as store:
            return store.before(partition, key, limit)
