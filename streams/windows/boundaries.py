"""The boundaries of the windows of an agent: multiples of a duration, or midnights of a calendar."""

from dataclasses import dataclass, field

from sluicegate.streams.agent import Window
from sluicegate.streams.windows.calendar_days import CalendarDays
from sluicegate.streams.windows.tumbling import Span, Tumbling
from sluicegate.streams.zones import zone_of


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


def tumbling(window: Window) -> Tumbling:
    """Raises ConfigurationError for a zone that this machine does not know."""
    seconds = (window.every or window.size, window.offset, window.grace, window.size)
    every, offset, grace, size = (round(1_000 * duration) for duration in seconds)
    if not window.calendar:
        return Tumbling(every, offset, grace, size)
    days = CalendarDays(window.calendar, zone_of(window.zone), window.week_starts)
    return CalendarTumbling(every, offset, grace, size, days)
