"""How the shared buffer has a record: what the rule, the dead letter and the ids need of it."""

from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote_from_bytes

import msgspec

from streams.engine.packing import SealedRecord
from streams.errors import PersistenceError
from streams.leased.values import Header
from streams.record import Record, headers

LONGEST_KEY = 600  # bytes of its group's name: what every store takes
_PLAIN = " !\"#$&'()*+,/:;<=>?@[]^`{|}~"

_encode = msgspec.msgpack.Encoder().encode
_Place = tuple[str, str, int, int]
_decode = msgspec.msgpack.Decoder(tuple[_Place, bytes | None, bytes | None, list[Header], tuple[int, int], float]).decode


def buffer_name(app: str, agent: str) -> str:
    """Of the one buffer of this agent."""
    return f"{app}/{agent}"


def group_of(key: bytes) -> str:
    """The name of a key's group: itself as far as it is printable ASCII, percent-encoded beyond that."""
    return quote_from_bytes(key, safe=_PLAIN)


class Origin(NamedTuple):
    """Where a record came from; ids are made of it."""

    topic: str
    topic_id: str
    partition: int
    offset: int


class SharedRecord(NamedTuple):
    """A buffered record. `record` has its place in the batch as offset, since offsets of several partitions would mean nothing to a rule;
    `taken_at` is when it was put into the buffer, seconds since 1970."""

    origin: Origin
    taken_at: float
    record: SealedRecord

    @property
    def real(self) -> SealedRecord:
        """As it was read."""
        return replace(self.record, place=(self.origin.topic, self.origin.partition, self.origin.offset))


def packed(record: Record, topic_id: str, now: float) -> bytes:
    """The data of its entry."""
    place = (record.topic(), topic_id, record.partition(), record.offset())
    return _encode((place, record.key(), record.value(), headers(record), record.timestamp(), now))


def unpacked(data: bytes, index: int) -> SharedRecord:
    """Number `index` of its batch. Raises PersistenceError for what is none: applications may write into any buffer."""
    try:
        (topic, topic_id, number, offset), key, value, pairs, at, now = _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = type(error).__name__
        raise PersistenceError(f"entry {index} of the agent's shared buffer is no record of ours ({why}); remove it") from error
    origin = Origin(topic, topic_id, number, offset)
    where = topic, number, index
    return SharedRecord(origin, now, SealedRecord(where, key, value, pairs, at))
