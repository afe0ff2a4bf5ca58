"""The deadlines of groups whose window has closed: the result with late records, and the end of the group."""

from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from sluicegate.streams.aggregation.durable.entry import ADDED
from sluicegate.streams.aggregation.layout import FIRST
from sluicegate.streams.windowers import AMEND

if TYPE_CHECKING:
    from sluicegate.streams.windows.groups import WindowGroups

NEW = "new"


class ClosedGroups:
    """The deadlines of the groups in `groups.closed`.

    A late record is accepted while the watermark is less than `keep` milliseconds past the close of its window. Its
    result is due `gather` seconds later. If `late` is neither new nor amend, both are 0: groups of an earlier rule emit
    the records that no result covers yet, and end.
    """

    __slots__ = ("_due", "_ends", "_groups", "gather", "keep", "late")

    def __init__(self, groups: "WindowGroups") -> None:
        window, self._groups = groups.window, groups
        self.late, self.gather = window.late, window.gather
        self.keep: float = {AMEND: round(1_000 * window.keep), NEW: inf}.get(window.late, 0)
        self._due: list[tuple[float, bytes]] = []  # a heap of (owner's time, name)
        self._ends: list[tuple[float, int, bytes]] = []  # a heap of (watermark, first offset, name)

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

    def _add(self, group: bytes, results: int) -> None:
        self._groups.closed[group] = (results, None)
        if (end := self.end_of(group)) < inf:
            heappush(self._ends, (end, self._groups.states[group][FIRST], group))

    def results(self, group: bytes) -> int:
        """The number of results that the group had. With `new` a group of late records has results of its own."""
        return max(self._groups.closed.get(group, (0, None))[0], 0)

    def stays(self, group: bytes) -> bool:
        """Whether the group stays after a result: with `amend`, unless it was opened under `new`."""
        return self.late == AMEND and self._groups.closed.get(group, (0, None))[0] != ADDED

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

    def rearm(self) -> None:
        """Rebuild the heaps after a restore."""
        groups = self._groups
        self._due = [(end[1] + self.gather, group) for group, end in groups.closed.items() if end[1] is not None]
        ends = ((self.end_of(group), groups.states[group][FIRST], group) for group in groups.closed)
        self._ends = [end for end in ends if end[0] < inf]
        heapify(self._due)
        heapify(self._ends)
