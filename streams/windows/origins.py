"""The groups of an agent that re-keys records for event time. It has no groups, only the clock of each input partition
(an origin) and its time marks.

Only marks become due. A mark passes through the outbox after the records that it covers, so it never overtakes a
record.
"""

from collections.abc import Iterator
from math import inf

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.durable.entry import ClockState, OriginState
from sluicegate.streams.aggregation.events import Decided, Fire, TimeMark
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Header, Record
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.marks import BEHIND, of_record
from sluicegate.streams.windows.merged import AT_END, IDLE, beat
from sluicegate.streams.windows.times import NoTime, reader, source

LEAST = 1.0  # seconds between two marks
FIRST = "", -1  # the state and time before the first mark of a claim


class OriginGroups(Groups):
    """The clock and the time marks of one input partition. The first mark of a claim has the state `behind`, because
    the statements of the claim before are no longer valid. After it, a mark is written at most once in LEAST seconds
    when the time or the state changed, and once per beat at the end of the partition. A mark with the state idle, and a
    repeated mark, need an answer of a broker that is recent enough: `_asked` is the owner's time at which a broker was
    asked for the end. `event` is the clock of the partition."""

    __slots__ = (
        "_answers",
        "_asked",
        "_at_end",
        "_beat",
        "_last_mark",
        "_mark",
        "_marked_at",
        "_now",
        "_offset",
        "_time",
        "_was_at_end",
        "event",
        "window",
    )

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, notes)
        self.window, self._time = window, reader(window, rule.reader.message)
        self.event = EventClock(source(window))
        self._beat = beat(window.idle)
        self._now, self._marked_at, self._offset = 0.0, -inf, -1
        self._asked = -inf
        self._last_mark = FIRST  # the state and the time of the last mark
        self._at_end = self._was_at_end = self._answers = False
        self._mark: TimeMark | None = None  # the mark that waits for its commit

    def begin(self, high: int, now: float) -> None:
        """As in ClosingWindows. A partition that was never read counts as silent from now on."""
        self._now = now
        if not self.event.seen:
            self.event.saw(now)

    def stands(self, offset: int, at_end: bool, now: float, asked: float) -> None:
        """As in ClosingWindows. The last answer stays valid until the end is reached again."""
        self._offset, self._now = offset, now
        if at_end:
            self._at_end = self._was_at_end = True
            self._asked = asked
        self._answers = at_end

    def asks(self) -> bool:
        """As in ClosingWindows, for a mark that needs the answer of a broker."""
        return self._answers and self._now >= self._end_due() > self._asked

    def set_back(self, now: float) -> None:
        """As in Groups, for the times from which silence and the interval of marks are measured."""
        self._now, self._marked_at, self._asked = now, min(self._marked_at, now), -inf
        if self.event.seen > now:
            self.event.saw(now)

    def saw(self, now: float) -> None:
        """Note that records were taken. A mark that waits for its commit is written after them and covers them."""
        self._now, self._at_end = now, False
        self.event.saw(now)

    def stamped(self, record: Record) -> list[Header] | None:
        """The headers of the re-keyed record. None: the record was refused, because its time cannot be used. Raises the
        errors of decoders."""
        try:
            time = self._time(record)
        except NoTime as error:
            if self.rule.aggregation.on_missing == "skip":
                self.skip(record)
            else:
                self.refuse(record, "decode", error.reason, str(error))
            return None
        if self._ahead(time):
            text = f"its time {rfc3339(time / 1000)} is more than max_ahead after the worker's clock"
            self.refuse(record, "aggregate", "time-ahead", text)
            return None
        self.event.read(time)
        self._offset = record.offset() + 1
        return of_record(record, time)

    def passed(self, record: Record) -> None:
        """Move the clock by a record for which `where` is false, if its time can be read."""
        try:
            time = self._time(record)
        except Exception:
            return
        if not self._ahead(time):
            self.event.read(time)

    def _ahead(self, time: int) -> bool:
        return time > (self._now + self.window.max_ahead) * 1000

    def _state(self) -> str:
        if self._last_mark == FIRST:
            return BEHIND
        if self._at_end and self._asked >= self._idle_from():
            return IDLE
        return AT_END if self._was_at_end else BEHIND

    def _idle_from(self) -> float:
        """The owner's time from which the partition is idle, if no record comes."""
        return inf if self.window.idle is None else self.event.seen + self.window.idle

    def next_due(self) -> float:
        if self._mark is not None:
            return inf
        due = self._end_due()
        return min(self._change_due(), due if self._answers or self._asked >= due else inf)

    def _change_due(self) -> float:
        """The owner's time at which a mark with a new state or time is due; infinity if nothing changed."""
        return inf if (self._state(), self.event.watermark) == self._last_mark else self._marked_at + LEAST

    def _end_due(self) -> float:
        """The owner's time at which a mark needs the answer of a broker: to repeat a state, or to report silence."""
        if not self._at_end:
            return inf
        due = self._marked_at + self._beat
        return max(self._marked_at + LEAST, due if self._state() == IDLE else min(due, self._idle_from()))

    def expire(self, now: float, most: int) -> int:
        self._now = now
        if self._mark is not None or (self._change_due() > now and self._asked < self._end_due()):
            return 0
        self._mark = TimeMark()
        self.events.append(self._mark)  # type: ignore[arg-type]  # other kinds of groups emit no marks
        return 1

    def drain(self) -> Iterator[Fire | Decided]:
        """As in Groups, for a commit. The mark covers all records of the commit and is written after them."""
        if (mark := self._mark) is not None:
            mark.state, mark.time = self._last_mark = self._state(), self.event.watermark
            mark.offset, mark.marked_at = self._offset, round(1000 * (self._asked if mark.state == IDLE else self._now))
            self._marked_at, self._mark, self._was_at_end = self._now, None, self._at_end
        return super().drain()

    def clock(self, whole: bool) -> ClockState | None:
        return self.event.unsaved_state(whole)

    def restore_clock(self, clock: ClockState, origins: dict[str, OriginState]) -> None:
        self.event.restore(clock)
