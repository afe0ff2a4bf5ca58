"""How the shared buffer has records: what the rule, the dead letter and the ids need of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote_from_bytes

import msgspec

from streams.engine.packing import SealedRecord
from streams.errors import PersistenceError
from streams.handlers.values import Message
from streams.leased.values import PACK, Entry, Header, Pack, pack_data, pack_parts
from streams.record import Headers, Record, headers

LONGEST_KEY = 600  # bytes of its group's name: what every store takes
PACK_BYTES = 256 * 1024  # a pack ends with the record that makes it larger
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


class Common(NamedTuple):
    """What the records of a pack have in common; `taken_at` is when they were put into the buffer, seconds since 1970."""

    topic: str
    topic_id: str
    partition: int
    taken_at: float


class SharedRecord(msgspec.Struct, array_like=True, gc=False):
    """A buffered record; satisfies streams.record.Record, with its place in the batch (`index`) as offset, since offsets of several
    partitions would mean nothing to a rule. `number` is its own offset."""

    number: int
    k: bytes | None
    v: bytes | None
    h: list[tuple[str, bytes | None]]
    at: tuple[int, int]
    common: Common = Common("", "", 0, 0.0)
    index: int = 0

    @property
    def origin(self) -> Origin:
        topic, topic_id, partition, _ = self.common
        return Origin(topic, topic_id, partition, self.number)

    @property
    def taken_at(self) -> float:
        return self.common.taken_at

    @property
    def real(self) -> SealedRecord:
        """As it was read."""
        return SealedRecord((self.common.topic, self.common.partition, self.number), self.k, self.v, self.h, self.at)

    def topic(self) -> str:
        return self.common.topic

    def partition(self) -> int:
        return self.common.partition

    def offset(self) -> int:
        return self.index

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


_common = msgspec.msgpack.Decoder(Common).decode
_item = msgspec.msgpack.Decoder(SharedRecord).decode


def packed(record: Record, topic_id: str, now: float) -> bytes:
    """The data of an entry of its own."""
    place = (record.topic(), topic_id, record.partition(), record.offset())
    return _encode((place, record.key(), record.value(), headers(record), record.timestamp(), now))


def packs(messages: Sequence[Message], topic_id: str, now: float) -> list[Pack]:
    """One for each group, or several where they are large. All messages are of one partition; the value of each is its group."""
    groups: dict[str, list[bytes]] = {}
    begins: dict[str, int] = {}
    get = groups.get
    for message in messages:
        group, record = message.value, message.record
        offset = record.offset()
        item = _encode((offset, record.key(), record.value(), headers(record), record.timestamp()))
        if (items := get(group)) is None:
            groups[group], begins[group] = [item], offset
        else:
            items.append(item)
    first = messages[0].record
    common, place = _encode(Common(first.topic(), topic_id, first.partition(), now)), f"{topic_id}/{first.partition()}/"
    return [
        Pack(group, f"{place}{begins[group]}" + (f"+{at}" if at else ""), len(some), pack_data(common, some))
        for group, items in groups.items()
        for at, some in _cut(items)
    ]


def _cut(items: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Into parts of about PACK_BYTES, each with its place."""
    begin = size = 0
    for at, item in enumerate(items if sum(map(len, items)) > PACK_BYTES else ()):
        if size > PACK_BYTES:
            yield begin, items[begin:at]
            begin, size = at, 0
        size += len(item)
    yield begin, items[begin:]


def unpacked(entries: Iterable[Entry]) -> list[SharedRecord]:
    """The records of a batch or a buffer, in order, numbered from 0. Raises PersistenceError for what is none: applications may write into
    any buffer."""
    records: list[SharedRecord] = []
    for number, entry in enumerate(entries):
        try:
            records += _several(entry.data, len(records)) if entry.type == PACK else [_single(entry.data, len(records))]
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = type(error).__name__
            raise PersistenceError(f"entry {number} of the agent's shared buffer is no record of ours ({why}); remove it") from error
    return records


def _several(data: bytes, index: int) -> list[SharedRecord]:
    head, *items = pack_parts(data)
    common, records = _common(head), [_item(item) for item in items]
    for at, record in enumerate(records, index):
        record.common, record.index = common, at
    return records


def _single(data: bytes, index: int) -> SharedRecord:
    (topic, topic_id, partition, offset), key, value, pairs, at, now = _decode(data)
    return SharedRecord(offset, key, value, pairs, at, Common(topic, topic_id, partition, now), index)
