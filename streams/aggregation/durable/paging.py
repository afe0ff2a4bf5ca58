"""Manages the cold groups of a partition: groups that are rows of the store, and neither in memory nor in the
changelog.

A group is hot or cold, never both. The commit that evicts a group writes its row and removes it in the changelog. The
commit after a group became hot deletes the row and writes the whole state to the changelog. So a restore of the
changelog yields the hot groups, however many cold groups there are.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from math import inf

from sluicegate.streams.aggregation.durable.entry import ColdState, PastResults, packed_state, unpacked_state
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import DEADLINE_SLOTS, GroupState
from sluicegate.streams.contracts.values import COLD_KEY, ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete

LEAST = 2_000  # each commit may evict at least this number of groups
STALE = 10_000  # touched keys that may be remembered, beyond two for each hot group


class Paging:
    """The cold groups of one partition, as its owner knows them. The newest generation has the hot ones. `most` is the
    number of groups that stay hot; 0 evicts none.

    `nearest` is the nearest deadline of a cold group; it may be early, never late. `ends` are the settings from which
    the deadlines of the rows were computed. `at` is the owner's latest time at an eviction. `changed`: the next entry
    must store this state. `suspended`: commits evict no groups.
    """

    __slots__ = ("_groups", "_queue", "_recent", "_returned", "at", "changed", "ends", "most", "nearest", "suspended")

    def __init__(self, groups: Groups) -> None:
        self._groups, self.most = groups, 0
        self.nearest, self.at = inf, 0.0
        self.ends: tuple[float, ...] = ()
        self.changed = self.suspended = False
        self._returned: list[bytes] = []  # keys that became hot since the last commit: the next one deletes their rows
        self._queue: deque[bytes] = deque()  # the keys that may be evicted in this turn, least recently touched first
        self._recent: set[bytes] = set()  # keys touched since the turn began

    @property
    def count(self) -> int:
        """The number of cold groups, without those that became hot since the last commit."""
        return self._groups.cold.count

    def restore(self, state: ColdState) -> None:
        self._groups.cold.count, self.ends, self.at = state.count, state.ends, state.at
        self.nearest = -inf if state.count else inf

    def noted(self) -> ColdState:
        """The state for an entry of the changelog."""
        self.changed = False
        return ColdState(self.count, self.ends, self.at)

    def warm(self, rows: Iterable[ColdGroup], groups: Groups) -> list[bytes]:
        """Make these groups hot. Skip rows of groups that are hot, or were hot since the last commit: these rows are
        older. `groups` are the groups of their generation. Returns the keys. Raises ChangelogIncomplete."""
        keys = list[bytes]()
        for row in rows:
            if row.key in groups.touched or row.key in groups.states:
                continue
            state = unpacked_state(row.state)
            past = _past_of(state, groups.width)
            if not groups.fits(state):
                raise ChangelogIncomplete("the row of a cold group does not have the fields of this rule")
            groups.reopen(row.key, state, past)
            keys.append(row.key)
        self._returned += keys
        self._groups.cold.count -= len(keys)
        self.changed = self.changed or bool(keys)
        return keys

    def moved(self, now: float) -> tuple[Sequence[ColdGroup], Sequence[bytes]]:
        """The groups that the commit evicts, and the keys of the rows that it deletes. Call it before the changelog
        takes the changes of the groups."""
        groups = self._groups
        gone, self._returned = self._returned, []
        over = len(groups.states) - self.most if self.most and not self.suspended else 0
        if over <= 0:
            self._queue, self._recent = deque(), set()
            return [], gone
        self._recent |= groups.touched.keys()
        if len(self._recent) > 2 * len(groups.states) + STALE:
            self._recent &= groups.states.keys()
        evicted = self._evicted(min(over, max(LEAST, 2 * len(groups.touched))))
        if evicted:
            groups.cold.count += len(evicted)
            self.at, self.changed = max(self.at, now), True
            self.nearest = min(self.nearest, min((row.due for row in evicted if row.due is not None), default=inf))
        return evicted, gone

    def _evicted(self, most: int) -> list[ColdGroup]:
        """Close up to `most` groups that this commit did not touch, and return their rows."""
        groups, rows = self._groups, list[ColdGroup]()
        fresh, turned = set(groups.touched), False
        while len(rows) < most:
            if not self._queue:
                if turned:
                    break
                turned = True
                self._turn()
                continue
            key = self._queue.popleft()
            if key in fresh or key in self._recent or key not in groups.states or len(key) > COLD_KEY:
                continue
            due, past = groups.due_at(key), groups.early.past.get(key)
            state, _ = groups.drop(key)
            content = state if past is None else [*state, [*past]]  # the early results follow the fields
            rows.append(ColdGroup(key, None if due == inf else due, packed_state(content)))
        return rows

    def _turn(self) -> None:
        """Begin a turn with the groups that were not touched in the turn before."""
        recent, states = self._recent, self._groups.states
        self._queue = deque(key for key in states if key not in recent)
        self._queue += [key for key in states if key in recent]
        self._recent = set()


def _past_of(state: GroupState, width: int) -> PastResults | None:
    """Remove the early results from the end of the state and return them. A state may or may not have the two slots of
    a deadline from the data: its length differs by two, never by one."""
    if not state or not isinstance(state[-1], list) or (len(state) - width) % DEADLINE_SLOTS == 0:
        return None
    results, records, since = state.pop()
    return results, records, since


def unknown(groups: Groups, keys: Collection[bytes | None]) -> list[bytes]:
    """The keys for which the store must be asked for a cold group."""
    return [key for key in keys if key is not None and key not in groups.states and key not in groups.touched]


def pageable(groups: Groups) -> bool:
    """Whether groups of this rule may be cold. They must have no windows and no bags, and belong to one partition."""
    rule = groups.rule
    return type(groups) is Groups and rule.grouped and not rule.plan.bags and not rule.shared


def ends_of(groups: Groups) -> tuple[float, ...]:
    """The settings that determine when a group ends, beside its state."""
    completion, every = groups.rule.completion, groups.early.every
    ends = completion.count, completion.most, completion.since_first, completion.since_last, groups.idle
    if completion.from_data:
        return *ends, every, 1.0
    return ends if every == inf else (*ends, every)
