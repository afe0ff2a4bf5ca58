"""The owner's clock at each record, as far as the published results show it.

A result has the moment at which its first record was taken and, if its last record completed it, the moment of that
record. The moment of a record between two of them lies between their moments. Contradictory bounds, after a jump of the
store's clock, are ignored.
"""

from bisect import bisect_left
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

MILLISECOND = 0.001  # documents have whole milliseconds


class ClockBounds(NamedTuple):
    """Bounds of a moment, in seconds since 1970."""

    low: float
    high: float

    @property
    def seconds(self) -> float:
        """The lower bound; 0 where it is unknown."""
        return self.low if -inf < self.low < inf else 0.0

    def nearest(self, moment: float) -> float:
        """The moment within the bounds that is nearest to `moment`."""
        return min(max(moment, self.low), self.high)


class OwnerClock:
    """`moments` are pairs of an offset and the moment of its record. `latest` is a moment after all of them. `now` is
    the moment of the next record, at first of the record at `begin`."""

    def __init__(self, moments: Iterable[tuple[int, float]], latest: float, begin: int) -> None:
        bounds: dict[int, ClockBounds] = {}
        for offset, at in moments:
            known = bounds.get(offset, ClockBounds(at, at + MILLISECOND))
            bounds[offset] = ClockBounds(min(known.low, at), max(known.high, at + MILLISECOND))
        self.offsets = sorted(bounds)
        self._bounds = [bounds[offset] for offset in self.offsets]
        self._latest, self._reached = latest, 0.0
        self.now = self.bounds_at(begin)

    def move(self, offset: int) -> None:
        """Moves to the record at this offset."""
        self.now = self.bounds_at(offset)

    def stop(self, low: float) -> None:
        """Moves to the end, after the last record, and not before `low`."""
        self.now = ClockBounds(max(self.now.low, low), self._latest)

    def in_order(self, moment: float) -> float:
        """The moment within the bounds that is nearest to `moment`, and not before the results of earlier calls."""
        self._reached = max(self._reached, self.now.nearest(moment))
        return self._reached

    def bounds_at(self, offset: int) -> ClockBounds:
        """The bounds of the moment of the record at this offset."""
        index = bisect_left(self.offsets, offset)
        if index < len(self.offsets) and self.offsets[index] == offset:
            return self._bounds[index]
        low = self._bounds[index - 1].low if index else -inf
        high = self._bounds[index].high if index < len(self.offsets) else self._latest
        return ClockBounds(low, high) if low <= high else ClockBounds(-inf, inf)

    @property
    def span(self) -> float:
        """Seconds between the first and the last known moment."""
        if not self._bounds:
            return 0.0
        return max(bound.high for bound in self._bounds) - min(bound.low for bound in self._bounds)
