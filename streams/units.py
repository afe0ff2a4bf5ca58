"""Parses and writes durations, sizes, times and limits of the file."""

import re
from datetime import datetime
from typing import NamedTuple

DURATION = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
SPAN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)\.\.[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
SIZE = r"^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB|kB|MB)$"
LIMIT = r"^[0-9]+(\.[0-9]+)?%? of [0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "kB": 1000, "MB": 1000**2}
_LONGEST = 32


def duration(text: str) -> float | None:
    """Seconds, or None if `text` is not a duration."""
    parts = _split(DURATION, text)
    return None if parts is None else parts[0] / 1000 if parts[1] == "ms" else parts[0] * _SECONDS[parts[1]]


def span(text: str) -> tuple[float, float] | None:
    """`1s..60s` as two numbers of seconds, or None if `text` is not a range or its end is less than its start."""
    first, dots, last = text.partition("..")
    least, most = duration(first), duration(last)
    return (least, most) if dots and least is not None and most is not None and 0 < least <= most else None


def size(text: str) -> int | None:
    """Bytes, or None if `text` is not a size or not a whole number of bytes."""
    parts = _split(SIZE, text)
    if parts is None:
        return None
    amount = parts[0] * _BYTES[parts[1]]
    return int(amount) if amount == int(amount) else None


class Limit(NamedTuple):
    """An amount within `seconds`: a number, or a share in percent (`percent`)."""

    amount: float
    percent: bool
    seconds: float


def limit(text: str) -> Limit | None:
    """Parse `5% of 1m` or `100 of 1m`. None if `text` is not such a limit, if its share is not between 0 and 100, or if
    its number is not whole."""
    if not re.fullmatch(LIMIT, text):
        return None
    amount, _, time = text.partition(" of ")
    number, percent, seconds = float(amount.rstrip("%")), amount.endswith("%"), duration(time)
    fits = 0 < number < 100 if percent else 0 < number == int(number)
    return Limit(number, percent, seconds) if seconds and fits else None


def moment(text: str) -> float | None:
    """Seconds since 1970, or None if `text` is not an RFC 3339 time."""
    if len(text) > _LONGEST + 8 or not re.fullmatch(TIME, text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except ValueError:
        return None


def _split(pattern: str, text: str) -> tuple[float, str] | None:
    if len(text) > _LONGEST or not re.fullmatch(pattern, text):
        return None
    number = text.rstrip("BKMGiabcdefhkms")
    return float(number), text.removeprefix(number)


def written_duration(seconds: float) -> str:
    """`30s`, `250ms`, `2m`, `36h`: a text that `duration` parses as these seconds."""
    amount, unit = _whole_duration(seconds)
    return f"{amount:g}{'m' if unit == 'min' else unit}"


def written_size(amount: int) -> str:
    """`900kB`, `512MiB`: a text that `size` parses as this number of bytes, in the largest unit that keeps the number
    whole."""
    unit, length = max(((u, n) for u, n in _BYTES.items() if amount % n == 0), key=lambda pair: pair[1])
    return f"{amount // length}{unit}"


def spoken_duration(seconds: float) -> str:
    """`30 s`, `250 ms`, `2 min`, `36 h`, `7 d`: the largest unit that keeps the number whole. Seconds from 1,000 on are
    written in several units: `1 h 5 min 30 s`."""
    amount, unit = _whole_duration(seconds)
    if unit != "s" or amount < 1000:
        return f"{amount:g} {unit}"
    minutes, rest = divmod(seconds, 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "min"), (rest, "s"))
    return " ".join(f"{amount:g} {unit}" for amount, unit in parts if amount)


def _whole_duration(seconds: float) -> tuple[float, str]:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return seconds / length, unit
    return (seconds, "s") if seconds >= 1 else (seconds * 1000, "ms")
