"""The records of one key that its sliding windows may have, in the order of their times. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from sys import maxsize
from typing import NamedTuple

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.layout import BYTES, LAST, GroupState
from sluicegate.streams.windows.sliding.totals import TimedState, WindowTotals

Totalled = tuple[GroupState, Sequence[TimedState]]
"""The state of a window, and its entries in the order of their times."""
NEVER = 1 << 62
"""A time in milliseconds behind all times of records."""
SLACK = 16
"""A record leaves when the watermark has gone so small a part of `keep` further, or when so small a part of `most` is
too many. So many leave at one look."""


class WindowReach(NamedTuple):
    """How far the windows of an agent reach back from their last record: `size` milliseconds, and `most` records of the
    key. A record may be `grace` behind the watermark. Another one is forgotten when the watermark is `keep` past its
    time: it is before the windows of all records that are not late. It is forgotten, too, when `most` records behind it
    are at or before the times of all records that are not late. `slack` later it leaves. `spare` is the place of an
    entry behind the first one: when it is `grace` behind the watermark, `most` // SLACK and one more leave together."""

    size: int
    most: int
    grace: int
    keep: int
    slack: int
    spare: int


def reach(window: Window) -> WindowReach:
    """Without a size or a number of records, that one has no end."""
    size, grace = round(1_000 * window.size) or NEVER, round(1_000 * window.grace)
    most, keep = window.last or maxsize, min(size + grace + 1, NEVER)
    return WindowReach(size, most, grace, keep, keep // SLACK if keep < NEVER else 0, most + most // SLACK)


class Line:
    """A window ends with a record, and reaches back from it. Its first moment belongs to it. `totals` are those of the
    newest window, which begins with the entry at `newest`. `bytes` are in the bags of all entries. `due` is the
    watermark at which the first one is forgotten, as it is known elsewhere. `start` is the time of the first record
    of the window that was asked for last."""

    __slots__ = ("_made", "_reach", "bytes", "due", "entries", "newest", "start", "totals")

    def __init__(
        self, reach: WindowReach, made: Callable[[Iterable[TimedState]], WindowTotals], entries: list[TimedState]
    ) -> None:
        self._reach, self._made, self.entries, self.due, self.start = reach, made, entries, -1, 0
        self.bytes = _bytes(entries)
        self.newest = self._starts(len(entries) - 1) if entries else 0
        self.totals = made(entries[self.newest :])

    def _starts(self, at: int) -> int:
        """The place of the first entry of the window that ends with the entry at this place."""
        first = bisect_left(self.entries, (self.entries[at][0] - self._reach.size,))
        return max(first, at + 1 - self._reach.most)

    def begins(self, last: tuple[int, int]) -> int:
        """The time of the first record of the window that ends with the record of this time and offset."""
        at = bisect_left(self.entries, (last[0], last[1] + 1)) - 1
        return self.entries[self._starts(at)][0] if at >= 0 else last[0]

    @property
    def window(self) -> Totalled:
        """The newest window."""
        entries = self.entries[self.newest :]
        state, self.start = self.totals.state(entries[-1]), entries[0][0]
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
        reach = self._reach
        start = entry[0] - reach.size
        while entries[at][0] < start:
            totals.remove(entries[at])
            at += 1
        if len(entries) - at > reach.most:
            totals.remove(entries[at])
            at += 1
        self.newest, self.start = at, entries[at][0]
        return totals.state(entry), entries[at:] if whole else ()

    def _insert(self, entry: TimedState) -> Totalled:
        """The record is out of order: its window is not the newest one."""
        entries, most = self.entries, self._reach.most
        at = bisect_right(entries, entry)
        full = len(entries) - self.newest >= most
        entries.insert(at, entry)
        if entry[0] < entries[-1][0] - self._reach.size or (full and at <= self.newest):
            self.newest += 1
        else:
            self.totals.insert(entry)
            if full:
                self.totals.remove(entries[self.newest])
                self.newest += 1
        window = entries[self._starts(at) : at + 1]
        self.start = window[0][0]
        return self._made(window).state(entry), window

    def forgotten(self) -> int:
        """The watermark at which the first entries are forgotten, and not only one of them; at most NEVER."""
        reach, entries = self._reach, self.entries
        due, spare = entries[0][0] + reach.keep + reach.slack, reach.spare
        return due if spare >= len(entries) else min(due, entries[spare][0] + reach.grace)

    def _gone(self, watermark: int) -> int:
        """How many entries no record in time can have in its window."""
        reach, entries = self._reach, self.entries
        end = bisect_left(entries, (watermark - reach.keep + 1,))
        if len(entries) <= reach.most:
            return end
        return max(end, bisect_left(entries, (watermark - reach.grace + 1,)) - reach.most)

    def leaving(self, watermark: int) -> tuple[int, int]:
        """How many entries, and how many of their bytes, no record in time can have in its window."""
        end = self._gone(watermark)
        return end, _bytes(self.entries[:end]) if self.bytes else 0

    def forget(self, watermark: int, most: int) -> Sequence[TimedState]:
        """Up to `most` of these entries leave: the oldest ones."""
        end = min(self._gone(watermark), most)
        gone = self.entries[:end]
        for entry in gone[self.newest :]:
            self.totals.remove(entry)
        del self.entries[:end]
        self.newest = max(0, self.newest - end)
        self.bytes -= _bytes(gone) if self.bytes else 0
        return gone


def _bytes(entries: Iterable[TimedState]) -> int:
    return sum(state[BYTES] for *_, state in entries)
