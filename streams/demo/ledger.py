"""The records that an agent should account for, in lanes, and how often its outputs accounted for each.

A lane is the records of one key in one partition. Its outputs come in the order of its records. So a record that an
output has passed over is lost, long before the end.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

LedgerEntry = TypeVar("LedgerEntry")


class LedgerSpan(NamedTuple):
    """The records of a lane from one offset to another, both included."""

    lane: Hashable
    first: int
    last: int


@dataclass(slots=True)
class _Lane(Generic[LedgerEntry]):
    offsets: list[int] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    passed: int = 0  # the records up to the last one of all outputs

    def places(self, span: LedgerSpan) -> range:
        return range(bisect_left(self.offsets, span.first), bisect_right(self.offsets, span.last))


class LaneLedger(Generic[LedgerEntry]):
    """Offsets of a lane are added in their order."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, _Lane[LedgerEntry]] = defaultdict(_Lane)
        self._passed = 0
        self.total = 0
        self.accounted = 0
        """Records with at least one output."""
        self.repeated = 0
        """Outputs beyond the first one of each record."""

    @property
    def skipped(self) -> int:
        """Records without an output before one that has an output."""
        return self._passed - self.accounted

    def add(self, lane: Hashable, offset: int, entry: LedgerEntry) -> None:
        of_lane = self._lanes[lane]
        of_lane.offsets.append(offset)
        of_lane.entries.append(entry)
        of_lane.marks.append(0)
        self.total += 1

    def entries(self, span: LedgerSpan) -> Sequence[LedgerEntry]:
        lane = self._lanes[span.lane]
        places = lane.places(span)
        return lane.entries[places.start : places.stop]

    def mark(self, span: LedgerSpan) -> None:
        """An output accounts for these records."""
        lane = self._lanes[span.lane]
        places = lane.places(span)
        for place in places:
            if lane.marks[place]:
                self.repeated += 1
            else:
                self.accounted += 1
            lane.marks[place] += 1
        self._passed += max(0, places.stop - lane.passed)
        lane.passed = max(lane.passed, places.stop)
