"""The records of one key that its sliding windows may contain, ordered by time. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from sys import maxsize
from typing import Any, NamedTuple

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.layout import LAST, GroupState
from sluicegate.streams.windows.sliding.totals import SIZE, TimedState, WindowTotals, offset_of

Totalled = tuple[GroupState, Sequence[TimedState]]
"""The state of a window, and its entries ordered by time."""
NEVER = 1 << 62
"""A time in milliseconds after the times of all records."""
SLACK = 2
"""Records are removed in batches: when the watermark has moved on by `keep` / SLACK, or when `most` is exceeded by
`most` / SLACK."""


class WindowReach(NamedTuple):
    """The extent of the windows of an agent before their last record: `size` milliseconds, and `most` records of the
    key. A record may be `grace` behind the watermark. An entry expires when the watermark is `keep` past its time,
    because it then precedes the windows of all records that are not late. It also expires when `most` later entries
    have times at or before those of all records that are not late. It is removed up to `slack` later. `spare` is an
    index: when the entry at this index is `grace` behind the watermark, `most` // SLACK + 1 entries are removed
    together."""

    size: int
    most: int
    grace: int
    keep: int
    slack: int
    spare: int


def reach(window: Window) -> WindowReach:
    """Without a size, or without a number of records, the respective limit is infinite."""
    size, grace = round(1_000 * window.size) or NEVER, round(1_000 * window.grace)
    most, keep = window.last or maxsize, min(size + grace + 1, NEVER)
    return WindowReach(size, most, grace, keep, keep // SLACK if keep < NEVER else 0, most + most // SLACK)


class Line:
    """The entries of `key`. A window ends with an entry and reaches back from it. Its first moment is part of it.
    `totals` are the totals of the newest window, which begins with the entry at index `newest`; `inner` and `first` are
    what the compiled loop uses of them. `_covered` is the range of the indexes of the entries that the late totals
    have. `unusual`: a late total may be no number that a result can represent. `bytes` is the size of the bags of all
    entries. `due` is the watermark, noted by SlidingGroups, at which the first entries are removed. `start` is the time
    of the first entry of the window that was last computed. `_mixed`: the offsets of the entries may be out of
    order."""

    __slots__ = (
        "_covered",
        "_made",
        "_mixed",
        "_reach",
        "bytes",
        "due",
        "entries",
        "first",
        "inner",
        "key",
        "newest",
        "start",
        "totals",
        "unusual",
    )

    def __init__(
        self,
        reach: WindowReach,
        key: bytes,
        made: Callable[[Sequence[TimedState]], WindowTotals],
        entries: list[TimedState],
    ) -> None:
        self.key, self._reach, self._made, self.entries, self.due, self.start = key, reach, made, entries, -1, 0
        self.bytes = _bytes(entries)
        self._mixed = any(later[1] < earlier[1] for earlier, later in pairwise(entries))
        self.newest = self._starts(len(entries) - 1) if entries else 0
        self.totals = made(entries[self.newest :])
        self.inner, self.first = self.totals.inner, self.totals.first
        self._covered = self.newest, len(entries)
        self.unusual = any(map(self.totals.unusual, entries))

    def _starts(self, at: int) -> int:
        """The index of the first entry of the window that ends with the entry at this index."""
        first = bisect_left(self.entries, (self.entries[at][0] - self._reach.size,))
        return max(first, at + 1 - self._reach.most)

    def begins(self, last: tuple[int, int]) -> int:
        """The time of the first entry of the window that ends with the entry of this time and offset."""
        at = bisect_left(self.entries, (last[0], last[1] + 1)) - 1
        return self.entries[self._starts(at)][0] if at >= 0 else last[0]

    def entry_of(self, offset: int) -> TimedState | None:
        """The entry of the record at this offset; None if there is none."""
        entries = self.entries
        if self._mixed:
            return next((entry for entry in entries if entry[1] == offset), None)
        at = bisect_left(entries, offset, key=offset_of)
        return entries[at] if at < len(entries) and entries[at][1] == offset else None

    def late_totals(self) -> tuple[Any, ...]:
        """Give the late totals the entries of the newest window that they lack. Returns what the compiled loop uses of
        them."""
        totals = self.totals
        if totals.late:
            entries, newest, (begin, end) = self.entries, self.newest, self._covered
            totals.catch_up(entries[begin : min(end, newest)], entries[max(end, newest) :])
            self._covered = newest, len(entries)
        return totals.late_inner

    def state(self, entry: TimedState) -> GroupState:
        """The state of the newest window, which ends with this entry."""
        self.late_totals()
        entries, newest = self.entries, self.newest
        return self.totals.state(entry, len(entries) - newest, entries[newest])

    @property
    def window(self) -> Totalled:
        """The newest window."""
        entries = self.entries[self.newest :]
        state, self.start = self.state(entries[-1]), entries[0][0]
        state[LAST] = max(map(offset_of, entries))
        return state, entries

    def add(self, entry: TimedState, whole: bool) -> Totalled:
        """Add the entry. Returns the window that ends with it. With `whole` the window includes its entries."""
        entries, totals, at = self.entries, self.totals, self.newest
        self.bytes += entry[SIZE]
        self.unusual = self.unusual or totals.unusual(entry)
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
        return self.state(entry), entries[at:] if whole else ()

    def _insert(self, entry: TimedState) -> Totalled:
        """Add an entry that is out of order: its window is not the newest one."""
        entries, most = self.entries, self._reach.most
        self.late_totals()
        at = bisect_right(entries, entry)
        full = len(entries) - self.newest >= most
        entries.insert(at, entry)
        self._mixed = True
        if entry[0] < entries[-1][0] - self._reach.size or (full and at <= self.newest):
            self.newest += 1
        else:
            self.totals.insert(entry, (other for other in entries[self.newest :] if other is not entry))
            self.first = self.totals.first
            if full:
                gone = entries[self.newest]
                self.totals.remove(gone)
                self.totals.catch_up((gone,), ())
                self.newest += 1
        self._covered = self.newest, len(entries)
        window = entries[self._starts(at) : at + 1]
        self.start = window[0][0]
        return self._made(window).state(entry, len(window), window[0]), window

    def forgotten(self) -> int:
        """The watermark at which the next batch of entries is removed; at most NEVER."""
        reach, entries = self._reach, self.entries
        due: int = entries[0][0] + reach.keep + reach.slack
        spare = reach.spare
        return due if spare >= len(entries) else min(due, entries[spare][0] + reach.grace)

    def _gone(self, watermark: int) -> int:
        """The number of expired entries: no record that is not late can have them in its window."""
        reach, entries = self._reach, self.entries
        end = bisect_left(entries, (watermark - reach.keep + 1,))
        if len(entries) <= reach.most:
            return end
        return max(end, bisect_left(entries, (watermark - reach.grace + 1,)) - reach.most)

    def leaving(self, watermark: int) -> tuple[int, int]:
        """The number of expired entries, and their bytes."""
        end = self._gone(watermark)
        return end, _bytes(self.entries[:end]) if self.bytes else 0

    def forget(self, watermark: int, most: int) -> Sequence[TimedState]:
        """Remove up to `most` expired entries, oldest first. Returns them."""
        end = min(self._gone(watermark), most)
        gone = self.entries[:end]
        for entry in gone[self.newest :]:
            self.totals.remove(entry)
        if self.totals.late:
            begin, stop = self._covered
            self.totals.catch_up(gone[begin:stop], ())
            self._covered = max(begin - end, 0), max(stop - end, 0)
        del self.entries[:end]
        self.unusual = self.unusual and any(map(self.totals.unusual, self.entries))
        self.newest = max(0, self.newest - end)
        self.bytes -= _bytes(gone) if self.bytes else 0
        return gone


def _bytes(entries: Iterable[TimedState]) -> int:
    return sum(entry[SIZE] for entry in entries)
