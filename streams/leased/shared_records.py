"""How the shared buffer has a record: what the rule, the dead letter and the ids need of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes

import msgspec

from streams.record import Headers, Record, headers

LONGEST_KEY = 600  # bytes of its group's name: what every store takes
_PLAIN = " !\"#$&'()*+,/:;<=>?@[]^`{|}~"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


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


@dataclass(frozen=True, slots=True)
class SharedRecord:
    """A buffered record; satisfies streams.record.Record, with its place in the batch as offset: offsets of several partitions
    would mean nothing. `taken_at` is when it was put into the buffer, seconds since 1970."""

    index: int
    origin: Origin
    k: bytes | None
    v: bytes | None
    h: Headers
    at: tuple[int, int]
    taken_at: float
    real: bool = False

    def topic(self) -> str:
        return self.origin.topic

    def partition(self) -> int:
        return self.origin.partition

    def offset(self) -> int:
        return self.origin.offset if self.real else self.index

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> Headers:
        return self.h

    def timestamp(self) -> tuple[int, int]:
        return self.at

    def leader_epoch(self) -> None:
        return None

    def error(self) -> None:
        return None


def packed(record: Record, topic_id: str, now: float) -> bytes:
    """The data of its entry."""
    place = (record.topic(), topic_id, record.partition(), record.offset())
    return _encode((place, record.key(), record.value(), headers(record), record.timestamp(), now))


def unpacked(data: bytes, index: int) -> SharedRecord:
    """Number `index` of its batch."""
    found: Any = _decode(data)
    place, key, value, pairs, at, now = found
    return SharedRecord(index, Origin(*place), key, value, [(name, text) for name, text in pairs], (at[0], at[1]), now)
