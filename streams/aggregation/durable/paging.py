"""Manages the cold groups of a partition: groups that are rows of the store, and neither in memory nor in the
changelog.

The commit that evicts a group writes its row and removes it in the changelog. With its next record the group is hot:
the changelog has its state, and its row stays unchanged until the group is evicted again or ends. So a row is valid
only while its group is not hot, and a record costs at most one write of a row. The deadline of a row that stays wakes
the partition for its group, too. A restore of the changelog yields the hot groups, however many cold groups there are.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from math import inf
from typing import NamedTuple

from sluicegate.streams.aggregation.durable.cold import is_closed, row_width
from sluicegate.streams.aggregation.durable.entry import ColdState, PastResults, packed_state, unpacked_state
from sluicegate.streams.aggregation.firing import SLICE_BYTES
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, DEADLINE_SLOTS, Bags, GroupState
from sluicegate.streams.contracts.values import ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete

LEAST = 2_000  # each commit may evict at least this number of groups
ROW_BYTES = 64 * 1024  # the most bytes in the bags of a cold group
PART = 4_000  # the bags of a cold group have at most this part of max_buffered_bytes
STALE = 10_000  # touched keys that may be remembered, beyond two for each hot group
SORTED = 100_000  # keys that are sorted at once


class RowChanges(NamedTuple):
    """Changes of rows in a commit: `put_cold`, `drop_cold` and `drop_due` of Changes."""

    put: Sequence[ColdGroup]
    drop: Sequence[bytes]
    due: Sequence[ColdGroup]


class Paging:
    """The cold groups of one partition, as its owner knows them. The newest generation has the hot ones. `most` is the
    number of groups that stay hot; 0 evicts none.

    `nearest` is the nearest deadline of a cold group on the owner's clock; it may be early, never late. `ends` are the
    settings from which the deadlines of the rows were computed; empty: the settings of two rules. `at` is the owner's
    latest time at an eviction. `changed`: the next entry must store this state. `gone` are the keys of rows that the
    next commit deletes. `suspended`: commits evict no groups.
    """

    __slots__ = (
        "_due",
        "_groups",
        "_order",
        "_queue",
        "_recent",
        "_rows",
        "_size",
        "_stale",
        "at",
        "changed",
        "ends",
        "gone",
        "most",
        "nearest",
        "suspended",
    )

    def __init__(self, groups: Groups) -> None:
        self._groups, self.most = groups, 0
        self.nearest, self.at = inf, 0.0
        self.ends: tuple[float, ...] = ()
        self.changed = self.suspended = self._stale = False
        self._rows: set[bytes] = set()  # keys of hot groups that may have a row
        self.gone: dict[bytes, bool] = {}  # whether their deadlines name them
        self._due: list[ColdGroup] = []  # rows that the next commit deletes by their deadlines
        self._size = 0  # bytes in the bags of groups that timed out since the last commit
        self._order: deque[bytes] = deque()  # the keys that may be evicted in this turn, least recently touched first
        self._queue: deque[bytes] = deque()  # the first of them, sorted: neighbours are written together
        self._recent: set[bytes] = set()  # keys touched since the turn began

    @property
    def count(self) -> int:
        """The number of cold groups, without those that became hot since the last commit."""
        return self._groups.cold.count

    @property
    def has_rows(self) -> bool:
        """Whether the store may have rows of the partition."""
        return bool(self.count or self._stale or self._rows)

    def restore(self, state: ColdState) -> None:
        self.ends, self.at, self._stale = state.ends, state.at, state.stale
        self._groups.cold.restore(state.count, state.starts)
        self.nearest = -inf if state.count else inf

    def noted(self) -> ColdState:
        """The state for an entry of the changelog."""
        self.changed = False
        stale = self._stale or bool(self._rows)
        return ColdState(self.count, self.ends, self.at, stale, self._groups.cold.starts)

    def restored(self) -> None:
        """The groups of the changelog stay hot. Any of them may have a row."""
        if self._stale:
            self._rows, self._stale = set(self._groups.states), False

    def remove(self, rows: Iterable[ColdGroup], groups: Groups, by_due: bool = False) -> None:
        """Delete these rows with the next commit. Their groups are in `groups`, and need their deadlines in memory, or
        have ended. `by_due`: they have the nearest deadlines of all."""
        if by_due:
            self._due += [row for row in rows if not self.gone.get(row.key)]
        for row in rows:
            self.gone[row.key] = by_due
            self._rows.discard(row.key)
            groups.wait(row.key)

    def full(self, rows: int) -> bool:
        """Whether as many groups as one expiry may end, of `rows` rows or of SLICE_BYTES, wait for the next commit."""
        return len(self._due) >= rows or self._size > SLICE_BYTES

    def emptied(self) -> None:
        """No row is left."""
        self._rows, self._stale, self.changed = set(), False, True

    def warm(self, rows: Iterable[ColdGroup], groups: Groups) -> list[bytes]:
        """Make these groups hot. Skip rows of groups that are hot, or were hot since the last commit: these rows are
        older. `groups` are the groups of their generation. A deadline in a row wakes the partition as long as the row
        is there, so only a deadline that was computed from other settings is computed again. Returns the names. Raises
        ChangelogIncomplete."""
        names, cold = list[bytes](), groups.cold
        timed = groups.rule.completion.timed and self.ends != ends_of(groups)
        for key, _, blob in rows:
            if not cold.is_cold(key, self.gone):
                continue
            contents, rings, many = unpacked_state(blob), None, len(names)
            try:
                starts = cold.starts_in(key, contents)
                for name, state in cold.groups_in(key, contents):
                    rings = _reopened(name, state, groups, timed)
                    names.append(name)
            except (TypeError, LookupError, ValueError, AttributeError) as error:
                raise _no_items(error) from error
            self._groups.cold.remove(starts)
            if gone := cold.replaced(key, names[many:], rings):
                self.gone |= dict.fromkeys(gone, False)
            else:
                self._rows.add(key)
        self.changed = self.changed or bool(names)
        return names

    def time_out(self, rows: Sequence[ColdGroup], groups: Groups, now: float) -> tuple[Sequence[ColdGroup], int]:
        """End the groups of these rows that have timed out, without making them hot, until those since the last commit
        have SLICE_BYTES in their bags. Skip rows as `warm` does. Returns the rows of groups that have not timed out,
        and how many rows were looked at; `remove` follows for these. Raises ChangelogIncomplete."""
        cold, width, others, ended, looked = groups.cold, row_width(groups), list[ColdGroup](), 0, 0
        for row in rows:
            looked += 1
            if not cold.is_cold(row.key, self.gone):
                continue
            group = _overdue(row, groups, width, now)
            if group is None:
                others.append(row)
                continue
            state, bags = group
            groups.time_out(row.key, state, bags, now)
            ended, self._size = ended + 1, self._size + state[BYTES]
            if self._size > SLICE_BYTES:
                break
        cold.remove(repeat(None, ended))
        self.changed = self.changed or ended > 0
        return others, looked

    def moved(self, now: float) -> RowChanges:
        """The rows that the commit writes and deletes. Call it before the changelog takes the changes of the groups."""
        groups, due = self._groups, self._due
        gone, self._due, self._size = self._ended(), [], 0
        evicts = self.most and not self.suspended
        over, large = (groups.number - self.most, groups.bytes - self._room()) if evicts else (0, 0)
        if over <= 0 and large <= 0:
            self._order, self._queue, self._recent = deque(), deque(), set()
            return RowChanges([], gone, due)
        self._recent |= groups.touched.keys()
        if len(self._recent) > 2 * groups.number + STALE:
            self._recent &= groups.states.keys()
        evicted = self._evicted(over, large)
        if evicted:
            self.at, self.changed = max(self.at, now), True
            self.nearest = min(self.nearest, groups.cold.nearest(evicted))
        return RowChanges(evicted, gone, due)

    def _ended(self) -> list[bytes]:
        """The keys of the rows that the commit deletes beside `_due`: those whose groups ended, and `gone`."""
        gone, self.gone = self.gone, {}
        if self._rows:
            ended = [key for key, state in self._groups.touched.items() if state is None and key in self._rows]
            self._rows.difference_update(ended)
            gone |= dict.fromkeys(ended, False)
        return [key for key, by_due in gone.items() if not by_due]

    def _room(self) -> float:
        """The bytes of bags that stay in memory: half of `max_buffered_bytes`. The rest is for the groups that records
        and deadlines make hot between two commits. If `hot_groups` bounds nothing, bytes evict no group."""
        rule = self._groups.rule.aggregation
        return rule.max_buffered_bytes / 2 if self.most < rule.max_groups else inf

    def _evicted(self, over: int, large: float) -> list[ColdGroup]:
        """Close groups that this commit did not touch, and return their rows: up to `over` groups, or more until their
        bags have `large` bytes. One commit evicts no more than about twice what it touches, or a slice."""
        groups, rows, alarms = self._groups, list[ColdGroup](), list[ColdGroup]()
        states, cold, evicted = groups.states, groups.cold, 0
        fresh, turned = set(groups.touched), False
        most, least = max(LEAST, 2 * len(fresh)), groups.bytes - large
        grown = sum(states[key][BYTES] for key in fresh if key in states) if groups.bytes else 0
        enough, largest = groups.bytes - max(SLICE_BYTES, 2 * grown), largest_row(groups)
        while evicted < most and groups.bytes > enough and (evicted < over or groups.bytes > least):
            if not self._queue:
                if not self._order:
                    if turned:
                        break
                    turned = True
                    self._turn()
                first = min(SORTED, len(self._order))
                self._queue.extend(sorted(self._order.popleft() for _ in range(first)))
                continue
            key = self._queue.popleft()
            if key not in states or not cold.may_evict(key):
                continue
            members = cold.members(key)
            if not (fresh.isdisjoint(members) and self._recent.isdisjoint(members)):
                continue
            if groups.bytes and sum(states[member][BYTES] for member in members) > largest:
                continue
            alarms += cold.alarms(key)
            rows.append(cold_row(groups, key))
            for member in members:
                groups.drop(member)
            self._rows.discard(key)
            evicted += len(members)
        return rows + alarms

    def _turn(self) -> None:
        """Begin a turn with the groups that were not touched in the turn before."""
        recent, states = self._recent, self._groups.states
        self._order = deque(key for key in states if key not in recent)
        self._order += [key for key in states if key in recent]
        self._recent = set()


def cold_row(groups: Groups, name: bytes) -> ColdGroup:
    """The row of this open group and of those that are in one row with it. They become cold."""
    cold, plan = groups.cold, groups.rule.plan
    due, key = cold.row_due(name), cold.row_key(name)
    states: list[tuple[bytes, GroupState]] = []  # list[...]() would make a generic type for each row
    for member in cold.members(name):
        items = [plan.items(groups.bags[member])] if plan.bags else []
        noted = _noted(groups, member)
        states.append((member, [*groups.states[member], *items, *([noted] if noted else [])]))
    contents = cold.joined(states)
    cold.add(cold.starts_in(key, contents))
    if cold.absent is not None:
        cold.absent.discard(key)
    return ColdGroup(key, None if due == inf else due, packed_state(contents, compress=bool(plan.bags)))


def _reopened(name: bytes, state: GroupState, groups: Groups, timed: bool) -> float | None:
    """Make this group of a row hot. Returns the time of its alarm, if the row has it. Raises ChangelogIncomplete."""
    width = row_width(groups)
    past, rings = None, None
    if is_closed(state, width):
        results, since = state.pop()
        groups.closed[name] = results, since
    elif len(state) != width:
        past, rings = _past_of(state, width)
    groups.reopen(name, state, _items_of(state, groups), past, timed)
    return rings


def _items_of(state: GroupState, groups: Groups) -> Bags:
    """Remove the items of the bags from the end of the state and return them. Raises ChangelogIncomplete."""
    bags = len(groups.rule.plan.bags)
    items = state.pop() if bags and state else Bags()
    if not groups.fits(state) or type(items) is not list or len(items) != bags:
        raise ChangelogIncomplete("the row of a cold group does not have the fields of this rule")
    return items


def _overdue(row: ColdGroup, groups: Groups, width: int, now: float) -> tuple[GroupState, Bags] | None:
    """The group of this row, if it has timed out and had no early result. `width` is as in `row_width`. Raises
    ChangelogIncomplete."""
    state = unpacked_state(row.state)
    if len(state) != width:
        return None
    items = _items_of(state, groups)
    if groups.due(state) > now:
        return None
    try:
        return state, groups.rule.plan.bags_of(items) if items else items
    except (TypeError, LookupError, ValueError, AttributeError) as error:
        raise _no_items(error) from error


def _no_items(error: Exception) -> ChangelogIncomplete:
    return ChangelogIncomplete(f"the row of a cold group has no items ({type(error).__name__})")


def _noted(groups: Groups, name: bytes) -> list[float | None]:
    """What the row of a group has behind its items: the ClosedState of a group whose window has closed, of others the
    early results and the time of the alarm. Empty if it has none of them."""
    if groups.closed and (closed := groups.closed.get(name)) is not None:
        return [*closed]
    past = groups.early.past.get(name) if groups.early.past else None
    rings = groups.cold.rings(name)
    if rings is None:
        return [] if past is None else [*past]
    return [*((0, 0, None) if past is None else past), rings]


def _past_of(state: GroupState, width: int) -> tuple[PastResults | None, float | None]:
    """Remove what `_noted` added from the end of the state and return it. A state may or may not have the two slots of
    a deadline from the data: its length differs by two, never by one."""
    if not state or not isinstance(state[-1], list) or (len(state) - width) % DEADLINE_SLOTS == 0:
        return None, None
    results, records, since, *rings = state.pop()
    return (results, records, since) if results else None, rings[0] if rings else None


def largest_row(groups: Groups) -> float:
    """The most bytes that the bags of a cold group may have. All groups of a batch may become hot at once."""
    rule = groups.rule
    return min(ROW_BYTES, rule.aggregation.max_buffered_bytes // PART) if rule.plan.bags else inf


def unknown(groups: Groups, names: Collection[bytes]) -> list[bytes]:
    """The keys of rows for which the store must be asked. The groups of the others are hot, or were since the last
    commit."""
    return [name for name in names if name not in groups.states and name not in groups.touched]


def ends_of(groups: Groups) -> tuple[float, ...]:
    """The settings that determine when a group ends, beside its state and its window."""
    completion, every = groups.rule.completion, groups.early.every
    ends: tuple[float, ...] = (
        completion.count,
        completion.most,
        completion.since_first,
        completion.since_last,
        groups.idle,
        *groups.cold.ends,
    )
    if completion.from_data:
        return *ends, every, 1.0
    return ends if every == inf else (*ends, every)
