"""The lane of an outbox message."""

from typing import TYPE_CHECKING
from zlib import crc32

from sluicegate.streams.contracts.messages import OutboxMessage

if TYPE_CHECKING:
    from sluicegate.streams.contracts.lane_row import LaneRow

MOST_LANES = 1 << 16
"""Of one app. The lanes of no app have the numbers below it."""
LANES = 16
"""Of a store unless it was set otherwise."""


def lane_of(message: "OutboxMessage | LaneRow", lanes: int) -> int:
    """The lane, from 0 to lanes - 1, by the message's lane key, else its key, else (without an order) its id."""
    key = message.lane_key if message.lane_key is not None else message.key
    return crc32(message.id.encode() if key is None else key) % lanes
