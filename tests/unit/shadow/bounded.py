"""What a plan for another timeout must say, by a program that shares no code with the engine: it knows the records of
one partition and the results that were published of them, and no other clock than the times in those results."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import NamedTuple

DIGITS = 0.001  # a document has milliseconds
TURN = 1.0  # seconds: a deadline so shortly before the last result may have been too late for it


class Taken(NamedTuple):
    """A record that belongs to a group. `at` is its own timestamp in seconds since 1970."""

    offset: int
    key: bytes
    at: float


class Result(NamedTuple):
    """A published result; the times are those of its document."""

    first: int
    last: int
    count: int
    reason: str
    opened: float
    closed: float


class Bounds(NamedTuple):
    low: float
    high: float


@dataclass
class Group:
    """An open group under the new rule; `stamp` is the timestamp of its first record, within its bounds."""

    first: int
    opened: Bounds
    stamp: float
    last: int = 0
    count: int = 0


class NewResult(NamedTuple):
    first: int
    last: int
    count: int
    reason: str
    certain: bool


def seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Clock:
    """The owner's clock, from the results alone."""

    def __init__(self, results: Iterable[Result]) -> None:
        exact = defaultdict[int, list[float]](list)
        for result in results:
            exact[result.first].append(result.opened)
            if result.reason == "count":
                exact[result.last].append(result.closed)
        self._offsets = sorted(exact)
        self._bounds = [Bounds(min(exact[offset]), max(exact[offset]) + DIGITS) for offset in self._offsets]

    def at(self, offset: int) -> Bounds:
        place = bisect_left(self._offsets, offset)
        if place < len(self._offsets) and self._offsets[place] == offset:
            return self._bounds[place]
        low = self._bounds[place - 1].low if place else -inf
        high = self._bounds[place].high if place < len(self._offsets) else inf
        return Bounds(low, high)


class OneKey:
    """The groups of one key, under a count and a timeout that counts from the first record."""

    def __init__(self, clock: Clock, count: int, after: float) -> None:
        self._clock, self._count, self._after = clock, count, after
        self.results: list[NewResult] = []
        self.doubted: list[tuple[int, float]] = []  # from the first record of a group up to an offset
        self._group: Group | None = None
        self._newest = Bounds(-inf, inf)

    def take(self, record: Taken) -> None:
        now = self._clock.at(record.offset)
        stamp = min(max(record.at, now.low), now.high)
        if self._doubts and self._newest.high + self._after <= now.low:
            self._end("timeout")
            self.doubted[-1] = (self.doubted[-1][0], record.offset)
        elif (group := self._group) is not None:
            if group.opened.high + self._after <= now.low:
                self._end("timeout")
            elif group.opened.low + self._after <= now.high:
                if not self._doubts:
                    self.doubted.append((group.first, inf))
                if group.stamp + self._after <= stamp:
                    self._end("timeout")
        self._newest = now
        if self._group is None:
            self._group = Group(record.offset, now, stamp)
        self._group.last, self._group.count = record.offset, self._group.count + 1
        if self._group.count == self._count:
            self._end("count")

    @property
    def _doubts(self) -> bool:
        return bool(self.doubted) and self.doubted[-1][1] == inf

    def doubts(self, first: int) -> bool:
        return any(begin <= first < end for begin, end in self.doubted)

    def _end(self, reason: str) -> None:
        if (group := self._group) is not None:
            certain = not self.doubts(group.first)
            self.results.append(NewResult(group.first, group.last, group.count, reason, certain))
            self._group = None

    def finish(self, end: float) -> None:
        """Nothing is known after `end`. What has not surely timed out by then may still be open."""
        if self._group is not None and self._group.opened.high + self._after <= end:
            self._end("timeout")
        elif self._group is not None and not self._doubts:
            self.doubted.append((self._group.first, inf))


def figures(records: Iterable[Taken], results: Iterable[Result], count: int, after: float) -> list[int]:
    """How many are identical, changed, missing, extra and uncertain under this count and this timeout, if each record
    is in a published result."""
    live = {result.first: result for result in results}
    clock, keys = Clock(live.values()), dict[bytes, OneKey]()
    owner = dict[int, bytes]()
    for record in records:
        owner[record.offset] = record.key
        keys.setdefault(record.key, OneKey(clock, count, after)).take(record)
    end = max(result.closed for result in live.values()) - TURN
    counts = dict.fromkeys(("identical", "changed", "missing", "extra", "uncertain"), 0)
    for key in keys.values():
        key.finish(end)
        for new in key.results:
            old = live.pop(new.first, None)
            if not new.certain:
                counts["uncertain"] += 1
            elif old is None:
                counts["missing"] += 1
            else:
                counts["identical" if new[:4] == old[:4] else "changed"] += 1
    for first in live:
        counts["uncertain" if keys[owner[first]].doubts(first) else "extra"] += 1
    return list(counts.values())
