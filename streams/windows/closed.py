"""Late records with `late: {new}` or `late: {amend}`: their windows have closed.

With `amend` the group of a window stays after its result. Late records change it, and the whole result is sent again
with the next revision. With `new` late records form a group of their own, and its result is an additional result of the
window. Both kinds of groups are in `closed`. The watermark decides which records they accept, so the log determines the
contents of the last revision. The owner's clock decides only when late records are emitted.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from math import inf
from typing import Protocol

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.durable.entry import ADDED, ClosedState
from sluicegate.streams.aggregation.layout import FIRST, LAST, STALE, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windowers import AMEND
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.merged import MergedClock
from sluicegate.streams.windows.near import NearGroups
from sluicegate.streams.windows.tumbling import Span

NEW = "new"


class WindowsWithLate(Protocol):
    """The part of ClosingWindows that late records use."""

    window: Window
    states: dict[bytes, GroupState]
    touched: dict[bytes, GroupState | None]
    closed: dict[bytes, ClosedState]
    event: EventClock | MergedClock
    near: NearGroups

    def closes(self, group: bytes, state: GroupState) -> int: ...
    def span(self, group: bytes, state: GroupState) -> Span: ...


class ClosedGroups:
    """The groups in `groups.closed`: their late records, the number of their results and their deadlines.

    A late record is accepted while the watermark is less than `keep` milliseconds past the close of its window. Its
    result is due `gather` seconds later. If `late` is neither new nor amend, both are 0: groups of an earlier rule emit
    the records that no result covers yet, and end. `opens` is the name of the group that a late record opens.
    """

    __slots__ = ("_due", "_ends", "_groups", "_opened_first", "gather", "keep", "late", "opens")

    def __init__(self, groups: WindowsWithLate) -> None:
        window, self._groups = groups.window, groups
        self.late, self.gather = window.late, window.gather
        self.keep: float = {AMEND: round(1_000 * window.keep), NEW: inf}.get(window.late, 0)
        self._due: list[tuple[float, bytes]] = []  # a heap of (owner's time, name)
        self._ends: list[tuple[float, int, bytes]] = []  # a heap of (watermark, first offset, name)
        self.opens: bytes | None = None
        self._opened_first: deque[tuple[int, bytes]] = deque()  # open groups by offset, if any are closed

    # -- records ---------------------------------------------------------------------------------------------------

    def took(self, record: Record, group: bytes, now: float) -> None:
        """Set the deadlines after a late record was added to the group. Does nothing if it was refused, or the group
        ended with it."""
        self.opens = None
        if (state := self._groups.states.get(group)) is not None and state[LAST] == record.offset():
            self.note_record(group, now)

    def note_opened(self, group: bytes) -> None:
        """A late record opened this group."""
        self._add(group, ADDED if self.late == NEW else 0)

    def note_record(self, group: bytes, now: float) -> None:
        """A late record was added to the group at the owner's time `now`."""
        results, since = self._groups.closed[group]
        if since is None:
            self._groups.closed[group] = (results, now)
            heappush(self._due, (now + self.gather, group))

    def note_result(self, group: bytes, revision: int) -> None:
        """Note that a result of this revision was emitted and the group stays."""
        if group in self._groups.closed:
            self._groups.closed[group] = (revision, None)
        else:
            self._add(group, revision)

    def reopened(self, group: bytes) -> None:
        """This group was cold."""
        self._add(group, self._groups.closed[group][0])

    def _add(self, group: bytes, results: int) -> None:
        groups, state = self._groups, self._groups.states[group]
        groups.closed[group] = (results, None)
        if (end := self.end_of(group)) < inf:
            heappush(self._ends, (end, state[FIRST], group))
        if (span := groups.span(group, state)).closes > groups.event.watermark:
            groups.near.cut.add(span.start)
        if len(self._ends) > 2 * len(groups.closed) + STALE:
            self.rearm()

    # -- results ---------------------------------------------------------------------------------------------------

    def covers(self, group: bytes) -> bool:
        """Whether the group stays, and all of its records are covered by a result."""
        return self._groups.closed.get(group, (0, 0.0))[1] is None

    def results(self, group: bytes) -> int:
        """The number of results that the group had. With `new` a group of late records has results of its own."""
        return max(self._groups.closed.get(group, (0, None))[0], 0)

    def stays(self, group: bytes) -> bool:
        """Whether the group stays after a result: with `amend`, unless it was opened under `new`."""
        return self.late == AMEND and self._groups.closed.get(group, (0, None))[0] != ADDED

    # -- deadlines -------------------------------------------------------------------------------------------------

    @property
    def stays_for(self) -> float:
        """For how many milliseconds of event time a group with a result stays after its window has closed."""
        return self.keep if self.keep < inf else 0

    def end_of(self, group: bytes) -> float:
        """The watermark that ends the group; infinity for none. A group that was opened under another `late` ends with
        its window."""
        groups = self._groups
        added = groups.closed[group][0] == ADDED
        keep = self.keep if added == (self.late == NEW) else 0
        return groups.closes(group, groups.states[group]) + keep

    def due(self) -> tuple[float, bytes] | None:
        """The next group whose late records must be emitted, and the owner's time at which they are due."""
        heap, closed = self._due, self._groups.closed
        while heap:
            at, group = heap[0]
            since = closed.get(group, (0, None))[1]
            if since is not None and since + self.gather == at:
                return at, group
            heappop(heap)
        return None

    def ending(self) -> tuple[float, bytes] | None:
        """The next group to end, and the watermark that ends it."""
        heap, states, closed = self._ends, self._groups.states, self._groups.closed
        while heap:
            at, first, group = heap[0]
            if group in closed and states[group][FIRST] == first:
                return at, group
            heappop(heap)
        return None

    def opened(self, group: bytes, state: GroupState) -> None:
        """Note an open group, for `oldest_open`."""
        self._opened_first.append((state[FIRST], group))
        if len(self._opened_first) > 2 * len(self._groups.states) + STALE:
            self._opened_first = self._in_order()

    def oldest_open(self) -> bytes | None:
        """The group that was opened first among those whose window is open."""
        order, states, closed = self._opened_first, self._groups.states, self._groups.closed
        while order:
            first, group = order[0]
            if group in states and states[group][FIRST] == first and group not in closed:
                return group
            order.popleft()
        return None

    def _in_order(self) -> deque[tuple[int, bytes]]:
        groups = self._groups
        return deque((state[FIRST], group) for group, state in groups.states.items() if group not in groups.closed)

    def set_back(self, now: float) -> None:
        """Move times later than `now` back to `now`: they were read from a clock that was ahead."""
        groups = self._groups
        ahead = [group for group, (_, since) in groups.closed.items() if since is not None and since > now]
        for group in ahead:
            groups.closed[group] = (groups.closed[group][0], now)
            groups.touched[group] = groups.states[group]
        if ahead:
            self.rearm()

    def rearm(self) -> None:
        """Rebuild the heaps after a restore."""
        groups = self._groups
        self._opened_first = self._in_order() if self.keep or groups.closed else deque()
        spans = (groups.span(group, groups.states[group]) for group in groups.closed)
        groups.near.cut = {span.start for span in spans if span.closes > groups.event.watermark}
        self._due = [(end[1] + self.gather, group) for group, end in groups.closed.items() if end[1] is not None]
        ends = ((self.end_of(group), groups.states[group][FIRST], group) for group in groups.closed)
        self._ends = [end for end in ends if end[0] < inf]
        heapify(self._due)
        heapify(self._ends)
