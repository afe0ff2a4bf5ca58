"""The frozen values of the outbox. Times are aware datetimes in UTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from sluicegate.streams.contracts.headers import DUE_AT, TIMEOUT_ID
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.record import Header

if TYPE_CHECKING:
    from sluicegate.streams.contracts.lane_row import LaneRow  # loads msgspec, which `import streams` does not


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message for the dispatcher to send. Messages with the same `key` (or `lane_key`) are sent in order; messages
    without either have no order. `id` makes a repeated insert count once; the default is a random one. Raises
    ValueError."""

    topic: str
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    id: str = ""
    lane_key: bytes | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic.strip():
            raise ValueError("an OutboxMessage needs its topic")
        for name, value in (("key", self.key), ("value", self.value), ("lane_key", self.lane_key)):
            if value is not None and not isinstance(value, bytes):
                raise ValueError(f"the {name} of an OutboxMessage is bytes or None")
        # One is made for each row, so no attribute is set twice.
        if self.headers != ():
            object.__setattr__(self, "headers", tuple((name, value) for name, value in self.headers))
        if not self.id:
            object.__setattr__(self, "id", uuid4().hex)


def dispatch_id(source: str, version: int, index: int) -> str:
    """The id of message number `index` that version `version` of `source` causes. The same arguments give the same
    id."""
    return str(uuid5(NAMESPACE_OID, f"{source}/{version}/{index}"))


def emitted(timeout: Timeout) -> OutboxMessage:
    """The message of a due timeout. Its id is derived from the timeout's id and its due time: it is sent once, but
    again if the same name (and so the same timeout id) is used later. The header `sluicegate-timeout-id` gives
    receivers the id of the timeout. The header `sluicegate-due-at` of a recurring timeout gives the time for which it
    was scheduled."""
    headers = (*timeout.headers, (TIMEOUT_ID, str(timeout.id).encode()))
    if timeout.every is not None:
        headers += ((DUE_AT, timeout.due_at.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()),)
    moment = int(timeout.due_at.timestamp() * 1_000_000)
    return OutboxMessage(
        timeout.destination, timeout.key, timeout.value, headers, dispatch_id(str(timeout.id), moment, 0)
    )


class LaneBatch(NamedTuple):
    """Rows in sending order, held by `token` until `expires_at`. `lane` is -1 for rows without order. Empty `rows` with
    `blocked_until`: the first row waits for its back-off, and all rows behind it wait too."""

    lane: int
    token: str
    expires_at: datetime
    rows: Sequence["LaneRow"]
    blocked_until: datetime | None = None


class Outcome(NamedTuple):
    """The outcome for a row: `dispatched`; `rejected` (the broker will never accept it: it is dead at once); `failed`
    (counts as an attempt); `outage` (the broker did not answer: does not count)."""

    id: str
    kind: Literal["dispatched", "rejected", "failed", "outage"]
    error: str = ""


class Attempt(NamedTuple):
    """`outcome` is success, rejected, transient, or poison (the last attempt allowed)."""

    number: int
    at: datetime
    outcome: str
    error: str


class StoredMessage(NamedTuple):
    """A row as operators see it. `state` is pending, dispatched or dead; `reason` is the reason why it is dead."""

    message: OutboxMessage
    state: str
    lane: int
    attempts: int
    created_at: datetime
    dispatched_at: datetime | None
    next_attempt_at: datetime | None
    reason: str
