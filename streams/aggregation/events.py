"""The decisions of an aggregation or a handler: fires, outputs, and refused records. All become outbox rows in the
order of the decisions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.streams.contracts.record import Headers, Record

COUNT_LOWERED = "count-lowered"
"""The reason of a group that held more records than `count` at a claim: the count was higher before."""
REASONS = ("count", "timeout", "until", "limit", "manual", COUNT_LOWERED)
"""Why a group is complete."""


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A completed group. `reason` is count, timeout, until, limit, manual or count-lowered. `first` and `last` are the
    offsets of its first and last record. `values` are the computed fields in the order of the file. `removed` are the
    indexes of messages that its handler rejected. `outputs` are pairs of an index in `Agent.outputs` and a document;
    None means the whole result to `Agent.to`."""

    key: bytes
    count: int
    reason: str
    first: int
    last: int
    opened: float
    closed: float
    trace: str | None
    values: dict[str, Any]
    removed: tuple[int, ...] = ()
    outputs: tuple[tuple[int, dict[str, Any]], ...] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A record for the dead-letter topic. `stage` is decode, key, expression, aggregate, lookup, handler, produce or
    crash. `reason` is a stable word; `error` is the full text and may quote the payload if the user's code raised it.
    `where` is the place in the user's code that raised, or empty. `clause` is the name of the expression that failed,
    or empty. `looked_up`: it was refused in the commit that looked rows up for it, after its id was noted.
    """

    record: Record
    stage: str
    reason: str
    error: str
    attempts: int = 1
    where: str = ""
    clause: str = ""
    looked_up: bool = False


@dataclass(frozen=True, slots=True)
class Unhandled:
    """A completed group whose handler failed its last attempt, or for which an expression failed. Its result document
    is the dead letter. The other fields are as in Refused."""

    fire: Fire
    error: str
    attempts: int
    reason: str = "handler-failed"
    where: str = ""
    stage: str = "handler"
    clause: str = ""


@dataclass(frozen=True, slots=True)
class BadItem:
    """Message `index` of a completed group, rejected by its handler. `value` is the value of the dead letter."""

    fire: Fire
    index: int
    value: bytes
    error: str
    reason: str = "bad-item"


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Output number `index` of a handler. `fire` is the id of the message or batch."""

    fire: str
    index: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    trace: str | None
    reason: str = "sent"


class Scheduled(msgspec.Struct, frozen=True, gc=False):
    """A timeout of a handler. It is due at `at`, or `after` seconds after its commit if `at` is None."""

    id: UUID
    topic: str
    at: datetime | None
    after: float
    key: bytes | None
    value: bytes | None
    headers: Headers
    owner: str
    reason: str = "scheduled"


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """A timeout that a handler cancelled."""

    id: UUID
    reason: str = "cancelled"


Event = Fire | Refused | Unhandled | BadItem | Sent | Scheduled | Cancelled
