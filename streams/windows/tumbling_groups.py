"""Tumbling windows: each record is in one window, and each group is one window of one key."""

from typing import Any

from sluicegate.streams.aggregation.accept import put
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.cold.starts import ColdWindows, window_of
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.tumbling import Span, name, start_of


class TumblingGroups(WindowGroups):
    """The name of a group is the start of its window, and its key. Names are in the order of the starts of their
    windows, byte by byte, except names of windows that begin before 1970."""

    __slots__ = ()
    cold_keys = ColdWindows

    def span(self, group: bytes, state: GroupState) -> Span:
        return self.tumbling.span(start_of(group))

    def closes(self, group: bytes, state: GroupState) -> int:
        return self.tumbling.closes(start_of(group))

    def last_start(self) -> int | None:
        return max([*map(start_of, self.states), *map(window_of, self.cold.starts)], default=None)

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        start = self.tumbling.start(time)
        closes, group = self.tumbling.closes(start), name(start, key)
        if closes > self.event.watermark and group not in self.closed:
            return put(self, group, record, read, items, now)
        if closes + self.after.keep > self.event.watermark:
            self.put_late(record, group, closes, read, items, now)
        else:
            self._late(record, self.tumbling.span(start))
        return True
