"""Late records with `late: {new}` or `late: {amend}`: their windows have closed.

With `amend` the group of a window stays after its result. Late records change it, and the whole result is sent again
with the next revision. With `new` late records form a group of their own, and its result is an additional result of the
window. Both kinds of groups are in `closed`. The watermark decides which records they accept, so the log determines the
contents of the last revision. The owner's clock decides only when late records are emitted.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import put
from sluicegate.streams.aggregation.events import COUNT_LOWERED
from sluicegate.streams.aggregation.firing import SLICE_BYTES
from sluicegate.streams.aggregation.layout import FIRST, LAST, OPENED, STALE, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windowers import AMEND
from sluicegate.streams.windows.closed import ClosedGroups
from sluicegate.streams.windows.groups import WindowGroups

LATE = "late"


class LateGroups(WindowGroups):
    """Windows that may accept late records. `after` has the deadlines of the groups in `closed`."""

    __slots__ = ("_opened_first", "_opens_late", "after")

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self.after = ClosedGroups(self)
        self._opens_late: bytes | None = None  # the name of the group that a late record opens
        self._opened_first: deque[tuple[int, bytes]] = deque()  # open groups by offset, if any are closed

    # -- records ---------------------------------------------------------------------------------------------------

    def _put_late(self, record: Record, group: bytes, closes: int, read: Any, items: list[Any], now: float) -> None:
        """Add a late record: it changes a result that was sent, or starts an additional one."""
        self.counts["late"] += closes <= self.event.watermark
        if group in self.states and group not in self.closed:  # its result waits, without this record
            self._end(group, self.event.closed_by(closes), now)
        self._opens_late = group
        put(self, group, record, read, items, now)
        self._took_late(record, group, now)

    def _took_late(self, record: Record, group: bytes, now: float) -> None:
        """Set the deadlines after a late record was added to the group. Does nothing if it was refused, or the group
        ended with it."""
        self._opens_late = None
        if (state := self.states.get(group)) is not None and state[LAST] == record.offset():
            self.after.note_record(group, now)

    def _arm(self, group: bytes, state: GroupState) -> None:
        if group == self._opens_late:
            self.after.note_opened(group)
            return
        super()._arm(group, state)
        if self.after.keep or self.closed:
            self._opened_first.append((state[FIRST], group))
            if len(self._opened_first) > 2 * len(self.states) + STALE:
                self._opened_first = self._in_order()

    def judge(self) -> Sequence[tuple[bytes, str]]:
        """As in Groups, without groups whose result would be only a repetition."""
        counted = {group for group, (_, since) in self.closed.items() if since is None}
        return [(group, reason) for group, reason in super().judge() if group not in counted]

    def set_back(self, now: float) -> None:
        super().set_back(now)
        ahead = [group for group, (_, since) in self.closed.items() if since is not None and since > now]
        for group in ahead:
            self.closed[group] = (self.closed[group][0], now)
            self.touched[group] = self.states[group]
        if ahead:
            self.after.rearm()

    # -- results ---------------------------------------------------------------------------------------------------

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """As in Groups. With `amend` the group stays after its result."""
        if self.after.stays(key) and reason != "limit":
            self._send(key, reason, now)
        else:
            super().fire(key, reason, now)

    def results(self, key: bytes) -> int:
        return self.after.results(key) if key in self.closed else super().results(key)

    def repeats(self, key: bytes) -> bool:
        return key not in self.closed and super().repeats(key)

    def _send(self, key: bytes, reason: str, now: float) -> None:
        """Emit the result of a group that stays."""
        state, bags = self.states[key], [bag.copy() for bag in self.bags.get(key, ())]
        self.early.revision, repeats = self.results(key) + 1, self.repeats(key)
        self.emitter.note(key, state, reason, now)
        if not repeats:
            self.emitter.let_out(key, state, bags, reason, now)
        self.after.note_result(key, self.early.revision - repeats)
        self.early.ended(key)
        if (span := self.span(key, state)).closes > self.event.watermark:
            self.near.cut.add(span.start)
        self.touched[key] = state

    @property
    def keep(self) -> float:
        return self.after.keep

    def leaves(self, group: bytes, state: GroupState) -> float:
        if group in self.closed:
            return self.after.end_of(group)
        return super().leaves(group, state) + (self.after.keep if self.after.late == AMEND else 0)

    def forget(self, key: bytes, now: float) -> None:
        """As in Groups. A group whose records are all covered by a result ends without an event."""
        if self.closed.get(key, (0, 0.0))[1] is None:
            self.drop(key)
            return
        super().forget(key, now)

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """As in Groups. With `amend` the group stays only if event time, the owner's clock or a limit on its records
        ended the result."""
        if reason in (self.reason, COUNT_LOWERED, "manual"):
            super().end_as(key, reason, by, now)
        elif key in self.closed:
            self._end_for_good(key, reason, by, now)
        else:
            super().fire(key, reason, now)

    def flush(self, key: bytes, now: float) -> None:
        if key in self.closed:
            self._end_for_good(key, "manual", "", now)
        else:
            super().fire(key, "manual", now)

    def _end_for_good(self, group: bytes, reason: str, by: str, now: float) -> None:
        """End a group of a closed window. It emits a result if no result covers its late records yet."""
        _, since = self.closed[group]
        if since is None:
            self.drop(group)
            return
        self._closing = by
        try:
            super().fire(group, reason, now)
        finally:
            self._closing = ""

    # -- deadlines -------------------------------------------------------------------------------------------------

    def _close(self, now: float, most: int) -> int:
        """As in ClosingWindows. Then end the groups whose late records become dead letters from now on."""
        fired, enough = super()._close(now, most), self._sent + SLICE_BYTES
        while self.closed and fired < most and self._sent <= enough:
            ended = self.after.ending()
            if ended is None or ended[0] > self.event.watermark:
                break
            self.near.cut.discard(self.span(ended[1], self.states[ended[1]]).start)
            self._end_for_good(ended[1], self.reason, LATE, now)
            fired += 1
        return fired

    def next_end(self) -> float:
        ending = self.after.ending() if self.closed else None
        return super().next_end() if ending is None else min(super().next_end(), ending[0])

    def next_due(self) -> float:
        due = self.after.due() if self.closed else None
        return super().next_due() if due is None else min(super().next_due(), due[0])

    def expire(self, now: float, most: int) -> int:
        """As in ClosingWindows. Then fire the groups whose late records are due."""
        fired, enough = super().expire(now, most), self._sent + SLICE_BYTES
        while self.closed and not self._due() and fired < most and self._sent <= enough:
            due = self.after.due()
            if due is None or due[0] > now:
                break
            self._end(due[1], LATE, now)
            fired += 1
        self.behind = self.next_due() <= now
        return fired

    def fire_oldest(self, now: float) -> None:
        if self.closed and not self._due() and self._next() is None and not any(elder.states for elder in self.elders):
            self.fire(next(iter(self.closed)), "limit", now)
        else:
            super().fire_oldest(now)

    def _oldest(self) -> bytes | None:
        if not self.closed:
            return super()._oldest()
        order, states = self._opened_first, self.states
        while order:
            first, group = order[0]
            if group in states and states[group][FIRST] == first and group not in self.closed:
                return group
            order.popleft()
        return None

    def _in_order(self) -> deque[tuple[int, bytes]]:
        return deque((each[FIRST], group) for group, each in self.states.items() if group not in self.closed)

    def oldest(self) -> float | None:
        entry = self._oldest()
        return None if entry is None else float(self.states[entry][OPENED])

    def rearm(self) -> None:
        super().rearm()
        self._opened_first = self._in_order() if self.after.keep or self.closed else deque()
        self.after.rearm()
        spans = (self.span(group, self.states[group]) for group in self.closed)
        self.near.cut = {span.start for span in spans if span.closes > self.event.watermark}
