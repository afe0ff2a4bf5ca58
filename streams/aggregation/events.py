"""Events: the decisions of an aggregation or a handler. They are fires, outputs, and refused records. Each becomes
outbox rows, in the order of the decisions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.streams.contracts.record import Headers, Record
from sluicegate.streams.contracts.values import GroupNumber

COUNT_LOWERED = "count-lowered"
"""The reason of a group that held more records than `count` when the partition was claimed, because `count` was
lowered."""
REASONS = ("count", "timeout", "until", "limit", "manual", COUNT_LOWERED)
"""The reasons for which a group without a window is complete."""
WINDOW = "window"
"""The reason of a group that ends with its window."""
EARLY = "early"
"""The reason of a result of a group that stays open."""
EMPTY = "empty"
"""The reason of the last result of a group of a table that has no rows left."""
MERGED = "merged"
"""The reason of the last result of a session that became part of another one. The result has no records."""
WHOLE = -1
"""The value of `Fire.again` for all outputs of a group."""
DROPPED = "drop"
"""The reason, in the history, of a group that an operator or a deployment dropped."""


class Closing(msgspec.Struct, frozen=True, gc=False):
    """The window of a completed group. `start` and `end` are in milliseconds since 1970. `by` is what closed it: event,
    idle, at_most or late; empty for a part of a window that ended early. `watermark` is the watermark that closed it.
    `revision` is the number of results of the group, including this one. `next` is the offset of the next record to
    come if the owner's clock closed the window; otherwise -1. `shared`: other windows contain records of this one, and
    may begin with the same record. `own`: the window belongs to its last record alone."""

    start: int
    end: int
    by: str
    watermark: int
    revision: int = 1
    next: int = -1
    shared: bool = False
    own: bool = False


class Fire(msgspec.Struct, frozen=True, gc=False):
    """A completed group. `reason` is count, timeout, until, limit, manual or count-lowered. A group whose window closed
    has the reason WINDOW. `first` and `last` are the offsets of its first and last record. `values` are the computed
    fields in the order of the file. `removed` are the indexes of messages that its handler rejected. `outputs` are
    pairs of an index in `Agent.outputs` and a document; None means the whole result to `Agent.to`. `window` is None
    without windows. `retries`: how often an operator retried its dead letter. `again`: that retry has to decide what
    becomes of the group, with the file's clauses as they are now; a number from 0 on sends only the output of this
    index, WHOLE all of them. `revision` counts the results of a group without a window. `final` is None where groups
    have one result: else whether no early result follows."""

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
    window: Closing | None = None
    retries: int = 0
    again: int | None = None
    revision: int = 1
    final: bool | None = None

    @property
    def number(self) -> GroupNumber:
        """Names the result among all results of its partition."""
        window = self.window
        if window is None:
            return self.first if self.revision == 1 else (self.first, 0, self.revision)
        if window.revision > 1:
            return (self.first, window.start, window.revision)
        if window.own:
            return self.last
        return (self.first, window.start) if window.shared else self.first

    @property
    def goes_on(self) -> bool:
        """Whether this is an early result: the group is open."""
        return self.final is False


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
    """A completed group that becomes a dead letter: its handler failed its last attempt, an expression failed, or it
    timed out with `on_timeout: dead-letter`. The dead letter has its result document. The other fields are as in
    Refused."""

    fire: Fire
    error: str
    attempts: int
    reason: str = "handler-failed"
    where: str = ""
    stage: str = "handler"
    clause: str = ""


def timed_out(fire: Fire) -> Unhandled:
    """The dead letter of a group that timed out with `on_timeout: dead-letter`. No handler gets the group."""
    return Unhandled(fire, "the group timed out and on_timeout is dead-letter", 1, "timeout", stage="aggregate")


@dataclass(frozen=True, slots=True)
class BadItem:
    """Message `index` of a completed group, rejected by its handler. `value` is the value of the dead letter."""

    fire: Fire
    index: int
    value: bytes
    error: str
    reason: str = "bad-item"


@dataclass(frozen=True, slots=True)
class KeptItem:
    """A message or a completed group that the store keeps for its handler. Either its handler failed for good
    (`error`), or it waits for an earlier item of its key (empty `error`)."""

    item: Any
    error: str = ""
    attempts: int = 0
    reason: str = "parked"


class GroupEnded(msgspec.Struct, frozen=True, gc=False):
    """A group ended. `fire` is the group without computed fields. Only agents with `history` note this event. `rule` is
    the short digest of the rule under which the group ended: None for the current rule of the agent, empty if it is not
    known."""

    fire: Fire
    rule: str | None = None
    reason: str = "ended"


class Sent(msgspec.Struct, frozen=True, gc=False):
    """Output number `index` of a handler, or of a forwarded record. `fire` is the id of the message or batch. `output`
    is the index in `Agent.outputs`; -1 for a topic that the handler names."""

    fire: str
    index: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    trace: str | None
    output: int = -1
    reason: str = "sent"


class Scheduled(msgspec.Struct, frozen=True, gc=False):
    """A timeout that a handler scheduled. It is due at `at`, or `after` seconds after its commit if `at` is None."""

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


class TimeMark(msgspec.Struct, gc=False):
    """The progress of an input partition whose records are re-keyed for event time. One message goes to each partition
    of the output topic. `time` is the highest time of a record and `marked_at` is the owner's time, both in
    milliseconds since 1970 (-1: no record had a time). `offset` is the next offset to read. `state` is behind, at-end
    or idle."""

    time: int = -1
    state: str = "behind"
    marked_at: int = 0
    offset: int = -1
    reason: str = "mark"


Decided = Refused | Unhandled | GroupEnded
"""The events that need no handler."""
Event = Fire | Decided | TimeMark | BadItem | Sent | Scheduled | Cancelled | KeptItem
