"""Which time a record has, and what is done with records that have none."""

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.aggregation.results import document
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.times import LATEST, NoTime, milliseconds, reader
from sluicegate.streams.windows.tumbling import Tumbling, key_of, name, start_of
from tests.unit.windows.turning import open_windows, record


@pytest.mark.parametrize(
    ("value", "unit", "time"),
    [
        (1.001, "s", 1001),
        (1_700_000_000, "s", 1_700_000_000_000),
        (1_700_000_000_123, "ms", 1_700_000_000_123),
        (1.9, "ms", 1),
        (1_999, "us", 1),
        (LATEST, "ms", LATEST),
        ("1970-01-01T00:00:01.0019Z", "rfc3339", 1001),
        ("2026-11-21T08:40:00+01:00", "rfc3339", 1_795_246_800_000),
    ],
)
def test_a_time_is_whole_milliseconds_rounded_down(value: object, unit: str, time: int) -> None:
    assert milliseconds(value, unit, "at") == time


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (None, "rfc3339"),
        (5, "rfc3339"),
        ("yesterday", "rfc3339"),
        ("1969-12-31T23:59:59Z", "rfc3339"),
        (True, "ms"),
        ("5", "ms"),
        (-1, "ms"),
        (LATEST + 1, "ms"),
        (1e300, "s"),
        (float("inf"), "s"),
        (float("nan"), "s"),
    ],
)
def test_any_other_value_is_a_bad_time(value: object, unit: str) -> None:
    with pytest.raises(NoTime) as refused:
        milliseconds(value, unit, "at")
    assert refused.value.reason == "bad-time"


@pytest.mark.parametrize("unit", ["ms", "rfc3339"])
@pytest.mark.parametrize("document", [b"{}", b'{"at":null}'])
def test_a_dead_letter_says_that_the_time_is_missing(unit: str, document: bytes) -> None:
    with pytest.raises(NoTime, match=r"^the field at is missing or null$"):
        reader(Window(60.0, time="at", unit=unit), codec("json").decode)(LogRecord("in", 0, 0, b"k", document))


def test_a_dead_letter_of_a_very_late_record_has_the_delay_in_units() -> None:
    groups = open_windows(Window(60.0))
    groups.accept([record(0, b"k", 1_577_836_860_000), record(1, b"k", 0)], 1_577_836_860.0)
    [late] = [event.error for event in groups.events if isinstance(event, Refused)]
    assert late.endswith("closed 18262 d before the watermark")


def test_the_time_may_be_a_field_inside_an_object() -> None:
    read = reader(Window(60.0, time="order.placed"), codec("json").decode)
    assert read(LogRecord("in", 0, 0, b"k", b'{"order":{"placed":"1970-01-01T00:00:07Z"}}')) == 7_000


def test_a_record_without_a_timestamp_has_no_time() -> None:
    class Old(LogRecord):
        def timestamp(self) -> tuple[int, int]:
            return (0, -1)

    with pytest.raises(NoTime) as refused:
        reader(Window(60.0), codec("json").decode)(Old("in", 0, 0, b"k", b"{}"))
    assert refused.value.reason == "no-time"


def test_a_record_without_a_time_is_refused_and_moves_nothing() -> None:
    groups = open_windows(Window(60.0, time="at", unit="ms"))
    groups.accept([LogRecord("in", 0, 0, b"k", b'{"amount":1,"at":"soon"}')], 1_000.0)
    assert [(event.reason, event.stage) for event in groups.events if isinstance(event, Refused)] == [
        ("bad-time", "decode")
    ]
    assert groups.event.watermark == -1


def test_a_record_without_a_key_or_ahead_of_the_clock_moves_nothing() -> None:
    groups = open_windows(Window(60.0))
    groups.accept([record(0, None, 5_000), record(1, b"k", 3_600_001)], 0.0)
    assert [event.reason for event in groups.events if isinstance(event, Refused)] == ["no-key", "time-ahead"]
    assert groups.event.watermark == -1


def test_a_late_record_is_a_dead_letter_or_is_counted_only() -> None:
    for late, refused in (("dead-letter", 1), ("skip", 0)):
        groups = open_windows(Window(60.0, grace=5.0, late=late))  # type: ignore[arg-type]
        groups.accept([record(0, b"k", 65_000), record(1, b"k", 59_999)], 100.0)
        texts = [event.error for event in groups.events if isinstance(event, Refused)]
        assert len(texts) == refused
        assert groups.counts["late"] == 1
        assert not texts or texts[0] == (
            "its window 1970-01-01T00:00:00.000Z to 1970-01-01T00:01:00.000Z closed 0 ms before the watermark"
        )


def test_a_result_names_its_window_and_what_closed_it() -> None:
    groups = open_windows(Window(60.0))
    groups.accept([record(0, b"k", 1_000, 3), record(1, b"k", 60_000, 4)], 100.0)
    (fire,) = groups.events
    result = document(fire)  # type: ignore[arg-type]
    assert (result["key"], result["reason"], result["total"]) == ("k", "window", 3)
    assert result["window"] == {
        "start": "1970-01-01T00:00:00.000Z",
        "end": "1970-01-01T00:01:00.000Z",
        "closed_by": "event",
        "revision": 1,
    }


def test_a_window_may_begin_before_1970() -> None:
    day = Tumbling(86_400_000, 21_600_000, 0, 86_400_000)
    start = day.start(0)
    assert start == -64_800_000
    assert (start_of(name(start, b"k")), key_of(name(start, b"k"))) == (start, b"k")


def test_the_clock_of_the_owner_closes_nothing_before_the_backlog_is_read() -> None:
    groups = open_windows(Window(60.0, idle=1.0, at_most=100.0))
    groups.accept([record(0, b"k", 1_000)], 10.0)
    groups.at_end = True
    assert groups.next_due() == float("inf")
    assert groups.expire(1e6, 10) == 0
    groups.caught_up = True
    assert groups.next_due() == 61.0
    groups.end_asked = 60.9
    assert groups.expire(61.0, 10) == 0
    groups.end_asked = 61.0
    assert groups.expire(61.0, 10) == 1


def test_time_in_the_middle_of_a_partition_is_no_silence() -> None:
    groups = open_windows(Window(60.0, idle=1.0, at_most=None))
    groups.accept([record(0, b"k", 1_000)], 10.0)
    groups.caught_up = True
    assert groups.expire(1e6, 10) == 0
    groups.at_end, groups.end_asked = True, 1e6
    assert groups.expire(1e6, 10) == 1
