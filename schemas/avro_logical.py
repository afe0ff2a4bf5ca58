"""Logical types as JSON values, which are text. fastavro calls these functions by names that begin with `sluicegate-`,
so they change nothing for an application that uses fastavro in the same process. A fraction of a second has three
digits, or six where it is finer than a millisecond, as in Protobuf's JSON."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import cache
from math import log2
from typing import Any
from uuid import UUID

import fastavro.read

from sluicegate.schemas import json

MOST_DIGITS = 1_000  # of a decimal
TOO_LONG = f"a decimal has a precision of more than {MOST_DIGITS:,} digits"
OURS = "sluicegate-"
JSON = "json"
"""Our logical type of text that holds JSON."""

_EPOCH, _FIRST_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()
_EXACT = Context(prec=MOST_DIGITS)
_DAY = 86_400


class NoValue(ValueError):
    """A datum has no value of its logical type. The text quotes no payload."""


def _point(unit: int, suffix: str) -> Callable[..., str]:
    micros = 1_000_000 // unit

    def read(value: int, writer: Any, reader: Any) -> str:
        text = (_EPOCH + timedelta(microseconds=value * micros)).isoformat()
        return (text if value * micros % 1_000 else _cut(text)) + suffix

    return read


def _clock(unit: int) -> Callable[..., str]:
    def read(value: int, writer: Any, reader: Any) -> str:
        if not 0 <= value < _DAY * unit:
            raise NoValue("has a time that is not of one day")
        seconds, part = divmod(value, unit)
        micros = part * 1_000_000 // unit
        text = time(seconds // 3_600, seconds // 60 % 60, seconds % 60, micros).isoformat()
        return text if micros % 1_000 else _cut(text)

    return read


def _cut(text: str) -> str:
    """The text without the last three digits of a six-digit fraction if they are zeros."""
    return text[:-3] if "." in text else text


def _date(value: int, writer: Any, reader: Any) -> str:
    try:
        return date.fromordinal(_FIRST_DAY + value).isoformat()
    except ValueError:
        raise OverflowError from None


def _uuid(value: Any, writer: Any, reader: Any) -> str:
    return str(UUID(value.decode() if isinstance(value, bytes) else value))


def _json(value: Any, writer: Any, reader: Any) -> Any:
    return json.decode_any(value)


def _decimal(value: Any, writer: Any, reader: Any) -> str:
    """Bytes are counted before they are converted, because a conversion to decimal digits takes quadratic time."""
    raw = value.encode() if isinstance(value, str) else value
    most, limit = _limits(writer["precision"])
    negative = raw[:1] >= b"\x80"
    digits = raw.lstrip(b"\xff" if negative else b"\0")
    unscaled = 0 if len(digits) > most else int.from_bytes(digits, "big") - (negative << 8 * len(digits))
    if len(digits) > most or not -limit < unscaled < limit:
        raise NoValue("has a decimal of more digits than its precision")
    return str(Decimal(unscaled).scaleb(-writer.get("scale", 0), _EXACT))


@cache
def _limits(precision: int) -> tuple[int, int]:
    """The most bytes of a number with this many digits, not counting bytes that only repeat its sign, and the first
    number that has more digits."""
    return int(precision * log2(10)) // 8 + 1, 10**precision


LOGICAL: dict[tuple[str, str], Callable[..., Any]] = {
    ("long", "timestamp-millis"): _point(1_000, "Z"),
    ("long", "timestamp-micros"): _point(1_000_000, "Z"),
    ("long", "local-timestamp-millis"): _point(1_000, ""),
    ("long", "local-timestamp-micros"): _point(1_000_000, ""),
    ("int", "date"): _date,
    ("int", "time-millis"): _clock(1_000),
    ("long", "time-micros"): _clock(1_000_000),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("string", "uuid"): _uuid,
    ("string", JSON): _json,
}
"""By the underlying type, and the logical type."""

PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The types that a datum of a type may be read as."""

for (_kind, _name), _read in LOGICAL.items():
    for _written in (_kind, *(source for source, kinds in PROMOTED.items() if _kind in kinds)):
        fastavro.read.LOGICAL_READERS[f"{_written}-{OURS}{_name}"] = _read
