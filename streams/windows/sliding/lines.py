"""The records of one key that its sliding windows may have, in the order of their times. Pure."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

from sluicegate.streams.aggregation.layout import BYTES, LAST, GroupState
from sluicegate.streams.windows.sliding.totals import TimedState, WindowTotals

FORGOTTEN = 32
"""More entries than that are not kept in the list after they were forgotten, unless there are as many others."""

Totalled = tuple[GroupState, Sequence[TimedState]]
"""The state of a window, and its entries in the order of their times."""


class Line:
    """A window ends with a record, and begins `size` milliseconds before it. Both moments belong to it. `totals` are
    those of the newest window, which begins with the entry at `newest`. Entries before `begin` are forgotten. `bytes`
    are in the bags of the others. `due` is the watermark at which the first of them is forgotten, as it is known
    elsewhere."""

    __slots__ = ("_made", "_size", "begin", "bytes", "due", "entries", "newest", "totals")

    def __init__(
        self, size: int, made: Callable[[Iterable[TimedState]], WindowTotals], entries: list[TimedState]
    ) -> None:
        self._size, self._made, self.entries, self.begin = size, made, entries, 0
        self.due = -1
        self.bytes = sum(state[BYTES] for *_, state in entries)
        self.newest = self._starts(entries[-1][0]) if entries else 0
        self.totals = made(entries[self.newest :])

    def _starts(self, time: int) -> int:
        return bisect_left(self.entries, (time - self._size,))

    def __len__(self) -> int:
        return len(self.entries) - self.begin

    @property
    def oldest(self) -> TimedState:
        return self.entries[self.begin]

    @property
    def window(self) -> Totalled:
        """The newest window."""
        entries = self.entries[self.newest :]
        state = self.totals.state(entries[-1])
        state[LAST] = max(offset for _, offset, _ in entries)
        return state, entries

    def add(self, entry: TimedState) -> Totalled:
        """The window that ends with this record, of the records until now."""
        entries = self.entries
        self.bytes += entry[2][BYTES]
        if entries and entry < entries[-1]:
            return self._insert(entry)
        entries.append(entry)
        self.totals.add(entry)
        start = entry[0] - self._size
        while entries[self.newest][0] < start:
            self.totals.remove(entries[self.newest])
            self.newest += 1
        return self.totals.state(entry), entries[self.newest :]

    def _insert(self, entry: TimedState) -> Totalled:
        """The record is out of order: its window is not the newest one."""
        insort(self.entries, entry)
        if entry[0] < self.entries[-1][0] - self._size:
            self.newest += 1
        else:
            self.totals.add(entry)
        window = self.entries[self._starts(entry[0]) : bisect_right(self.entries, entry)]
        return self._made(window).state(entry), window

    def leaving(self, time: int) -> tuple[int, int]:
        """How many of the entries, and of their bytes, there are up to this time."""
        end = bisect_left(self.entries, (time + 1,))
        return end - self.begin, sum(state[BYTES] for *_, state in self.entries[self.begin : end])

    def forget(self) -> TimedState:
        """The oldest entry leaves."""
        entry = self.oldest
        self.bytes -= entry[2][BYTES]
        if self.begin == self.newest:
            self.totals.remove(entry)
            self.newest += 1
        self.begin += 1
        if self.begin > FORGOTTEN and 2 * self.begin > len(self.entries):
            del self.entries[: self.begin]
            self.newest -= self.begin
            self.begin = 0
        return entry
