"""Times as the leased contracts store them: integers, in microseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(when: datetime) -> int:
    """An aware datetime, without rounding."""
    return (when - _EPOCH) // _MICROSECOND


def length(lease: timedelta) -> int:
    return lease // _MICROSECOND


def moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND


def clock(seconds: float) -> int:
    """Seconds of a clock, rounded down."""
    return int(seconds * 1_000_000)
