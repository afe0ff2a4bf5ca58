"""Times and durations of expressions, to the microsecond. Time zones are offsets: the rules of named ones change."""

import re
from datetime import UTC, datetime, timedelta, timezone

from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.expressions.values import duration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
"""The units of numbers that are times: how many are a second."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|z|[+-]\d\d:\d\d)", re.ASCII)
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|m|s|us|µs|ns)")
_UNITS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "µs": 1}
_ZONE = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
LONGEST_TEXT = 101
"""Characters of a duration."""
SPACES = " \t\n\v\f\r"
"""Characters around the text of a number or of a time that do not count."""


def time_of(text: str) -> datetime:
    """The time of an RFC 3339 text, in UTC. Raises EvaluationError."""
    match = _TIME.fullmatch(text.strip(SPACES))
    if match is None:
        raise EvaluationError("the text is not an RFC 3339 time")
    date, clock, fraction, offset = match.groups()
    try:
        at = datetime.fromisoformat(f"{date}T{clock}.{(fraction or '0')[:6]:0<6}{offset.upper()}")
        return at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise EvaluationError("the text is not an RFC 3339 time") from None


def time_of_seconds(value: int) -> datetime:
    try:
        return EPOCH + timedelta(seconds=value)
    except OverflowError:
        raise EvaluationError("the time is outside of the years 1 to 9999") from None


def seconds(at: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    return (at - EPOCH) // timedelta(seconds=1)


def duration_of(text: str) -> timedelta:
    """The length of a text such as `1h30m` or `-1.5s`. Raises EvaluationError."""
    if len(text) > LONGEST_TEXT:  # before it is read: digits without a unit are tried at each of their places
        raise EvaluationError('the text is not a duration, such as "1h30m"')
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return timedelta()
    total, at = 0, 0
    while match := _PART.match(rest, at):
        number, unit = match.groups()
        total += _microseconds(number, unit)
        at = match.end()
    if at == 0 or at != len(rest):
        raise EvaluationError('the text is not a duration, such as "1h30m"')
    try:
        return duration(sign * timedelta(microseconds=total))
    except OverflowError:
        raise EvaluationError("the duration is longer than 10,000 years") from None


def _microseconds(number: str, unit: str) -> int:
    whole, _, fraction = number.partition(".")
    digits, scale = int((whole or "0") + fraction), int(10 ** len(fraction))
    return digits // (1000 * scale) if unit == "ns" else digits * _UNITS[unit] // scale


def zone(text: str) -> timezone:
    """The zone of `UTC`, or of an offset such as `+01:00`. Raises EvaluationError."""
    if text == "UTC":
        return UTC
    match = _ZONE.fullmatch(text)
    if match is None:
        raise EvaluationError('a time zone is UTC or an offset such as "+01:00"')
    sign, hours, minutes = match.groups()
    if int(hours) > 23 or int(minutes) > 59:
        raise EvaluationError('a time zone is UTC or an offset such as "+01:00"')
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if sign == "-" else offset)


def time_text(at: datetime) -> str:
    """RFC 3339 in UTC, with a fraction of three or six digits where there is one."""
    return f"{at.year:04d}-{at.month:02d}-{at.day:02d}T{at:%H:%M:%S}{_fraction(at.microsecond)}Z"


def duration_text(length: timedelta) -> str:
    """The duration in seconds, such as `5400s` or `-1.5s`."""
    total = length // timedelta(microseconds=1)
    whole, fraction = divmod(abs(total), 1_000_000)
    return f"{'-' if total < 0 else ''}{whole}{_fraction(fraction)}s"


def _fraction(microseconds: int) -> str:
    if microseconds == 0:
        return ""
    return f".{microseconds:06d}" if microseconds % 1000 else f".{microseconds // 1000:03d}"


def whole(length: timedelta, unit: int) -> int:
    """The number of units of this many seconds in the duration, rounded toward zero."""
    amount: int = abs(length) // timedelta(seconds=unit)
    return -amount if length < timedelta() else amount


def milliseconds(length: timedelta) -> int:
    """The milliseconds after the whole seconds."""
    amount = abs(length) % timedelta(seconds=1) // timedelta(milliseconds=1)
    return -amount if length < timedelta() else amount
