"""Times as the leased contracts store them: integers, in microseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def micros(when: datetime) -> int:
    """An aware datetime, without rounding."""
    return (when - _EPOCH) // MICROSECOND


def length(lease: timedelta) -> int:
    return lease // MICROSECOND


def moment(microseconds: int) -> datetime:
    return _EPOCH + microseconds * MICROSECOND


def clock(seconds: float) -> int:
    """The seconds of a clock as microseconds, rounded down."""
    return int(seconds * 1_000_000)
