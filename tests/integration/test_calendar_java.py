"""java.time is asked when each day begins in zones whose clocks change in many ways: ours are the same.

Its zone data is older than that of the system. So the days are those of 1970 to 2022, about which both agree.
"""

import shutil
import subprocess
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sluicegate.streams.windows import calendar_days
from sluicegate.streams.windows.calendar_days import midnight

PROGRAM = Path(__file__).parents[1] / "unit" / "windows" / "calendar_java" / "Midnights.java"
ZONES = (
    "Europe/Vienna",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Asia/Kolkata",
    "Pacific/Apia",  # without 2011-12-30
    "Africa/Casablanca",
    "Asia/Beirut",  # at midnight
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",  # a minute past midnight
    "America/Toronto",
    "Pacific/Kwajalein",
    "Pacific/Kiritimati",
    "Africa/Monrovia",  # 44 min 30 s
    "Antarctica/Casey",
    "UTC",
)
FIRST, LAST = date(1970, 1, 1).toordinal(), date(2022, 12, 31).toordinal()


@pytest.fixture(scope="module")
def answers() -> dict[str, list[int]]:
    """The milliseconds at which the days begin, by zone."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("needs java on the PATH: install a Java 17 runtime")
    text = "".join(f"{zone} 0 {LAST - FIRST}\n" for zone in ZONES)
    command = [java, "-Xmx256m", str(PROGRAM)]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300)
    lines = run.stdout.splitlines()
    return {zone: [1_000 * int(word) for word in line.split()] for zone, line in zip(ZONES, lines, strict=True)}


def differing(zone: str, answer: list[int]) -> list[date]:
    place = ZoneInfo(zone)
    days = enumerate(answer, FIRST)
    return [date.fromordinal(day) for day, begin in days if midnight(day, place) != begin]


@pytest.mark.parametrize("zone", ZONES)
def test_each_day_begins_when_java_says_so(answers: dict[str, list[int]], zone: str) -> None:
    assert len(answers[zone]) > 19_000
    assert differing(zone, answers[zone]) == []


def test_a_change_of_clocks_over_midnight_that_is_not_looked_for_is_found(
    answers: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calendar_days, "_change", lambda late, early, zone: late + 1)
    assert differing("America/Sao_Paulo", answers["America/Sao_Paulo"])
