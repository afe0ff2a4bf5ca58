"""The timeouts of a shadow's open groups. Each is certain, impossible, or unknown."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from sluicegate.streams.agent import DataDeadline
from sluicegate.streams.aggregation.completion import Completion
from sluicegate.streams.aggregation.layout import DEADLINE, DEADLINE_SINCE, FIRST, STALE, GroupState
from sluicegate.streams.shadow.clock import ClockBounds

ALWAYS = ClockBounds(inf, inf)


class GroupTimes(NamedTuple):
    """Bounds of the moments of a group's first and newest record, and of the deadline that its records give. `guessed`
    and `guessed_seen` are the two moments according to the records' own timestamps."""

    first: int
    opened: ClockBounds
    seen: ClockBounds
    guessed: float
    guessed_seen: float
    deadline: ClockBounds = ALWAYS


class Deadlines:
    """The deadlines of the noted groups, by key."""

    def __init__(self, completion: Completion, deadline: DataDeadline | None) -> None:
        self._after, self._idle = completion.since_first, completion.since_last
        self._from_data = deadline is not None
        self._since_first = deadline is not None and deadline.since == "first"
        self._times: dict[bytes, GroupTimes] = {}
        self._heap: list[tuple[float, bytes, int]] = []
        self.doubtful: set[bytes] = set()

    def note(self, key: bytes, state: GroupState, now: ClockBounds, opened: float, seen: float) -> None:
        """Notes that the group took a record within these bounds. `opened` and `seen` are the moments of its first and
        its newest record, according to their own timestamps. `opened` counts only for a new group."""
        times, first, before = self._times.get(key), state[FIRST], inf
        if times is None or times.first != first:
            self._times[key] = times = GroupTimes(first, now, now, opened, seen)
        else:
            before = self._low(times)
            self._times[key] = times = times._replace(seen=now, guessed_seen=seen)
        if self._from_data:
            self._times[key] = times = times._replace(deadline=self._deadline_bounds(state, times, now))
        if (low := self._low(times)) < before:
            heappush(self._heap, (low, key, first))
            if len(self._heap) > 2 * len(self._times) + STALE:
                self._fill_heap()
        if low <= now.high:
            self.doubtful.add(key)

    def _fill_heap(self) -> None:
        """Rebuild the heap: most of its entries are of earlier deadlines, or of groups that have ended."""
        lows = ((self._low(times), key, times.first) for key, times in self._times.items())
        self._heap = [entry for entry in lows if entry[0] < inf]
        heapify(self._heap)

    def _deadline_bounds(self, state: GroupState, times: GroupTimes, now: ClockBounds) -> ClockBounds:
        """The bounds of the deadline in the state. It counts from the lower bound of the moment of a record."""
        seconds, since = state[DEADLINE], state[DEADLINE_SINCE]
        if seconds is None:
            return ALWAYS
        if since is None:
            return ClockBounds(seconds, seconds)
        if not self._since_first and since != now.seconds:
            return times.deadline  # an earlier record gave it
        begin = times.opened if self._since_first else now
        return ClockBounds(begin.low + seconds, begin.high + seconds)

    def may_time_out(self, now: ClockBounds) -> bool:
        """Whether a group that is opened within these bounds may time out within them."""
        return self._from_data or now.low + min(self._after, self._idle) <= now.high

    def forget(self, key: bytes) -> None:
        """Removes a group that has ended."""
        self._times.pop(key, None)
        self.doubtful.discard(key)

    def due(self, now: ClockBounds, waits: Callable[[int], bool]) -> Iterator[bytes]:
        """The keys of the groups that surely timed out before a record within these bounds. Groups that may have timed
        out become `doubtful`. `waits` answers, for a group's first record, whether the group certainly goes on."""
        later: list[tuple[float, bytes, int]] = []
        self.doubtful.clear()
        while self._heap and self._heap[0][0] <= now.high:
            _, key, first = heappop(self._heap)
            times = self._times.get(key)
            if times is None or times.first != first:
                continue
            entry = (self._low(times), key, first)
            if entry[0] > now.high:
                heappush(self._heap, entry)
            elif waits(first):
                later.append(entry)
            elif self._due(times.opened.high, times.seen.high, times.deadline.high) <= now.low:
                yield key
            else:
                later.append(entry)
                self.doubtful.add(key)
        for entry in later:
            heappush(self._heap, entry)

    def has_timed_out(self, newest: ClockBounds, now: ClockBounds) -> bool:
        """Whether a group whose newest record was taken within `newest` has surely timed out before `now`, whenever it
        was opened."""
        return newest.high + min(self._after, self._idle) <= now.low

    def guess(self, key: bytes, at: float) -> bool:
        """Whether the group timed out before `at`, if the records' own timestamps are right."""
        times = self._times[key]
        return self._due(times.guessed, times.guessed_seen, times.deadline.low) <= at

    def _low(self, times: GroupTimes) -> float:
        return self._due(times.opened.low, times.seen.low, times.deadline.low)

    def _due(self, opened: float, seen: float, deadline: float) -> float:
        return min(opened + self._after, seen + self._idle, deadline)
