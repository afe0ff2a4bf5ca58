"""What an aggregation or a handler decides: a fire, an output, or what cannot be used. All become outbox rows, in the
order decided."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.streams.contracts.record import Headers, Record

COUNT_LOWERED = "count-lowered"
"""The reason of a group that held more records than `count` at a claim: the count was higher before."""


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A completed group. `reason` is count, timeout, until, limit, manual or count-lowered; offsets are those of its
    first and last record; `values` the computed fields in the order of the file; `removed` the indexes of messages that
    its handler could not use; `outputs` what goes to which of `Agent.outputs`, None: the whole result to `Agent.to`."""

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
    """A record for the dead-letter topic. `stage` is decode, key, expression, aggregate, handler, produce or crash;
    `reason` is stable, `error` says more: what the user's code raised may quote the payload. `where` is the place in
    the user's code that raised it, or empty. `clause` names the expression that has no answer, or is empty."""

    record: Record
    stage: str
    reason: str
    error: str
    attempts: int = 1
    where: str = ""
    clause: str = ""


@dataclass(frozen=True, slots=True)
class Unhandled:
    """A completed group whose handler failed for good, or for which an expression has no answer: its result document is
    the dead letter. The rest is as in Refused."""

    fire: Fire
    error: str
    attempts: int
    reason: str = "handler-failed"
    where: str = ""
    stage: str = "handler"
    clause: str = ""


@dataclass(frozen=True, slots=True)
class BadItem:
    """Message `index` of a completed group, which its handler cannot use: `value` is the dead letter."""

    fire: Fire
    index: int
    value: bytes
    error: str
    reason: str = "bad-item"


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Output number `index` of a handler; `fire` is the id of the message or batch."""

    fire: str
    index: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    trace: str | None
    reason: str = "sent"


class Scheduled(msgspec.Struct, frozen=True, gc=False):
    """A timeout of a handler: due at `at`, or, where that is None, `after` seconds from its commit on."""

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
    """A timeout that a handler wants no more."""

    id: UUID
    reason: str = "cancelled"


Event = Fire | Refused | Unhandled | BadItem | Sent | Scheduled | Cancelled
