"""When the open groups of a shadow time out: certainly, certainly not, or it cannot be known."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from sluicegate.streams.aggregation.completion import Completion
from sluicegate.streams.shadow.clock import ClockBounds


class GroupTimes(NamedTuple):
    """The bounds of the moments of a group's first and newest record. `guessed` and `guessed_seen` are those moments as
    the records' own timestamps say them."""

    first: int
    opened: ClockBounds
    seen: ClockBounds
    guessed: float
    guessed_seen: float


class Deadlines:
    """Of the groups that were noted, by key."""

    def __init__(self, completion: Completion) -> None:
        self._after, self._idle = completion.since_first, completion.since_last
        self._times: dict[bytes, GroupTimes] = {}
        self._heap: list[tuple[float, bytes, int]] = []
        self.doubtful: set[bytes] = set()

    def note(self, key: bytes, first: int, now: ClockBounds, opened: float, seen: float) -> None:
        """The group took a record within these bounds. `opened` and `seen` are the moments of its first and its newest
        record, as their own timestamps say; `opened` counts for a new group only."""
        times = self._times.get(key)
        if times is None or times.first != first:
            self._times[key] = times = GroupTimes(first, now, now, opened, seen)
            heappush(self._heap, (self._due(times.opened.low, times.seen.low), key, first))
        else:
            self._times[key] = times = times._replace(seen=now, guessed_seen=seen)
        if self._due(times.opened.low, times.seen.low) <= now.high:
            self.doubtful.add(key)

    def within(self, now: ClockBounds) -> bool:
        """Whether a group that is opened within these bounds may time out within them."""
        return now.low + min(self._after, self._idle) <= now.high

    def forget(self, key: bytes) -> None:
        """The group ended."""
        self._times.pop(key, None)
        self.doubtful.discard(key)

    def due(self, now: ClockBounds, waits: Callable[[int], bool]) -> Iterator[bytes]:
        """The keys of the groups that surely timed out before a record within these bounds. Those that may have timed
        out become `doubtful`. `waits` tells, for a group's first record, whether the group certainly goes on."""
        later: list[tuple[float, bytes, int]] = []
        self.doubtful.clear()
        while self._heap and self._heap[0][0] <= now.high:
            _, key, first = heappop(self._heap)
            times = self._times.get(key)
            if times is None or times.first != first:
                continue
            entry = (self._due(times.opened.low, times.seen.low), key, first)
            if entry[0] > now.high:
                heappush(self._heap, entry)
            elif waits(first):
                later.append(entry)
            elif self._due(times.opened.high, times.seen.high) <= now.low:
                yield key
            else:
                later.append(entry)
                self.doubtful.add(key)
        for entry in later:
            heappush(self._heap, entry)

    def over(self, newest: ClockBounds, now: ClockBounds) -> bool:
        """Whether a group whose newest record was taken within `newest` has surely timed out before `now`, whenever it
        was opened."""
        return newest.high + min(self._after, self._idle) <= now.low

    def guess(self, key: bytes, at: float) -> bool:
        """Whether the group timed out before `at`, if the records' own timestamps are right."""
        times = self._times[key]
        return self._due(times.guessed, times.guessed_seen) <= at

    def _due(self, opened: float, seen: float) -> float:
        return min(opened + self._after, seen + self._idle)
