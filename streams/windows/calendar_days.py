"""The days, weeks, months and years of a time zone.

Each begins with the first moment of its first day. This is midnight. If clocks are set back across midnight, it is the
earlier of the two midnights. If clocks are set forward across midnight, it is the moment of the change. java.time's
`atStartOfDay` gives the same. A day that a zone skipped has no duration.
"""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from sluicegate.streams.expressions.times import EPOCH
from sluicegate.streams.windowers import WEEKDAYS

_SECOND = timedelta(seconds=1)
_LONGEST = {"day": 1, "week": 7, "month": 31, "year": 366}
"""A number of days that, added to the first day of a unit, always gives a day of the next unit."""
_REPEATS = 146_097 * 86_400_000
"""The period of the calendar and of zone rules: 400 years, in milliseconds."""
_NEAR = 250_000_000_000_000
"""From this time on, in the year 9892, the lookup uses the time 400 years earlier: Python's dates end with the year
9999."""
KEPT = 1_024
"""The number of cached boundaries."""


class CalendarDays:
    """Days are numbers, as in `date.toordinal`, and times are milliseconds since 1970."""

    __slots__ = ("_first", "_longest", "_midnight", "_zone")

    def __init__(self, unit: str, zone: tzinfo, week_starts: str = "") -> None:
        self._zone, self._longest = zone, _LONGEST[unit]
        self._first = _first_of(unit, week_starts)
        self._midnight = lru_cache(KEPT)(lambda day: midnight(day, zone))

    def around(self, at: int) -> tuple[int, int]:
        """The start and the end of the unit that holds this time."""
        later = _REPEATS if at >= _NEAR else 0
        begin, end = self._around(at - later)
        return begin + later, end + later

    def _around(self, at: int) -> tuple[int, int]:
        day = _local(at // 1_000, self._zone).toordinal()
        first = self._first(day)
        begin, end = self._midnight(first), self._midnight(first := self._first(first + self._longest))
        while end <= at:  # clocks were set back across midnight: the day before comes again
            begin, end = end, self._midnight(first := self._first(first + self._longest))
        return begin, end


def midnight(day: int, zone: tzinfo) -> int:
    """The first moment of the day."""
    local = datetime.combine(date.fromordinal(day), time(), zone)
    at = (local - EPOCH) // _SECOND
    if _local(at, zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        at = _change(at, (local.replace(fold=1) - EPOCH) // _SECOND, zone)
    return 1_000 * at


def _change(late: int, early: int, zone: tzinfo) -> int:
    """The moment, in seconds, at which clocks are set forward. It is after `early` and not after `late`."""
    before = _local(early, zone).utcoffset()
    while late - early > 1:
        middle = (early + late) // 2
        same = _local(middle, zone).utcoffset() == before
        early, late = (middle, late) if same else (early, middle)
    return late


def _local(at: int, zone: tzinfo) -> datetime:
    return (EPOCH + timedelta(seconds=at)).astimezone(zone)


def _first_of(unit: str, week_starts: str) -> Callable[[int], int]:
    """The function that returns the first day of the unit that contains a day."""
    if unit == "week":
        begin = WEEKDAYS.index(week_starts) + 1  # day 1 was a Monday
        return lambda day: day - (day - begin) % 7
    if unit == "month":
        return lambda day: date.fromordinal(day).replace(day=1).toordinal()
    if unit == "year":
        return lambda day: date.fromordinal(day).replace(month=1, day=1).toordinal()
    return lambda day: day
