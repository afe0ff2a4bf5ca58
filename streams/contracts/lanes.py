"""The lane of an outbox message."""

from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

from sluicegate.streams.contracts.messages import OutboxMessage

if TYPE_CHECKING:
    from sluicegate.streams.contracts.lane_row import LaneRow

MOST_LANES = 1 << 16
"""The number of lane numbers of one app. The lanes of no app have the numbers below it."""
SENDER = "outbox/"
"""The prefix of the name of a lane's shard. The number of the lane follows."""
LANES = 16
"""The default number of lanes in a store."""


def lane_of(message: "OutboxMessage | LaneRow", lanes: int) -> int:
    """The lane, from 0 to lanes - 1, by the message's lane key, else its key, else (without an order) its id."""
    key = message.lane_key if message.lane_key is not None else message.key
    return crc32(message.id.encode() if key is None else key) % lanes


def first_lane(app: str) -> int:
    """The lowest number of the lanes of an app, which has MOST_LANES."""
    return (1 + int.from_bytes(blake2b(app.encode(), digest_size=4).digest())) * MOST_LANES


def is_lane_of(app: str, shard: str) -> bool:
    """Whether the name of a sender's shard names a lane of this app."""
    lane = shard.removeprefix(SENDER).partition(">")[0]
    if not shard.startswith(SENDER) or not lane.isdecimal() or len(lane) > 18:
        return False
    return int(lane) // MOST_LANES == first_lane(app) // MOST_LANES
