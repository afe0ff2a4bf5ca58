"""The encoding of records in the shared buffer. It contains the data that the rule, the dead letters and the ids
need."""

from collections.abc import Iterable, Iterator
from math import inf
from struct import Struct
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes

import msgspec

from sluicegate.streams.contracts.leased_values import PACK, Entry, EntryDue, Pack, pack_body, pack_data
from sluicegate.streams.contracts.record import Header, KeptRecord, Record, RecordContent, headers
from sluicegate.streams.errors import PersistenceError

LONGEST_KEY = 600  # bytes of a group's name; every store accepts this size
PACK_BYTES = 256 * 1024  # a pack ends with the record that makes it larger
_PLAIN = " !\"#$&'()*+,/:;<=>?@[]^`{|}~"

_encode = encode_item = msgspec.msgpack.Encoder().encode
"""Encodes a record of a pack: (offset, key, value, headers or None, timestamp)."""
_decode = msgspec.msgpack.Decoder(
    tuple[tuple[str, str, int, int], bytes | None, bytes | None, list[Header], tuple[int, int], float]
).decode


def buffer_name(app: str, agent: str) -> str:
    """The name of this agent's one buffer."""
    return f"{app}/{agent}"


def group_of(key: bytes) -> str:
    """The name of a key's group: the key itself if it is printable ASCII; other bytes are percent-encoded."""
    return quote_from_bytes(key, safe=_PLAIN)


class RecordOrigin(NamedTuple):
    """The position from which a record was read. Ids are derived from it."""

    topic: str
    topic_id: str
    partition: int
    offset: int


class Common(NamedTuple):
    """The values that all records of a pack share. `taken_at` is the time of their insert, in seconds since 1970."""

    topic: str
    topic_id: str
    partition: int
    taken_at: float


class SharedRecord(msgspec.Struct, RecordContent, array_like=True, gc=False):
    """A buffered record. Its offset is its index in the batch (`index`), because a rule cannot compare the offsets of
    several partitions. `number` is the offset in its own partition."""

    number: int
    k: bytes | None
    v: bytes | None
    h: list[tuple[str, bytes | None]] | None
    at: tuple[int, int]
    common: Common = Common("", "", 0, 0.0)
    index: int = 0

    @property
    def origin(self) -> RecordOrigin:
        topic, topic_id, partition, _ = self.common
        return RecordOrigin(topic, topic_id, partition, self.number)

    @property
    def taken_at(self) -> float:
        return self.common.taken_at

    @property
    def real(self) -> KeptRecord:
        """The record as it was read."""
        return KeptRecord(
            (self.common.topic, self.common.partition, self.number), self.k, self.v, self.h or [], self.at
        )

    def topic(self) -> str:
        return self.common.topic

    def partition(self) -> int:
        return self.common.partition

    def offset(self) -> int:
        return self.index

    def timestamp(self) -> tuple[int, int]:
        return self.at

    def leader_epoch(self) -> None:
        return None


_ARRAY = Struct(">BI")  # msgpack: an array, and its length
_common = msgspec.msgpack.Decoder(Common).decode
_items = msgspec.msgpack.Decoder(list[SharedRecord]).decode


def packed(record: Record, topic_id: str, now: float) -> bytes:
    """The data of an entry with one record."""
    place = (record.topic(), topic_id, record.partition(), record.offset())
    return _encode((place, record.key(), record.value(), headers(record), record.timestamp(), now))


class RecordRun(NamedTuple):
    """Records of one partition, in order, in three columns: the offset; the group (with `dedupe` also the id, or None);
    and the encoding in a pack (with `dedupe` the record itself). `ends` has the offsets of the records that end their
    group by `until`, `dues` the offsets of the records that give a deadline, with it. A part of a run has the `ends`
    and `dues` of the whole run."""

    offsets: list[int]
    groups: list[Any]
    items: list[Any]
    ends: list[int]
    dues: list[tuple[int, EntryDue]]

    def part(self, begin: int, end: int | None = None) -> "RecordRun":
        return RecordRun(self.offsets[begin:end], self.groups[begin:end], self.items[begin:end], *self[3:])


def no_records() -> RecordRun:
    return RecordRun([], [], [], [], [])


def packs(run: RecordRun, common: Common, most: float = inf) -> list[Pack]:
    """One pack for each group. A group has several packs, in order, if it ends in the run, has a deadline from a record
    that is not the last one, has more than `most` records, or has large records."""
    groups: dict[str, list[bytes]] = {}
    begins: dict[str, int] = {}
    ended: list[tuple[str, int, list[bytes], bool, EntryDue | None]] = []
    dues = dict(run.dues)
    get, ends = groups.get, frozenset(run.ends)
    last = ends | dues.keys()
    for offset, group, item in zip(*run[:3], strict=True):
        if (items := get(group)) is None:
            groups[group], begins[group] = [item], offset
        else:
            items.append(item)
        if offset in last:
            ended.append((group, begins[group], groups.pop(group), offset in ends, dues.get(offset)))
    head, place = _encode(common), f"{common.topic_id}/{common.partition}/"
    fits = min(most, PACK_BYTES // max(map(len, run.items), default=1))
    whole = [*ended, *((group, begins[group], groups[group], False, None) for group in groups)]
    return [
        Pack(
            *(group, f"{place}{begin}" + (f"+{at}" if at else ""), len(some), pack_data(head, some)),
            *((end, due) if at + len(some) == len(items) else (False, None)),
        )
        for group, begin, items, end, due in whole
        for at, some in (((0, items),) if len(items) <= fits else _cut(items, most))
    ]


def _cut(items: list[bytes], most: float) -> Iterator[tuple[int, list[bytes]]]:
    """Cut into parts of about PACK_BYTES and at most `most` items, each with the index of its first item."""
    begin = size = 0
    for at, item in enumerate(items):
        if size > PACK_BYTES or at - begin >= most:
            yield begin, items[begin:at]
            begin, size = at, 0
        size += len(item)
    yield begin, items[begin:]


def unpacked(entries: Iterable[Entry]) -> list[SharedRecord]:
    """The records of a batch or a buffer, in order, numbered from 0. Raises PersistenceError for an entry of another
    form: applications may write into any buffer."""
    records: list[SharedRecord] = []
    for number, entry in enumerate(entries):
        try:
            records += _several(entry.data, len(records)) if entry.type == PACK else [_single(entry.data, len(records))]
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = type(error).__name__
            raise PersistenceError(
                f"entry {number} of the agent's shared buffer is not a Sluicegate record ({why}); remove it"
            ) from error
    return records


def _several(data: bytes, index: int) -> list[SharedRecord]:
    head, lengths, items = pack_body(data)
    common, records = _common(head), _items(_ARRAY.pack(0xDD, len(lengths)) + items)
    for at, record in enumerate(records, index):
        record.common, record.index = common, at
    return records


def _single(data: bytes, index: int) -> SharedRecord:
    (topic, topic_id, partition, offset), key, value, pairs, at, now = _decode(data)
    return SharedRecord(offset, key, value, pairs, at, Common(topic, topic_id, partition, now), index)
