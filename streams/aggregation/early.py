"""Early results: the results of groups that go on (`emit`).

An early result has all records of the group so far. With `count` and `on: change` a record decides that there is one.
With `every` it is due that long after the first record that is in no result yet, by the owner's clock, as a timeout is.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Protocol

from sluicegate.streams.agent import Emit
from sluicegate.streams.aggregation.durable.entry import PastResults
from sluicegate.streams.aggregation.events import EARLY
from sluicegate.streams.aggregation.layout import COUNT, OPENED, STALE, GroupState


class OpenStates(Protocol):
    """The open groups, as Groups has them."""

    states: dict[bytes, GroupState]
    touched: dict[bytes, GroupState | None]
    closed: dict[bytes, Any]


class EarlyResults:
    """The early results of the groups of one partition. `emit` None: they have none, but those of `past` had some under
    an earlier rule.

    `past` has the groups that had a result and go on. `quiet` are those of them whose records are all in the last one,
    while `every` counts; the compiled loop asks it. `revision` is the one of the result that is being made.
    """

    __slots__ = ("_due", "_groups", "count", "emit", "every", "on_change", "past", "quiet", "revision")

    def __init__(self, groups: OpenStates, emit: Emit | None) -> None:
        self._groups, self.emit = groups, emit
        self.every = inf if emit is None or emit.every is None else emit.every
        self.count = 0 if emit is None or emit.count is None else emit.count
        self.on_change = emit is not None and emit.on == "change"
        self.past: dict[bytes, PastResults] = {}
        self.quiet: set[bytes] = set()
        self.revision = 1
        self._due: list[tuple[float, bytes]] = []  # a heap of (owner's time, name)

    def results(self, group: bytes) -> int:
        """How many results the group had."""
        past = self.past.get(group)
        return 0 if past is None else past[0]

    def is_final(self, reason: str) -> bool | None:
        """Whether a result of this reason is the last one of its group. None: groups have one result."""
        return None if self.emit is None else reason != EARLY

    def has_all(self, group: bytes, state: GroupState) -> bool:
        """Whether the last result has all records of the group."""
        past = self.past.get(group)
        return past is not None and past[1] == state[COUNT]

    def opened(self, group: bytes) -> None:
        """The group is open, or opened earlier than was known."""
        if self.every == inf:
            return
        if len(self._due) > 2 * len(self._groups.states) + STALE:
            self.rearm()
        elif (at := self.due_at(group)) < inf:
            heappush(self._due, (at, group))

    def goes_on(self, group: bytes, past: PastResults | None) -> None:
        """The group was cold, with these results."""
        if past is not None:
            self.past[group] = past
            if past[2] is None and self.every < inf:
                self.quiet.add(group)
        self.opened(group)

    def changed(self, group: bytes, now: float) -> None:
        """A record was added behind the last result, at the owner's time `now`."""
        self.quiet.discard(group)
        results, records, _ = self.past[group]
        self.past[group] = results, records, now
        heappush(self._due, (now + self.every, group))

    def sent(self, group: bytes, state: GroupState) -> None:
        """The group has one result more, with all of its records."""
        self.past[group] = self.results(group) + 1, state[COUNT], None
        if self.every < inf:
            self.quiet.add(group)

    def left_out(self, group: bytes, results: int) -> None:
        """The group had at least so many results, and its records have grown since."""
        if self.results(group) < results:
            self.past[group] = results, 0, None

    def ended(self, group: bytes) -> None:
        """The group has no early results any more."""
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

    def due(self, now: float) -> Iterator[bytes]:
        """The groups that are due. Each must be past before the next one is asked for."""
        while self.next_due() <= now:
            yield self._due[0][1]

    def rearm(self) -> None:
        """After a restore, or when most of the deadlines are stale. `quiet` stays the same set: a loop that runs has
        it."""
        self.quiet.clear()
        if self.every == inf:
            self._due = []
            return
        states = self._groups.states
        for group, (results, records, since) in self.past.items():
            if group not in states:
                continue
            if since is None and records == states[group][COUNT]:
                self.quiet.add(group)
            elif since is None:  # the rule before did not go by the clock
                self.past[group] = results, records, states[group][OPENED]
        times = ((self.due_at(group), group) for group in states)
        self._due = [(at, group) for at, group in times if at < inf]
        heapify(self._due)

    def set_back(self, now: float) -> None:
        """The owner's clock was ahead of `now`."""
        for group, (results, records, since) in self.past.items():
            if since is not None and since > now:
                self.past[group] = results, records, now
                self._groups.touched[group] = self._groups.states[group]
        self.rearm()
