"""Tumbling windows with the boundaries of a calendar: the midnights at which its days, weeks, months or years begin."""

from dataclasses import dataclass, field

from sluicegate.streams.windows.calendar_days import CalendarDays
from sluicegate.streams.windows.tumbling import Span, Tumbling


@dataclass(slots=True)
class CalendarTumbling(Tumbling):
    """As Tumbling, without `every`, `offset` and `size`. The last window is cached, so successive times in one window
    need no calendar lookup.

    The name of a group has the start of its window but not the end. So the end of an open window is always the first
    boundary after its start, by the zone data of the process that owns it.
    """

    days: CalendarDays
    _begin: int = field(default=0, init=False)
    _end: int = field(default=0, init=False)

    def start(self, time: int) -> int:
        if not self._begin <= time < self._end:
            self._begin, self._end = self.days.around(time)
        return self._begin

    def next(self, start: int) -> int:
        return self._end if start == self._begin else self.days.around(start)[1]

    def span(self, start: int) -> Span:
        end = self.next(start)
        return Span(start, end, end + self.grace)

    def closes(self, start: int) -> int:
        return self.next(start) + self.grace

    def first_closes(self, start: int) -> int:
        return self.next(start) + self.grace
