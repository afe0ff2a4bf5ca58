"""The event time of a record, in whole milliseconds since 1970."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sluicegate.schemas.json import walk
from sluicegate.streams.agent import Window
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.expressions.times import EPOCH, PER_SECOND, time_of

LATEST = 253_402_300_799_999  # the end of the year 9999
NO_TIMESTAMP = 0  # the timestamp type in Kafka's clients for a record without a timestamp
APART = 60.0  # seconds by which the clocks of two owners may differ
_MILLISECOND = timedelta(milliseconds=1)

TimeOf = Callable[[Record], int]


def source(window: Window) -> str:
    """The source of event times, as text. Watermarks of different sources cannot be compared."""
    return "timestamp" if window.time is None else f"{window.unit} {window.time}"


def latest(window: Window, now: float) -> float:
    """The latest time that is accepted at the owner's time `now`. Over a re-keyed topic the re-keying agent has already
    checked the time by its own clock, but other programs may write to the topic."""
    return 1000 * (now + window.max_ahead + (APART if window.origins else 0.0))


class NoTime(Exception):
    """The event time of a record cannot be read. `reason` is the reason of its dead letter: bad-time or no-time."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def reader(window: Window, decode: Callable[[bytes], Any]) -> TimeOf:
    """A function that reads a record's time. It raises NoTime, and the errors of decoders."""
    if window.time is None:
        return timestamp
    path, unit = window.time, window.unit
    return lambda record: milliseconds(walk(decode(record.value() or b""), path), unit, path)


def timestamp(record: Record) -> int:
    """Kafka's timestamp of the record. Raises NoTime."""
    kind, time = record.timestamp()
    if kind == NO_TIMESTAMP or time < 0:
        raise NoTime("no-time", "the record has no timestamp; name a field with `time:`")
    return bounded(time, "the timestamp")


def milliseconds(value: Any, unit: str, path: str) -> int:
    """A field's value as a time, rounded down to whole milliseconds. Raises NoTime."""
    if value is None:
        raise NoTime("bad-time", f"the field {path} is missing or null")
    if unit == "rfc3339":
        if not isinstance(value, str):
            raise NoTime("bad-time", f"the field {path} is not RFC 3339 text; a number needs `unit:`")
        try:
            return bounded((time_of(value) - EPOCH) // _MILLISECOND, f"the field {path}")
        except EvaluationError as error:
            raise NoTime("bad-time", f"the field {path}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise NoTime("bad-time", f"the field {path} is not a number of `unit: {unit}`")
    if isinstance(value, int):
        return bounded(value * 1_000 // PER_SECOND[unit], f"the field {path}")
    try:
        exact = Decimal(str(value)) * 1_000 / PER_SECOND[unit]
        return bounded(int(exact // 1), f"the field {path}")
    except ArithmeticError:
        raise NoTime("bad-time", f"the field {path} is not a finite number") from None
    except ValueError:
        raise NoTime("bad-time", f"the field {path} is not a finite number") from None


def bounded(time: int, where: str) -> int:
    if not 0 <= time <= LATEST:
        raise NoTime("bad-time", f"{where} is outside of the years 1970 to 9999")
    return time
