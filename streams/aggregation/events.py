"""What an aggregation decides: a fire, or a record it cannot take. Both become outbox rows, in the order decided."""

from dataclasses import dataclass
from typing import Any

import msgspec

from streams.record import Record


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A completed group. `reason` is count, timeout, until, limit or manual; offsets are those of its first and last
    record; `values` the computed fields in the order of the file."""

    key: bytes
    count: int
    reason: str
    first: int
    last: int
    opened: float
    closed: float
    trace: str | None
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """A record for the dead-letter topic. `stage` is decode, key, aggregate or crash; `reason` is stable, `error` says
    more and never quotes the payload."""

    record: Record
    stage: str
    reason: str
    error: str
