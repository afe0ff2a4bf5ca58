"""Hopping windows with one group for each window and key.

Panes (hopping.py) cannot end or be revised separately, and cannot hold values that cannot be merged. So windows with
`count`, `until`, `reduce` or additional results for late records are groups themselves. A record is added to each
window that contains its time.
"""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import put
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.room import expected
from sluicegate.streams.windows.tumbling import name
from sluicegate.streams.windows.tumbling_groups import TumblingGroups


class OverlappingGroups(TumblingGroups):
    """The name of a group is the start of its window and its key. A record counts in all of its windows that are not
    over, or all of them refuse it."""

    __slots__ = ()

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self.counts |= {"partly_late": 0}

    def _placed(self) -> None:
        """The compiled loop cannot place records: a record has several groups."""

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        """As in Groups: some windows of the record are of this rule and take it."""
        return any(not self.passed(start) for start in self._starts(self.event_time(record, read)))

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        return tuple(name(start, key) for start in self._starts(time))

    def _starts(self, time: int) -> Sequence[int]:
        """The starts of the windows of this rule that contain this time."""
        last, kind = self.tumbling.start(time), self.tumbling
        starts = range(last - kind.size + kind.every, last + 1, kind.every)
        return [start for start in starts if self.tumbling.starts.first <= start <= self.tumbling.starts.last]

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        starts, watermark, closes = self._starts(time), self.event.watermark, self.tumbling.closes
        taken = [start for start in starts if not self.passed(start)]
        if not taken:
            self._late(record, self.tumbling.span(starts[-1]))
            return True
        names = tuple(name(start, key) for start in taken)
        if not expected(self, names, record, watermark, read, items, now):
            return False
        self.counts["partly_late"] += len(taken) < len(starts)
        late = self.counts["late"]
        for start, group in zip(taken, names, strict=True):
            if closes(start) > watermark and group not in self.closed:
                put(self, group, record, read, items, now)
            else:
                self.put_late(record, group, closes(start), read, items, now)
        self.counts["late"] = late + (self.counts["late"] > late)  # it counts as one late record
        return True
