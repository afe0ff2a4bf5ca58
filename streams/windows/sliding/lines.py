"""The records of one key that its sliding windows may have, in the order of their times. Pure."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

from sluicegate.streams.aggregation.layout import BYTES, LAST, GroupState
from sluicegate.streams.windows.sliding.totals import TimedState, WindowTotals

Totalled = tuple[GroupState, Sequence[TimedState]]
"""The state of a window, and its entries in the order of their times."""


class Line:
    """A window ends with a record, and begins `size` milliseconds before it. Both moments belong to it. `totals` are
    those of the newest window, which begins with the entry at `newest`. `bytes` are in the bags of all entries. `due`
    is the watermark at which the first one is forgotten, as it is known elsewhere."""

    __slots__ = ("_made", "_size", "bytes", "due", "entries", "newest", "totals")

    def __init__(
        self, size: int, made: Callable[[Iterable[TimedState]], WindowTotals], entries: list[TimedState]
    ) -> None:
        self._size, self._made, self.entries, self.due = size, made, entries, -1
        self.bytes = _bytes(entries)
        self.newest = self._starts(entries[-1][0]) if entries else 0
        self.totals = made(entries[self.newest :])

    def _starts(self, time: int) -> int:
        return bisect_left(self.entries, (time - self._size,))

    @property
    def window(self) -> Totalled:
        """The newest window."""
        entries = self.entries[self.newest :]
        state = self.totals.state(entries[-1])
        state[LAST] = max(offset for _, offset, _ in entries)
        return state, entries

    def add(self, entry: TimedState, whole: bool) -> Totalled:
        """The window that ends with this record, of the records until now. Its entries are asked for with `whole`."""
        entries, totals, at = self.entries, self.totals, self.newest
        self.bytes += entry[2][BYTES]
        if entries and entry < entries[-1]:
            return self._insert(entry)
        entries.append(entry)
        totals.append(entry)
        start = entry[0] - self._size
        while entries[at][0] < start:
            totals.remove(entries[at])
            at += 1
        self.newest = at
        return totals.state(entry), entries[at:] if whole else ()

    def _insert(self, entry: TimedState) -> Totalled:
        """The record is out of order: its window is not the newest one."""
        insort(self.entries, entry)
        if entry[0] < self.entries[-1][0] - self._size:
            self.newest += 1
        else:
            self.totals.insert(entry)
        window = self.entries[self._starts(entry[0]) : bisect_right(self.entries, entry)]
        return self._made(window).state(entry), window

    def leaving(self, time: int) -> tuple[int, int]:
        """How many of the entries, and of their bytes, there are up to this time."""
        end = bisect_left(self.entries, (time + 1,))
        return end, _bytes(self.entries[:end]) if self.bytes else 0

    def forget(self, time: int, most: int) -> Sequence[TimedState]:
        """Up to `most` of the entries up to this time leave: the oldest ones."""
        end = min(bisect_left(self.entries, (time + 1,)), most)
        gone = self.entries[:end]
        for entry in gone[self.newest :]:
            self.totals.remove(entry)
        del self.entries[:end]
        self.newest = max(0, self.newest - end)
        self.bytes -= _bytes(gone) if self.bytes else 0
        return gone


def _bytes(entries: Iterable[TimedState]) -> int:
    return sum(state[BYTES] for *_, state in entries)
