"""Correlations by event time: a leg is absent when the watermark passes the end of the group.

A group lasts for the size of the window from its earliest record; with `since: last`, from its latest record. The
watermark is the minimum over all partitions of all legs. So no leg is absent while one of its records that would be in
time waits to be read.
"""

from heapq import heappush
from typing import Any

from sluicegate.streams.agent import Correlation, Window
from sluicegate.streams.aggregation.accept import add_to, admitted
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import FIRST, GroupState
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.correlation.ended import EndedKeys
from sluicegate.streams.windows.cold.correlations import ColdCorrelations
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.tumbling import Span, key_of, name

EARLIEST, LATEST = -2, -1
"""The last two slots of a state: the times of the earliest and the latest record, in milliseconds since 1970."""


class CorrelatedByTime(WindowGroups):
    """One group for each key; it ends once within `remember`. The name of a group is the name of a window at 0.

    A record whose distance to the other records of its group exceeds the window is late, even if the group is still
    open. So the speed of reading does not change the result.
    """

    __slots__ = ("_after", "_at", "ended", "since_last")
    reason = "timeout"
    cold_keys = ColdCorrelations

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        correlation = rule.aggregation.correlation or Correlation()
        self.ended = EndedKeys(correlation)
        self._after, self.since_last = round(1_000 * window.size), correlation.since == "last"
        self._at = 0  # the time of the record that opens a group
        self.counts |= {"late_legs": 0}

    def _placed(self) -> None:
        """The compiled loop cannot place records: the ended keys must be checked."""

    def span(self, group: bytes, state: GroupState) -> Span:
        due = state[LATEST if self.since_last else EARLIEST] + self._after
        return Span(state[EARLIEST], due, due + 1)  # a record exactly at the end is in time

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        return (name(0, key),)

    def named(self, key: bytes, first: int, start: int) -> bytes:
        return name(0, key)

    def beside(self, newest: Groups) -> None:
        super().beside(newest)
        if isinstance(newest, CorrelatedByTime):
            self.ended = newest.ended

    def fire(self, key: bytes, reason: str, now: float) -> None:
        super().fire(key, reason, now)
        self.ended.note(key_of(key), now)

    def set_back(self, now: float) -> None:
        super().set_back(now)
        self.ended.ids.set_back(now)

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        group = name(0, key)
        state = self._open_at_watermark(group, now)
        if self._is_late(key, state, record, time, now):
            return True
        self._at = time
        state = admitted(self, group, record, items, now)
        if state is None:
            return False
        before = state[EARLIEST], state[LATEST]
        state[EARLIEST], state[LATEST] = min(before[0], time), max(before[1], time)
        if not add_to(self, group, state, record, read, items, now):
            state[EARLIEST], state[LATEST] = before
            return False
        if self.states.get(group) is state and not self.since_last and state[EARLIEST] < before[0]:
            heappush(self._order, (self.closes(group, state), state[FIRST], group))
        return True

    def _open_at_watermark(self, group: bytes, now: float) -> GroupState | None:
        """The state of the group. If the watermark has ended the group, it fires first and the state is None."""
        state = self.states.get(group)
        if state is None or (closes := self.closes(group, state)) > self.event.watermark:
            return state
        self.close_as(group, self.event.closed_by(closes), now)
        return None

    def _is_late(self, key: bytes, state: GroupState | None, record: Record, time: int, now: float) -> bool:
        if state is not None:
            least, most = self._times(state)
            if least <= time <= most:
                return False
            apart = (least - time if time < least else time - most) / 1000
            why_late = (
                f"its time is {apart:g} s too far from the other records of its key; a longer `timeout` takes both"
            )
            self.ended.refuse(self, record, why_late)
            return True
        if self.ended.refuses(self, key, record, now):
            return True
        if time + self._after >= self.event.watermark:
            return False
        text = f"its group would end at {rfc3339((time + self._after) / 1000)}, and the watermark is past that"
        self.ended.refuse(self, record, text)
        return True

    def _times(self, state: GroupState) -> tuple[int, int]:
        """The lowest and the highest time that a record of this group may have."""
        earliest, latest, after = state[EARLIEST], state[LATEST], self._after
        return (earliest - after, latest + after) if self.since_last else (latest - after, earliest + after)

    def _opened(self, group: bytes, state: GroupState, now: float) -> None:
        state[EARLIEST] = state[LATEST] = self._at
