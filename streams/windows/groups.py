"""The open windows of one partition, and how they take records. They replace its groups (when they close: closing.py).

Records are processed one by one. The time of a record moves the watermark first. Then the windows that the watermark
passed are closed. Then the record is added to its window, or it is late. So batches, commits and crashes do not change
which windows event time closes.

See docs/protocol.md, Windows.
"""

from collections.abc import Collection, Sequence
from math import inf
from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import parsed, put, refuse
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction
from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import TIME
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import Halt
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.windows.clock import NEVER
from sluicegate.streams.windows.closing import SLICE, ClosingWindows
from sluicegate.streams.windows.marks import Stamp, stamp
from sluicegate.streams.windows.merged import MergedClock
from sluicegate.streams.windows.placing import by_start
from sluicegate.streams.windows.room import expected
from sluicegate.streams.windows.times import NoTime, latest, milliseconds, reader
from sluicegate.streams.windows.tumbling import NAMING, Span, key_of, name, start_of

MOST_WAITING = 1_000  # windows in which groups of the key of a late record are looked for


class WindowGroups(ClosingWindows):
    """Groups by window and key: the common part of all kinds of windows.

    `believed` is for a replay: times that were plausible at this moment are accepted.
    """

    __slots__ = ("_time", "believed", "placing")

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self._time = reader(window, rule.reader.message)
        self.counts |= {"late": 0, "marks_ahead": 0}
        self.believed = -inf
        self.placing = self._placed()

    def accept(
        self,
        records: Sequence[Record],
        now: float,
        left_out: Collection[int] = (),
        by: MadeFunction | None = None,
        duplicates: object = None,
    ) -> None:
        """Take records of this partition, in order, at the owner's time `now`. `left_out` are the offsets of records
        that only move the watermark: records for which `where` is false, and time marks. `by` is the loop that
        evaluates `where` itself, and drops the `duplicates`. Raises Halt."""
        self.event.saw(now)
        self.may_close, begin = SLICE, 0
        if by is not None:
            by.call(self, records, now, duplicates)
            return
        for index, record in enumerate(records) if left_out else ():
            if record.offset() in left_out:
                self._take_all(records[begin:index], now)
                self.pass_over(record, now)
                begin = index + 1
        self._take_all(records[begin:] if begin else records, now)

    def _take_all(self, records: Sequence[Record], now: float) -> None:
        """Take records that follow each other."""
        loop = loop_of(self.rule, False, taken_with_care, self.placing)
        if loop is not None and records and not self.full:
            loop.call(self, records, now, None)
            return
        for record in records:
            self.take(record, now)

    def _placed(self) -> Placing | None:
        """The code with which the compiled loop finds the group of a record. None: the rule has no loop."""
        return by_start(self)

    def pass_over(self, record: Record, now: float) -> None:
        """Move the watermark by the time of a record that is in no group."""
        if self.merged is not None:
            time_stamp = stamp(record)
            if time_stamp is not None and self._ahead(max(time_stamp.time, time_stamp.marked_at), now):
                self.counts["marks_ahead"] += 1
            elif time_stamp is not None and self._moved(self.merged, time_stamp):
                self.close_passed(now)
        elif (time := self._readable(record)) is not None and not self._ahead(time, now) and self.event.read(time):
            self.close_passed(now)

    def moves_to(self, record: Record) -> int:
        """The highest watermark that this record may cause if it is in no group."""
        if self.merged is None:
            time = self._readable(record)
        else:
            time_stamp = stamp(record)
            time = None if time_stamp is None else max(time_stamp.time, time_stamp.marked_at)
        return NEVER if time is None else time

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        return any(group in self.states for group in self.groups_of(record, key, self.event_time(record, read)))

    def begins_by(self, record: Record, start: int) -> bool:
        """Whether all windows of a record begin then, or before. False for a record without a time, and a mark."""
        if self.merged is None:
            time = self._readable(record)
        else:
            time_stamp = stamp(record)
            time = None if time_stamp is None or time_stamp.state or time_stamp.time == NEVER else time_stamp.time
        return time is not None and self.tumbling.start(time) <= start

    def _moved(self, clock: MergedClock, time_stamp: Stamp) -> bool:
        """Whether a record of this origin, or a time mark, moves the watermark."""
        if time_stamp.state:
            return clock.hear(time_stamp)
        clock.reading = time_stamp.origin
        return clock.read(time_stamp.time)

    def take(self, record: Record, now: float) -> None:
        """Take one record for which `where` is true. Raises Halt."""
        try:
            key, read, items = parsed(self, record)
            time = self.event_time(record, read)
        except NoTime as error:
            self._untimed(record, error)
            return
        except Exception as error:
            refuse(self, record, error)
            return
        if key is None or len(key) > LONGEST_KEY - NAMING:
            self.refuse_key(record, key, LONGEST_KEY - NAMING)
            return
        if self._ahead(time, now):
            text = f"its time {rfc3339(time / 1000)} is more than max_ahead after the worker's clock"
            self.refuse(record, "aggregate", "time-ahead", text)
            return
        if self.merged is None and time > self.event.watermark:
            self._lead(record, key, time, read, items, now)
            return
        if self.event.read(time):
            self.close_passed(now)
        self.count(record, key, time, read, items, now)

    def _lead(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> None:
        """Take a record that is later than all records before. It moves the watermark and closes groups, unless it is
        refused."""
        before, ends = self.event.watermark, self.next_end() <= time
        if ends and not expected(self, self.groups_of(record, key, time), record, time, read, items, now):
            return
        self.event.read(time)
        self.close_passed(now)
        if not self.count(record, key, time, read, items, now) and not ends:
            self.event.watermark = before

    def put_late(self, record: Record, group: bytes, closes: int, read: Any, items: list[Any], now: float) -> None:
        """Add a late record: it changes a result that was sent, or starts an additional one."""
        self.counts["late"] += closes <= self.event.watermark
        if group in self.states and group not in self.closed:  # its result waits, without this record
            self._close_key(group, now)
        self.after.opens = group
        put(self, group, record, read, items, now)
        self.after.took(record, group, now)

    def _close_key(self, group: bytes, now: float) -> None:
        """Fire this group, whose window has closed. The groups of its key in earlier windows that wait, too, are
        first."""
        kind, starts, first = self.tumbling, [start_of(group)], self.next_close()
        while len(starts) < MOST_WAITING and kind.closes(before := kind.start(starts[-1] - 1)) >= first:
            starts.append(before)
        for start in reversed(starts):
            waiting = name(start, key_of(group))
            if waiting in self.states and waiting not in self.closed:
                self.close_as(waiting, self.event.closed_by(kind.closes(start)), now)

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        """The names of the groups of a record that is not late. The groups may not be open yet."""
        return (name(self.tumbling.start(time), key),)

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        """Add the record to its window, or treat it as late. It has already moved the watermark. Returns False if it
        was refused."""
        raise NotImplementedError

    def event_time(self, record: Record, read: Any) -> int:
        """The event time of the record in milliseconds. Raises NoTime."""
        if self.merged is None:
            return self._time(record) if self.rule.time_of is None else self._field(self.rule.time_of(read))
        time_stamp = stamp(record)
        if time_stamp is None or time_stamp.time == NEVER:
            raise NoTime("no-time", f"it has no {TIME}: the agent that re-keys for these windows did not write it")
        self.merged.reading = time_stamp.origin
        return time_stamp.time

    def _field(self, value: Any) -> int:
        return milliseconds(value, self.window.unit, self.window.time or "")

    def _readable(self, record: Record) -> int | None:
        """The time of a record for which `where` is false; None if it cannot be read."""
        try:
            return self._time(record)
        except Halt:
            raise
        except Exception:
            return None

    def _ahead(self, time: int, now: float) -> bool:
        return time > latest(self.window, max(now, self.believed))

    def _untimed(self, record: Record, error: NoTime) -> None:
        if self.rule.aggregation.on_missing == "skip":
            self.skip(record)
        else:
            self.refuse(record, "decode", error.reason, str(error))

    def _late(self, record: Record, span: Span) -> None:
        self.counts["late"] += 1
        if self.window.late == "skip":
            self.leave_out(record)
        else:
            behind = (self.event.watermark - span.closes) / 1000
            named = f"{rfc3339(span.start / 1000)} to {rfc3339(span.end / 1000)}"
            text = f"its window {named} closed {spoken_duration(behind)} before the watermark"
            self.refuse(record, "aggregate", "late", text)


def taken_with_care(windows: WindowGroups, record: Record, now: float) -> None:
    windows.take(record, now)
