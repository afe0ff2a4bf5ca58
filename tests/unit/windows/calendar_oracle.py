"""What windows of a calendar must decide: zoneinfo says what the clock on the wall shows, every quarter of an hour."""

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from tests.unit.windows.oracle import Oracle

QUARTER = 900  # seconds: the clocks of the zones here change at multiples of it
REACH = {"day": 40, "week": 150, "month": 400, "year": 900}  # days around the middle of a log
SUNDAY, MONDAY = 6, 0


def first(day: date, unit: str, week_starts: int) -> date:
    """The first day of the unit that has this day."""
    while not (
        unit == "day"
        or (unit == "week" and day.weekday() == week_starts)
        or (unit == "month" and day.day == 1)
        or (unit == "year" and (day.month, day.day) == (1, 1))
    ):
        day -= timedelta(days=1)
    return day


@cache
def boundaries(zone: str, unit: str, week_starts: int, middle: int) -> list[int]:
    """The milliseconds at which a wall clock shows another unit for the first time."""
    days, place, latest = REACH[unit], ZoneInfo(zone), date.min
    ints, begin = [], middle // QUARTER * QUARTER
    for at in range(begin - days * 86_400, begin + days * 86_400, QUARTER):
        shown = datetime.fromtimestamp(at, UTC).astimezone(place).date()
        if shown > latest:
            if first(shown, unit, week_starts) > latest:
                ints.append(1_000 * at)
            latest = shown
    return ints[1:]


@dataclass
class CalendarOracle(Oracle):
    """`edges` are the boundaries of all windows of the log."""

    edges: list[int] = field(default_factory=list)

    def start_of(self, time: int) -> int:
        return self.edges[bisect_right(self.edges, time) - 1]

    def end_of(self, start: int) -> int:
        return self.edges[self.edges.index(start) + 1]


def lengths(zone: str, middle: int) -> set[float]:
    """How many hours the days have."""
    return {(end - begin) / 3_600_000 for begin, end in pairwise(boundaries(zone, "day", MONDAY, middle))}
