"""The cold groups of a partition, for operators: read in pages, and removed where a state is forgotten as a whole.

A reader without a claim reads the pages after the changelog. A group that its owner uses in between is seen once, as it
was, and one that its owner evicts or opens in between may not be seen. Under a claim nothing changes in between.
"""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from sluicegate.streams.aggregation.durable.cold import ColdKeys
from sluicegate.streams.aggregation.durable.entry import ColdState, unpacked, unpacked_state
from sluicegate.streams.aggregation.durable.paging import Paging, cold_row
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import FIRST
from sluicegate.streams.contracts.stores import ColdGroups, Store
from sluicegate.streams.contracts.values import Changes, Claim, ColdGroup, Partition, PartitionView
from sluicegate.streams.operations.groups.contents import PartitionContents
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.standing import plain_key

PAGE = 1_000


def pages(store: ColdGroups, partition: Partition) -> Iterator[Sequence[ColdGroup]]:
    after: bytes | None = None
    while rows := store.keys(partition, after, PAGE):
        after = rows[-1].key
        yield rows


def parts(contents: PartitionContents, store: ColdGroups) -> Iterator[PartitionContents]:
    """The contents without the cold groups, followed by pages of the cold groups, oldest first within a page. Raises
    PersistenceError and ChangelogIncomplete."""
    yield contents
    if contents.groups.cold.count:
        for rows in pages(store, contents.partition):
            yield _with(contents, rows)


def with_rows(contents: PartitionContents, store: ColdGroups, keys: Sequence[bytes]) -> Iterator[PartitionContents]:
    """Same as `parts`, restricted to the rows with these keys."""
    yield contents
    if contents.groups.cold.count:
        yield _with(contents, store.cold(contents.partition, keys))


def rows_of(contents: PartitionContents, store: ColdGroups, name: bytes) -> Sequence[bytes]:
    """The keys of the rows of the group of this name. Raises PersistenceError and ChangelogIncomplete."""
    cold = contents.groups.cold
    if name in contents.groups.states:
        return cold.left(name)
    groups = _with(contents, store.cold(contents.partition, cold.rows_of(name))).groups
    return groups.cold.removed(name) if name in groups.states else ()


def has_changed(contents: PartitionContents, view: PartitionView, key: bytes) -> bool:
    """Whether a group of this key changed, or may have changed, between the contents and a later view of the
    partition. Raises ChangelogIncomplete."""
    known, now = contents.claim, view.claim
    if now.token != known.token or now.first > known.last + 1:
        return True
    later = view.entries[known.last + 1 - now.first :]
    return any(plain_key(contents.groups, name) == key for entry in later for name in unpacked(entry).states)


def whole(contents: PartitionContents, store: ColdGroups) -> PartitionContents:
    """The contents with all cold groups in memory, oldest first."""
    groups = contents.groups
    for part in parts(contents, store):
        groups.states |= part.groups.states
        groups.bags |= part.groups.bags
    groups.cold = groups.cold_keys(groups)
    groups.states = dict(sorted(groups.states.items(), key=lambda item: item[1][FIRST]))
    return contents


def remaining(groups: Groups, names: Collection[bytes]) -> Sequence[ColdGroup]:
    """Remove these groups. Returns the new rows of the other groups that were in one row with them."""
    rows, others = list[ColdGroup](), {other for name in names for other in groups.cold.members(name)}.difference(names)
    groups.states |= groups.heirs(names)
    for name in names:
        groups.drop(name)
    while others:
        name = min(others)
        rows += [*groups.cold.alarms(name), cold_row(groups, name)]
        others.difference_update(groups.cold.members(name))
    return rows


def without(
    contents: PartitionContents, store: ColdGroups, keys: Sequence[bytes], new: Sequence[ColdGroup] = ()
) -> ColdState:
    """The changelog's state of the cold groups after the removal of these rows and their groups, with new rows."""
    known, cold = contents.groups.cold, ColdKeys(contents.groups)
    cold.restore(known.count, known.starts)
    for row in store.cold(contents.partition, keys):
        if known.is_cold(row.key, ()):
            cold.remove(known.starts_in(row.key, unpacked_state(row.state)))
    for row in new:
        if known.is_cold(row.key, ()):
            cold.add(known.starts_in(row.key, unpacked_state(row.state)))
    return replace(contents.paging.noted(), count=cold.count, starts=cold.starts)


def remove_all(store: Store, claim: Claim) -> Claim:
    """Removes all cold groups of the partition. Returns the claim after the last commit. Raises Fenced and
    PersistenceError."""
    for rows in pages(store, claim.partition):
        drop = [row.key for row in rows]
        claim = store.commit(claim, Changes(claim.offset, claim.epoch, trying=claim.trying, drop_cold=drop))
    return claim


def _with(contents: PartitionContents, rows: Sequence[ColdGroup]) -> PartitionContents:
    """The contents with only these groups. Groups that are hot by now are left out."""
    groups, hot = groups_of(contents.rule), contents.groups
    groups.idle = hot.idle
    for name in Paging(groups).warm(rows, groups):
        if name in hot.states:
            groups.drop(name)
    groups.beside(hot)
    groups.cold, groups.touched = groups.cold_keys(groups), {}
    groups.states = dict(sorted(groups.states.items(), key=lambda item: item[1][FIRST]))
    return contents._replace(groups=groups, older=())
