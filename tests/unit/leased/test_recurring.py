"""Times that recur: durations, and cron in a time zone."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from sluicegate.streams.contracts.headers import EVERY
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.recurring import recurrence


def times(every: str, after: str, many: int) -> list[str]:
    made, at, moments = recurrence(every), datetime.fromisoformat(after), list[str]()
    for _ in range(many):
        at = made.following(at, at)
        moments.append(at.astimezone(made.zone).isoformat(timespec="minutes"))
    return moments


CRON = [
    ("0 2 * * *", "2026-11-28T13:00+00:00", ["2026-11-29T02:00+00:00", "2026-11-30T02:00+00:00"]),
    ("*/20 8-9 * * mon-fri", "2026-11-27T09:30+00:00", ["2026-11-27T09:40+00:00", "2026-11-30T08:00+00:00"]),
    ("5,10 0 1 jan,JUL *", "2026-01-01T00:05+00:00", ["2026-01-01T00:10+00:00", "2026-07-01T00:05+00:00"]),
    ("0 0 29 2 *", "2026-03-01T00:00+00:00", ["2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"]),
    ("0 0 13 * fri", "2026-03-29T00:00+00:00", ["2026-04-03T00:00+00:00", "2026-04-10T00:00+00:00"]),  # either day
    ("0 0 * * 7", "2026-11-28T00:00+00:00", ["2026-11-29T00:00+00:00", "2026-12-06T00:00+00:00"]),  # 7 is Sunday, too
    ("0 0 */10 * *", "2026-11-28T00:00+00:00", ["2026-12-01T00:00+00:00", "2026-12-11T00:00+00:00"]),
]


@pytest.mark.parametrize(("every", "after", "wanted"), CRON)
def test_cron(every: str, after: str, wanted: list[str]) -> None:
    assert times(every, after, len(wanted)) == wanted


def test_a_time_that_the_clocks_leave_out_is_after_the_change() -> None:
    assert times("30 2 * * * Europe/Vienna", "2026-03-28T03:00+01:00", 2) == [
        "2026-03-29T03:30+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_an_hour_that_is_written_comes_once_where_the_clocks_go_back_and_each_hour_twice() -> None:
    assert times("30 2 * * * Europe/Vienna", "2026-10-24T23:00+02:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    assert times("30 * * * * Europe/Vienna", "2026-10-25T01:30+02:00", 3) == [
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:30+01:00",
    ]


def test_a_duration_keeps_the_beat_of_the_first_time_and_leaves_out_what_passed() -> None:
    due, quarter = datetime(2026, 1, 1, tzinfo=UTC), recurrence("15m")
    for passed, wanted in ((0, 15), (15, 15), (16, 30), (300, 300), (301, 315)):
        assert quarter.following(due, due + timedelta(minutes=passed)) == due + timedelta(minutes=wanted)


def test_cron_leaves_out_what_passed_and_a_time_that_is_now_counts() -> None:
    due, nightly = datetime(2026, 1, 1, 2, tzinfo=UTC), recurrence("0 2 * * *")
    assert nightly.following(due, due + timedelta(days=3)) == due + timedelta(days=3)
    assert nightly.following(due, due + timedelta(days=3, seconds=1)) == due + timedelta(days=4)


WRONG = [
    *(
        "",
        "x",
        "0.5s",
        "0s",
        "500ms",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
    ),
    *("* * * * 8", "*/0 * * * *", "5-1 * * * *", "1,, * * * *", "-1 * * * *", "1-2-3 * * * *", "* * * * monday"),
    *("0 0 30 2 *", "* * * * * Mars/Phobos", "* * * * * ../UTC", "٣ * * * *", "* " * 200),
]


@pytest.mark.parametrize("text", WRONG)
def test_what_recurs_at_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        recurrence(text)


def test_a_timeout_keeps_it_in_a_header() -> None:
    made = Timeout(uuid4(), "t", datetime.now(UTC), headers=[("a", b"b")], every="15m")
    assert made.headers == (("a", b"b"), (EVERY, b"15m"))
    assert Timeout(made.id, "t", made.due_at, headers=made.headers) == made
    with pytest.raises(ValueError, match="other times"):
        Timeout(made.id, "t", made.due_at, headers=made.headers, every="1h")
