"""The values that the outbox holds, all frozen. Times are aware datetimes in UTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid4, uuid5

from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.record import Header

if TYPE_CHECKING:
    from sluicegate.streams.contracts.lane_row import LaneRow  # with msgspec, which `import streams` does not load


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message to be sent by the relay. Messages with the same `key` (or `lane_key`) are sent in their order; without
    either there is none. `id` makes an insert that is repeated count once: a random one unless given. Raises
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
        # Relays make one for each row: nothing is set that is there already.
        if self.headers != ():
            object.__setattr__(self, "headers", tuple((name, value) for name, value in self.headers))
        if not self.id:
            object.__setattr__(self, "id", uuid4().hex)


def dispatch_id(source: str, version: int, index: int) -> str:
    """The id of message number `index` that version `version` of `source` causes. Same arguments, same id."""
    return str(uuid5(NAMESPACE_OID, f"{source}/{version}/{index}"))


TIMEOUT_ID = "sluicegate-timeout-id"


def emitted(timeout: Timeout) -> OutboxMessage:
    """What a due timeout becomes. Its id is made of the timeout's and its due time: sent once, but again when a name
    (and so the id of the timeout) is used again later. The header `sluicegate-timeout-id` tells receivers whose it
    is."""
    headers = (*timeout.headers, (TIMEOUT_ID, str(timeout.id).encode()))
    moment = int(timeout.due_at.timestamp() * 1_000_000)
    return OutboxMessage(
        timeout.destination, timeout.key, timeout.value, headers, dispatch_id(str(timeout.id), moment, 0)
    )


class LaneBatch(NamedTuple):
    """Rows in sending order, held by `token` until `expires_at`; `lane` -1 for rows without order. Empty `rows` with
    `blocked_until`: the first one waits for its back-off, and all behind it with it."""

    lane: int
    token: str
    expires_at: datetime
    rows: Sequence["LaneRow"]
    blocked_until: datetime | None = None


class Outcome(NamedTuple):
    """What became of a row: `dispatched`; `rejected` (never to be taken: dead at once); `failed` (counts as an
    attempt); `outage` (the broker was away: does not)."""

    id: str
    kind: Literal["dispatched", "rejected", "failed", "outage"]
    error: str = ""


class Attempt(NamedTuple):
    """`outcome` is success, rejected, transient or poison (the last one that was allowed)."""

    number: int
    at: datetime
    outcome: str
    error: str


class StoredMessage(NamedTuple):
    """A row as people see it. `state` is pending, dispatched or dead; `reason` why it is dead."""

    message: OutboxMessage
    state: str
    lane: int
    attempts: int
    created_at: datetime
    dispatched_at: datetime | None
    next_attempt_at: datetime | None
    reason: str
