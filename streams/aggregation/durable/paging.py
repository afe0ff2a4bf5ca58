"""Which open groups of a partition are cold: rows of the store, and neither in memory nor in the changelog.

A group is hot or cold, never both. The commit that evicts a group writes its row and says in the changelog that it is
not there any more. The commit after a group became hot again deletes the row and has the whole state in its entries.
So a restore of the changelog gives the hot groups, whatever the number of the others.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from math import inf

from sluicegate.streams.aggregation.durable.entry import ColdState, PastResults, packed_state, unpacked_state
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import DEADLINE_SLOTS, GroupState
from sluicegate.streams.contracts.values import COLD_KEY, ColdGroup
from sluicegate.streams.errors import ChangelogIncomplete

LEAST = 2_000  # groups that a commit may evict at least
STALE = 10_000  # keys that were touched may be remembered beyond one for each hot group


class Paging:
    """The cold groups of one partition, as its owner knows them, beside the hot ones of the newest generation. `most`
    is the number of groups that stay hot: 0 evicts none.

    `nearest` is the nearest deadline of a cold group; it may be early, never late. `ends` is what the deadlines of the
    rows were computed by, and `at` the owner's latest time at an eviction. `changed`: the next entry says so.
    `suspended`: commits evict no group.
    """

    __slots__ = ("_groups", "_queue", "_recent", "_returned", "at", "changed", "ends", "most", "nearest", "suspended")

    def __init__(self, groups: Groups) -> None:
        self._groups, self.most = groups, 0
        self.nearest, self.at = inf, 0.0
        self.ends: tuple[float, ...] = ()
        self.changed = self.suspended = False
        self._returned: list[bytes] = []  # became hot since the last commit: their rows go with the next one
        self._queue: deque[bytes] = deque()  # the groups that may be evicted in this turn, longest untouched first
        self._recent: set[bytes] = set()  # touched since the turn began

    @property
    def count(self) -> int:
        """The number of cold groups, without those that became hot since the last commit."""
        return self._groups.cold.count

    def restore(self, state: ColdState) -> None:
        self._groups.cold.count, self.ends, self.at = state.count, state.ends, state.at
        self.nearest = -inf if state.count else inf

    def noted(self) -> ColdState:
        """For an entry of the changelog."""
        self.changed = False
        return ColdState(self.count, self.ends, self.at)

    def warm(self, rows: Iterable[ColdGroup], groups: Groups) -> list[bytes]:
        """Make these groups hot, except those that are or were hot since the last commit: their rows are older.
        `groups` are those of the generation that has them. Returns the keys. Raises ChangelogIncomplete."""
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
        """The groups that the commit evicts, and the keys of rows that it deletes. To be called before the changelog
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
        """Up to so many groups that this commit did not touch. They are closed here."""
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
            content = state if past is None else [*state, [*past]]  # its early results stand behind its fields
            rows.append(ColdGroup(key, None if due == inf else due, packed_state(content)))
        return rows

    def _turn(self) -> None:
        """Begin at the groups that were not touched in the turn before."""
        recent, states = self._recent, self._groups.states
        self._queue = deque(key for key in states if key not in recent)
        self._queue += [key for key in states if key in recent]
        self._recent = set()


def _past_of(state: GroupState, width: int) -> PastResults | None:
    """Take its early results from behind the fields of a group. A state may be one of a rule with a deadline from the
    data, or of one without: that is two fields more or less, and never one."""
    if not state or not isinstance(state[-1], list) or (len(state) - width) % DEADLINE_SLOTS == 0:
        return None
    results, records, since = state.pop()
    return results, records, since


def unknown(groups: Groups, keys: Collection[bytes | None]) -> list[bytes]:
    """Those of these keys for which the store must be asked whether there is a cold group."""
    return [key for key in keys if key is not None and key not in groups.states and key not in groups.touched]


def pageable(groups: Groups) -> bool:
    """Whether groups of this rule may be cold. They have no windows, no bags, and are of one partition."""
    rule = groups.rule
    return type(groups) is Groups and rule.grouped and not rule.plan.bags and not rule.shared


def ends_of(groups: Groups) -> tuple[float, ...]:
    """What says when a group ends, beside its state."""
    completion, every = groups.rule.completion, groups.early.every
    ends = completion.count, completion.most, completion.since_first, completion.since_last, groups.idle
    if completion.from_data:
        return *ends, every, 1.0
    return ends if every == inf else (*ends, every)
