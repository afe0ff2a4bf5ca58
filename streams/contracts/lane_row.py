"""A row of the outbox on its way to a relay."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header


class LaneRow(msgspec.Struct, frozen=True, gc=False):
    """A pending row in the hands of its lane's holder. `number` was given durably before the first send, ascending in
    the lane and never given twice; `attempts` failed so far. Flat, since relays read each one: an OutboxMessage inside
    took 3.8 us to make, and this 0.4."""

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
        """What was added."""
        return OutboxMessage(self.topic, self.key, self.value, self.headers, self.id, self.lane_key)
