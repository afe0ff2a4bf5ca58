"""Packs in the form of scripts_packs.py. They are compressed, since each byte passes through Redis three times."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lz4.block

from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import encode, text
from sluicegate.streams.contracts.leased_values import PACK, Entry, Pack, pack_slice, singles

# Count of records, count of records before them that were cut off, length of the first record's idempotency key.
_GIVEN = struct.Struct(">ddH")
_STORED = struct.Struct(">ddddH")  # before these fields the time and the number of the first record
_PLAIN, _LZ4 = b"\x00", b"\x01"
_SMALL = 512  # up to so many bytes are stored plain
_RATIO = 255  # LZ4 compresses no better


class StoredPack(NamedTuple):
    """A pack of `items` records. `number` is the number of the first record in the buffer."""

    number: int
    items: int
    entry: Entry

    @property
    def id(self) -> str:
        return f"{self.number}:{self.items}"


def is_packed(ids: Sequence[str]) -> bool:
    """Whether these are ids of packs, not of rows."""
    return bool(ids) and ":" in ids[0]


def items(id: str) -> int:
    """The count of the pack's records."""
    return int(id.partition(":")[2])


def pack_arguments(packs: Sequence[Pack]) -> Iterator[Any]:
    """The script arguments of packs: group, and the pack without its time and number, which the script adds."""
    for group, first, items, data, *_ in packs:
        key = first.encode()
        kept = (_PLAIN, data) if len(data) <= _SMALL else (_LZ4, lz4.block.compress(data))
        yield group
        yield b"".join((_GIVEN.pack(items, 0, len(key)), key, *kept))


def stored(blobs: Sequence[bytes], group: str) -> list[StoredPack]:
    """The packs of these blobs. The value of each entry is its data. Raises PersistenceError."""
    with translated():
        return [_stored(blob, group) for blob in blobs]


def rows(blobs: Sequence[bytes], group: str) -> Iterator[Any]:
    """The arguments of UNPACK: the count of packs, the second and third field of each pack, and for each record its
    number, its idempotency key and its row. Raises PersistenceError."""
    yield len(blobs)
    yield from (blob[8:24] for blob in blobs)
    for blob, (number, items, entry) in zip(blobs, stored(blobs, group), strict=True):
        for at, single in enumerate(singles([Pack(group, entry.idempotency_key, items, entry.data)]), number):
            key = single.idempotency_key
            yield from (at, key, blob[:8] + encode((key, 0, key, PACK, group)) + encode((single.data, ())))


def _stored(blob: bytes, group: str) -> StoredPack:
    if len(blob) < _STORED.size:
        raise ValueError("a pack is cut off")
    _, number, items, skipped, length = _STORED.unpack_from(blob)
    end = _STORED.size + length
    key = text(blob[_STORED.size : end])
    if skipped:
        key = f"{key}+{skipped:.0f}"
    data = pack_slice(_plain(blob[end : end + 1], blob[end + 1 :]), int(skipped), int(items))
    return StoredPack(int(number), int(items), Entry(key, key, PACK, data, (), group, data))


def _plain(kind: bytes, data: bytes) -> bytes:
    """Raises ValueError."""
    if kind == _PLAIN:
        return data
    if kind != _LZ4 or int.from_bytes(data[:4], "little") > _RATIO * len(data):
        raise ValueError("neither plain nor lz4")
    try:
        return bytes(lz4.block.decompress(data))
    except lz4.block.LZ4BlockError as error:
        raise ValueError("a damaged pack") from error
