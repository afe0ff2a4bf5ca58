"""Recurring times: a duration such as `15m`, or the five fields of cron and a time zone, such as `0 2 * * mon-fri
Europe/Vienna`. Without a zone it is UTC.

The fields are minute, hour, day of the month, month and day of the week: `*`, numbers, names, ranges, lists and steps.
If both days are restricted, one match is enough, as in cron. Where clocks are set forward, a skipped time is the same
time after the change. Where they are set back, an explicit hour occurs once, and `*` in its place twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.units import duration
from sluicegate.streams.zones import zone_of

LONGEST = 200  # characters
SHORTEST = 1.0  # seconds
DAYS = 9 * 366  # 29 February comes at least once in eight years
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
HINT = "write a duration such as 15m, or five fields of cron and a zone, such as 0 2 * * mon-fri Europe/Vienna"


class CronField(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


FIELDS = (
    CronField("minute", 0, 59),
    CronField("hour", 0, 23),
    CronField("day of the month", 1, 31),
    CronField("month", 1, 12, MONTHS),
    CronField("day of the week", 0, 7, WEEKDAYS),
)


class Recurrence(NamedTuple):
    """Either every `seconds`, or at the times of a cron expression in `zone`."""

    seconds: float = 0.0
    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    each_hour: bool = False
    either_day: bool = False
    zone: tzinfo = UTC

    def following(self, due: datetime, now: datetime) -> datetime:
        """The first time after the time that was `due` and not before `now`. Raises ValueError if there is none."""
        if self.seconds:
            period = timedelta(seconds=self.seconds)
            return due + max(1, -((due - now) // period)) * period
        return self.next(max(due, now - timedelta(microseconds=1)))

    def next(self, after: datetime) -> datetime:
        """The first time of the cron expression after this time. Raises ValueError if there is none."""
        day = after.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        day -= timedelta(days=1)  # a time that the clocks skip may belong to the next day
        for _ in range(DAYS):
            if self._takes(day):
                later = [time for time in self._times(day) if time > after]
                if later:
                    return min(later)
            day += timedelta(days=1)
        raise ValueError("no such time comes in the next years")

    def _takes(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week

    def _times(self, day: datetime) -> Iterator[datetime]:
        for hour in self.hours:
            for minute in self.minutes:
                time = day.replace(hour=hour, minute=minute, tzinfo=self.zone)
                yield time.astimezone(UTC)
                if self.each_hour:
                    yield time.replace(fold=1).astimezone(UTC)


@lru_cache(256)
def recurrence(text: str) -> Recurrence:
    """Parse the text. Raises ValueError."""
    parts = text.split() if len(text) <= LONGEST else []
    if len(parts) == 1:
        seconds = duration(text)
        if seconds is None or seconds < SHORTEST:
            raise ValueError(f"{text!r} is not a time of a second or more; {HINT}")
        return Recurrence(seconds)
    if len(parts) not in (5, 6):
        raise ValueError(f"{text[:LONGEST]!r} recurs at no time; {HINT}")
    minutes, hours, days, months, weekdays = map(_values, FIELDS, parts)
    try:
        zone: tzinfo = zone_of(parts[5]) if len(parts) == 6 else UTC
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    parsed = Recurrence(
        0.0,
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        parts[1].startswith("*"),
        not parts[2].startswith("*") and not parts[4].startswith("*"),
        zone,
    )
    parsed.next(datetime(2024, 1, 1, tzinfo=UTC))
    return parsed


def _values(field: CronField, text: str) -> set[int]:
    """The numbers of one field. Raises ValueError."""
    values = set[int]()
    for part in text.lower().split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            least, most = field.least, field.most
        else:
            least = _number(field, first)
            most = _number(field, last) if dash else field.most if slash else least
        if least > most or (slash and not (step.isascii() and step.isdigit() and 0 < int(step) <= field.most)):
            raise ValueError(f"{part} is not a valid {field.name}; {HINT}")
        values.update(range(least, most + 1, int(step) if slash else 1))
    return values


def _number(field: CronField, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + (1 if field.names is MONTHS else 0)
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and field.least <= int(text) <= field.most):
        raise ValueError(f"{text or 'nothing'} is not a valid {field.name} ({field.least} to {field.most}); {HINT}")
    return int(text)
