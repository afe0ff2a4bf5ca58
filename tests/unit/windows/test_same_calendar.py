"""Windows of a calendar are those of a naive oracle over 1,000 random logs around changes of clocks, cut anywhere, with
crashes."""

import random
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.windowers import CALENDAR
from sluicegate.streams.windows import boundaries as product
from sluicegate.streams.windows.boundaries import CalendarTumbling
from sluicegate.streams.windows.calendar_days import CalendarDays
from sluicegate.streams.windows.times import LATEST
from tests.unit.windows.calendar_oracle import MONDAY, SUNDAY, CalendarOracle, boundaries, lengths
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_windows import played
from tests.unit.windows.turning import Turned, judged

pytestmark = pytest.mark.usefixtures("small")
LOGS = 1_000
HOUR, DAY = 3_600, 86_400
KEYS = (b"a", b"b", b"")


class Place(NamedTuple):
    """A time zone, moments around which its clocks change, and how many hours its days have there."""

    zone: str
    moments: tuple[str, ...]
    hours: set[float]


PLACES = (
    Place("Europe/Vienna", ("2025-03-30T01:00:00Z", "2025-10-26T01:00:00Z"), {23, 24, 25}),
    Place("America/New_York", ("2025-03-09T07:00:00Z", "2025-11-02T06:00:00Z"), {23, 24, 25}),
    Place("Australia/Lord_Howe", ("2025-04-05T15:00:00Z", "2025-10-04T15:30:00Z"), {23.5, 24, 24.5}),
    Place("Asia/Kolkata", ("2025-06-01T00:00:00Z",), {24}),
    Place("Pacific/Apia", ("2011-12-30T10:00:00Z",), {24}),
    Place("Africa/Casablanca", ("2025-02-23T02:00:00Z", "2025-04-06T02:00:00Z"), {23, 24, 25}),
    Place("Asia/Beirut", ("2019-03-30T22:00:00Z", "2019-10-26T21:00:00Z"), {23, 24, 25}),  # at midnight
    Place("America/St_Johns", ("2010-03-14T03:31:00Z", "2010-11-07T02:31:00Z"), {23, 24, 25}),  # a minute past it
    Place("UTC", ("2025-01-01T00:00:00Z",), {24}),
)
PACE = {"day": 1, "week": 4, "month": 12}


class Log(NamedTuple):
    window: Window
    edges: list[int]
    steps: list[Step]
    count: int


def middle(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())


def a_log(seed: int) -> Log:
    """Records are up to two windows out of order. Many times are at the edge of a window."""
    chance = random.Random(f"calendar/{seed}")
    place, unit = chance.choice(PLACES), chance.choice(["day", "day", "day", "week", "month"])
    at, week = middle(chance.choice(place.moments)), chance.choice([("monday", MONDAY), ("sunday", SUNDAY)])
    edges, pace = boundaries(place.zone, unit, week[1], at), PACE[unit]
    grace, idle = chance.choice([0, 0, HOUR, 30 * HOUR]), chance.choice([2 * HOUR, 20 * HOUR, 10**9])
    window = Window(
        CALENDAR[unit],
        grace=grace,
        idle=idle,
        at_most=CALENDAR[unit] + grace + chance.choice([HOUR, 900 * DAY]),
        max_ahead=2 * HOUR,
        kind="calendar",
        calendar=unit,  # type: ignore[arg-type]
        zone=place.zone,
        week_starts=week[0] if unit == "week" else "",  # type: ignore[arg-type]
    )
    return Log(window, edges, a_log_of(chance, at - 3 * pace * DAY, pace, edges), chance.choice([3, 10_000]))


def a_log_of(chance: random.Random, begin: int, pace: int, edges: list[int]) -> list[Step]:
    now, steps = begin, []
    for _ in range(chance.randint(1, 60)):
        now += pace * chance.choice([0, 60, HOUR // 2, 2 * HOUR, 7 * HOUR])
        if chance.random() < 0.15:
            steps.append(Step(now, None))
            continue
        time = 1_000 * (now - pace * chance.randint(0, chance.choice([0, HOUR, 12 * HOUR, 48 * HOUR])))
        if chance.random() < 0.4:
            near = min(edges, key=lambda edge: abs(edge - time))
            time = min(near + chance.choice([-900_000, -1, 0, 0, 1, 900_000]), 1_000 * (now + 2 * HOUR))
        steps.append(Step(now, chance.choice(KEYS), time, chance.randint(-5, 5), chance.random() < 0.1))
    return [*steps, Step(now + 1_000 * DAY, None)]


def differs(seed: int) -> bool:
    window, edges, steps, count = a_log(seed)
    assert window.idle is not None
    assert window.at_most is not None
    grace = round(1_000 * window.grace)
    oracle = CalendarOracle(0, 0, grace, window.idle, window.at_most, window.max_ahead, count, edges=edges)
    judged(oracle, steps)
    partition = Turned(window, count=None if count > 100 else count)
    played(partition, steps, random.Random(seed))
    same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
    return not same or bool(partition.groups.states)


def differences(logs: int) -> int:
    """In how many logs the windows, or the records that were refused, differ from those of the oracle."""
    return sum(differs(seed) for seed in range(logs))


def test_any_cut_and_any_crash_give_the_windows_of_the_oracle() -> None:
    assert differences(LOGS) == 0


def test_a_few_logs() -> None:
    assert differences(40) == 0


def test_days_of_24_hours_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    around = CalendarDays.around

    def of_24_hours(self: CalendarDays, at: int) -> tuple[int, int]:
        begin, _ = around(self, at)
        return begin, begin + 1_000 * DAY

    monkeypatch.setattr(CalendarDays, "around", of_24_hours)
    assert differences(60)


def test_midnight_by_the_offset_of_the_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record behind the change of clocks is in a window that begins an hour earlier or later."""

    def by_offset(self: CalendarDays, at: int) -> tuple[int, int]:
        local = datetime.fromtimestamp(at // 1_000, self._zone)
        begin = 1_000 * (at // 1_000 - local.hour * HOUR - local.minute * 60 - local.second)
        return begin, begin + 1_000 * DAY

    monkeypatch.setattr(CalendarDays, "around", by_offset)
    assert differences(60)


def test_an_end_that_is_not_looked_up_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CalendarTumbling, "next", lambda self, start: self._end)
    assert differences(60)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.zone)
def test_the_logs_lie_where_clocks_change(place: Place) -> None:
    day_lengths = {hours for moment in place.moments for hours in lengths(place.zone, middle(moment))}
    assert day_lengths == place.hours


@pytest.mark.parametrize("unit", CALENDAR)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.zone)
def test_boundaries_are_what_a_wall_clock_shows(place: Place, unit: str) -> None:
    days = CalendarDays(unit, ZoneInfo(place.zone), "sunday")
    for moment in place.moments:
        edges = boundaries(place.zone, unit, SUNDAY, middle(moment))
        for begin, end in pairwise(edges):
            assert {days.around(at) for at in (begin, (begin + end) // 2, end - 1)} == {(begin, end)}


@pytest.mark.parametrize("unit", CALENDAR)
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Vienna", "Africa/Monrovia"])
def test_the_first_and_the_last_times_have_windows(zone: str, unit: str) -> None:
    days = CalendarDays(unit, ZoneInfo(zone), "monday")
    for at in (0, 1, 63_000_000_000, 249_999_999_999_999, 250_000_000_000_000, LATEST):
        begin, end = days.around(at)
        assert begin <= at < end
        assert days.around(begin) == (begin, end)
        assert days.around(end)[0] == end


def test_a_zone_that_the_machine_does_not_know_is_an_error_with_a_hint() -> None:
    window = Window(CALENDAR["day"], kind="calendar", calendar="day", zone="Nowhere")
    with pytest.raises(ConfigurationError, match=r'not a time zone that this machine knows; .*pip install "sluicegate'):
        product.tumbling(window)


@pytest.fixture
def updated(monkeypatch: pytest.MonkeyPatch) -> list[ZoneInfo]:
    """What is in it is the zone of all windows from now on: the data of the zone was updated."""
    zones = [ZoneInfo("Europe/Vienna")]
    monkeypatch.setattr(product, "zone_of", lambda name: zones[-1])
    return zones


def test_an_open_window_follows_an_update_of_the_zone_data(updated: list[ZoneInfo]) -> None:
    """Vienna gives up the change to winter time on 2025-10-26: its last day of 25 hours has 24."""
    window = Window(CALENDAR["day"], at_most=None, idle=None, kind="calendar", calendar="day", zone="Europe/Vienna")
    begin, winter = middle("2025-10-26T00:00:00+02:00"), middle("2025-10-27T00:00:00+01:00")
    partition = Turned(window)
    partition.take(0, [Step(winter, b"a", 1_000 * begin, 1)])
    partition.commit(winter, 1)
    updated.append(ZoneInfo("Etc/GMT-2"))
    partition.restore()
    later = [Step(winter, b"a", 1_000 * (winter - HOUR) - 1, 2), Step(winter, b"a", 1_000 * (winter - HOUR), 4)]
    partition.take(1, later)
    partition.commit(winter, 3)
    assert [(result.start, result.end, result.total) for result in partition.results] == [
        (1_000 * begin, 1_000 * (winter - HOUR), 3)
    ]


def test_an_open_window_whose_start_moved_ends_with_the_next_one(updated: list[ZoneInfo]) -> None:
    """Its records have a result of their own, and each record counts once."""
    window = Window(CALENDAR["day"], at_most=None, idle=None, kind="calendar", calendar="day", zone="Europe/Vienna")
    begin = middle("2025-07-01T00:00:00+02:00")
    partition = Turned(window)
    partition.take(0, [Step(begin, b"a", 1_000 * begin, 1)])
    partition.commit(begin, 1)
    updated.append(ZoneInfo("Etc/GMT-1"))
    partition.restore()
    partition.take(1, [Step(begin + 2 * HOUR, b"a", 1_000 * (begin + 2 * HOUR), 2)])
    partition.take(2, [Step(begin + 30 * HOUR, b"b", 1_000 * (begin + 30 * HOUR), 0)])
    partition.commit(begin + 30 * HOUR, 3)
    moved = begin + HOUR
    assert [(result.start, result.end, result.total) for result in partition.results] == [
        (1_000 * begin, 1_000 * moved, 1),
        (1_000 * moved, 1_000 * (moved + DAY), 2),
    ]
