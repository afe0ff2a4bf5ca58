"""Early results: results of groups that stay open (`emit`).

An early result covers all records of the group so far. With `count` and `on: change` a record triggers it. With `every`
it is due one period after the first record that no result covers yet. The owner's clock measures the period, as for
timeouts.
"""

from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Protocol

from sluicegate.streams.agent import Emit
from sluicegate.streams.aggregation.durable.entry import PastResults
from sluicegate.streams.aggregation.events import EARLY
from sluicegate.streams.aggregation.firing import SLICE_BYTES, Emitter
from sluicegate.streams.aggregation.layout import BYTES, COUNT, OPENED, STALE, Bags, GroupState


class OpenGroups(Protocol):
    """The part of Groups that early results use."""

    states: dict[bytes, GroupState]
    bags: dict[bytes, Bags]
    touched: dict[bytes, GroupState | None]
    closed: dict[bytes, Any]
    emitter: Emitter

    def results(self, key: bytes) -> int:
        """The number of results that the group had."""


class EarlyResults:
    """The early results of the groups of one partition. `emit` is None if the rule has none; `past` may still name
    groups that had some under an earlier rule.

    `past` has the open groups that had a result. `quiet` is the subset whose last result covers all records, if `every`
    is set. The compiled loop reads `quiet`. `revision` is the revision of the result that is being built.
    """

    __slots__ = ("_due", "_groups", "count", "emit", "every", "on_change", "past", "quiet", "revision")

    def __init__(self, groups: OpenGroups, emit: Emit | None) -> None:
        self._groups, self.emit = groups, emit
        self.every = inf if emit is None or emit.every is None else emit.every
        self.count = 0 if emit is None or emit.count is None else emit.count
        self.on_change = emit is not None and emit.on == "change"
        self.past: dict[bytes, PastResults] = {}
        self.quiet: set[bytes] = set()
        self.revision = 1
        self._due: list[tuple[float, bytes]] = []  # a heap of (owner's time, name)

    def results(self, group: bytes) -> int:
        """The number of results that the group had."""
        past = self.past.get(group)
        return 0 if past is None else past[0]

    def is_final(self, reason: str) -> bool | None:
        """Whether a result with this reason is the last one of its group. None: each group has one result only."""
        return None if self.emit is None else reason != EARLY

    def has_all(self, group: bytes, state: GroupState) -> bool:
        """Whether the last result covers all records of the group."""
        past = self.past.get(group)
        return past is not None and past[1] == state[COUNT]

    def opened(self, group: bytes) -> None:
        """Register a new group, or one whose opening time was moved to an earlier time."""
        if self.every == inf:
            return
        if len(self._due) > 2 * len(self._groups.states) + STALE:
            self.rearm()
        elif (at := self.due_at(group)) < inf:
            heappush(self._due, (at, group))

    def goes_on(self, group: bytes, past: PastResults | None) -> None:
        """Register a cold group that became hot. `past` are its results."""
        if past is not None:
            self.past[group] = past
            if self.every < inf:
                self._resume(group)
        self.opened(group)

    def _resume(self, group: bytes) -> None:
        """Continue with the results of an open group that were restored. The rule that sent them may not have used the
        clock."""
        state, (results, records, since) = self._groups.states[group], self.past[group]
        if since is None and records == state[COUNT]:
            self.quiet.add(group)
        elif since is None:
            self.past[group] = results, records, state[OPENED]

    def changed(self, group: bytes, now: float) -> None:
        """Note that a record which the last result does not cover was added at the owner's time `now`."""
        self.quiet.discard(group)
        results, records, _ = self.past[group]
        self.past[group] = results, records, now
        heappush(self._due, (now + self.every, group))

    def sent(self, group: bytes, state: GroupState) -> None:
        """Note another result of the group. It covers all records."""
        self.past[group] = self.results(group) + 1, state[COUNT], None
        if self.every < inf:
            self.quiet.add(group)

    def tell(self, group: bytes, now: float) -> None:
        """Emit an early result of the group, unless the last result covers all of its records."""
        groups = self._groups
        state = groups.states[group]
        if self.has_all(group, state):
            return
        bags = [bag.copy() for bag in groups.bags.get(group, ())]
        self.revision = groups.results(group) + 1
        self.sent(group, state)
        groups.touched[group] = state
        groups.emitter.let_out(group, state, bags, EARLY, now)

    def tell_due(self, now: float, most: int) -> int:
        """Emit up to `most` early results that are due, and not many more bytes than SLICE_BYTES. Returns their
        number."""
        many = size = 0
        while many < most and size <= SLICE_BYTES and self.next_due() <= now:
            group = self._due[0][1]
            size += self._groups.states[group][BYTES]
            self.tell(group, now)
            many += 1
        return many

    def left_out(self, group: bytes, results: int) -> None:
        """The group had at least so many results, and its records have grown since."""
        if self.results(group) < results:
            self.past[group] = results, 0, None

    def ended(self, group: bytes) -> None:
        """Remove the group."""
        self.past.pop(group, None)
        self.quiet.discard(group)

    def due_at(self, group: bytes) -> float:
        """The owner's time at which the next result of the group is due; infinity for none."""
        groups = self._groups
        state = groups.states.get(group)
        if state is None or group in groups.closed or self.every == inf:
            return inf
        past = self.past.get(group)
        since = state[OPENED] if past is None else past[2]
        return inf if since is None else since + self.every

    def next_due(self) -> float:
        """The nearest of these times; infinity for none."""
        due = self._due
        while due:
            at, group = due[0]
            if self.due_at(group) == at:
                return at
            heappop(due)
        return inf

    def rearm(self) -> None:
        """Rebuild the heap of deadlines: after a restore, or when most of them are stale. `quiet` stays the same
        object, because a running loop holds a reference to it."""
        self.quiet.clear()
        if self.every == inf:
            self._due = []
            return
        states = self._groups.states
        for group in self.past:
            if group in states:
                self._resume(group)
        times = ((self.due_at(group), group) for group in states)
        self._due = [(at, group) for at, group in times if at < inf]
        heapify(self._due)

    def set_back(self, now: float) -> None:
        """Move times later than `now` back to `now`: they were read from a clock that was ahead."""
        for group, (results, records, since) in self.past.items():
            if since is not None and since > now:
                self.past[group] = results, records, now
                self._groups.touched[group] = self._groups.states[group]
        self.rearm()
