"""1,000 random schedules of cron, in zones whose clocks change: each time is the one that a naive walk over the minutes
finds."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from sluicegate.streams.contracts.recurring import Recurrence, recurrence

SCHEDULES, TIMES = 1_000, 3
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PLACES = (
    ("UTC", "2025-03-30"),
    ("Europe/Vienna", "2025-03-30"),
    ("Europe/Vienna", "2025-10-26"),
    ("America/New_York", "2025-11-02"),
    ("Australia/Lord_Howe", "2025-04-06"),  # by half an hour
    ("America/Santiago", "2025-09-07"),  # at midnight
    ("Asia/Kolkata", "2025-06-01"),
)


class Cron(NamedTuple):
    """The words of the file, and what they mean: None is each one."""

    text: str
    minutes: set[int] | None
    hours: set[int] | None
    days: set[int] | None
    weekdays: set[str] | None
    zone: str


def a_cron(chance: random.Random, zone: str) -> Cron:
    """One time of each ten days at least, since days are either of the month or of the week."""
    minutes = chance.choice([None, {0}, {30}, {0, 15, 30, 45}, {chance.randrange(60)}])
    hours = chance.choice([None, {2}, {1, 2, 3}, {0}, {chance.randrange(24), chance.randrange(24)}])
    days = chance.choice([None, None, {*chance.sample(range(1, 29), 8)}])
    weekdays = chance.choice([None, None, {*chance.sample(WEEKDAYS, 2)}])
    fields = (minutes, hours, days, None, weekdays)
    words = ("*" if field is None else ",".join(map(str, sorted(field))) for field in fields)
    return Cron(f"{' '.join(words)} {zone}", minutes, hours, days, weekdays, zone)


def takes(cron: Cron, wall: datetime) -> bool:
    """Whether a clock on the wall that shows this is at a time of the schedule."""
    if (cron.minutes is not None and wall.minute not in cron.minutes) or (
        cron.hours is not None and wall.hour not in cron.hours
    ):
        return False
    of_month = cron.days is None or wall.day in cron.days
    of_week = cron.weekdays is None or WEEKDAYS[wall.weekday()] in cron.weekdays
    return of_month or of_week if cron.days is not None and cron.weekdays is not None else of_month and of_week


@cache
def walls(zone: str, begin: datetime) -> list[tuple[datetime, datetime, bool]]:
    """Each minute of forty days: the moment, what the wall shows, and whether it showed that before."""
    place, shown, made = ZoneInfo(zone), set[datetime](), []
    for number in range(40 * 24 * 60):
        at = begin + number * MINUTE
        wall = at.astimezone(place).replace(tzinfo=None)
        made.append((at, wall, wall in shown))
        shown.add(wall)
    return made


def moments(cron: Cron, begin: datetime) -> Iterator[datetime]:
    """All moments of the schedule: the wall shows its time. A time that the clock leaves out comes as long after the
    change as it would without one. An hour that is written comes once."""
    before: datetime | None = None
    for at, wall, again in walls(cron.zone, begin):
        if before is not None and wall - before > MINUTE:
            left_out = [before + number * MINUTE for number in range(1, (wall - before) // MINUTE)]
            yield from (at + (letter - left_out[0]) for letter in left_out if takes(cron, letter))
        if takes(cron, wall) and not (again and cron.hours is not None):
            yield at
        before = wall


def differs(seed: int) -> bool:
    chance = random.Random(f"cron/{seed}")
    zone, day = chance.choice(PLACES)
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - 4 * DAY
    cron = a_cron(chance, zone)
    now = begin + timedelta(seconds=chance.randrange(8 * 86_400))
    wanted = sorted({moment for moment in moments(cron, begin) if moment > now})[:TIMES]
    made, at, times = recurrence(cron.text), now, list[datetime]()
    for _ in range(TIMES):
        at = made.following(at, at)
        times.append(at)
    return times != wanted


def test_the_times_are_those_of_a_walk_over_the_minutes() -> None:
    assert [seed for seed in range(SCHEDULES) if differs(seed)] == []


def test_a_schedule_in_another_zone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Recurrence._times
    monkeypatch.setattr(Recurrence, "_times", lambda self, day: times(self._replace(zone=UTC), day))
    assert any(map(differs, range(30)))


def test_an_hour_that_comes_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Recurrence._times
    monkeypatch.setattr(Recurrence, "_times", lambda self, day: times(self._replace(each_hour=True), day))
    assert any(map(differs, range(SCHEDULES)))
