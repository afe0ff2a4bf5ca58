"""Packs as the scripts of the buffer have them (scripts_packs.py): compressed, since each byte passes through Redis
three times."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import lz4.block

from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import encode, text
from sluicegate.streams.contracts.leased_values import PACK, Entry, Pack, pack_slice, singles

# number of records, how many before them are not its own any more, length of what the first was called
_GIVEN = struct.Struct(">ddH")
_STORED = struct.Struct(">ddddH")  # before them when it came, and the number of the first record
_PLAIN, _LZ4 = b"\x00", b"\x01"
_SMALL = 512  # bytes that are not compressed
_RATIO = 255  # of LZ4 at most


class StoredPack(NamedTuple):
    """A pack of `items` records, the first of which has this number in the buffer."""

    number: int
    items: int
    entry: Entry

    @property
    def id(self) -> str:
        return f"{self.number}:{self.items}"


def is_packed(ids: Sequence[str]) -> bool:
    """Are these ids of packs, and not of rows?"""
    return bool(ids) and ":" in ids[0]


def items(id: str) -> int:
    """Records of the pack of this id."""
    return int(id.partition(":")[2])


def given(packs: Sequence[Pack]) -> Iterator[Any]:
    """Of each: group, and what the script puts behind time and number."""
    for group, first, items, data in packs:
        called = first.encode()
        kept = (_PLAIN, data) if len(data) <= _SMALL else (_LZ4, lz4.block.compress(data))
        yield group
        yield b"".join((_GIVEN.pack(items, 0, len(called)), called, *kept))


def stored(blobs: Sequence[bytes], group: str) -> list[StoredPack]:
    """Their entries have their data as value. Raises PersistenceError."""
    with translated():
        return [_stored(blob, group) for blob in blobs]


def rows(blobs: Sequence[bytes], group: str) -> Iterator[Any]:
    """What UNPACK takes: how many packs, numbers of each, and of each record its number, its name, and its row. Raises
    PersistenceError."""
    yield len(blobs)
    yield from (blob[8:24] for blob in blobs)
    for blob, (number, items, entry) in zip(blobs, stored(blobs, group), strict=True):
        for at, single in enumerate(singles([Pack(group, entry.idempotency_key, items, entry.data)]), number):
            name = single.idempotency_key
            yield from (at, name, blob[:8] + encode((name, 0, name, PACK, group)) + encode((single.data, ())))


def _stored(blob: bytes, group: str) -> StoredPack:
    if len(blob) < _STORED.size:
        raise ValueError("a pack is cut off")
    _, number, items, skipped, length = _STORED.unpack_from(blob)
    end = _STORED.size + length
    called = text(blob[_STORED.size : end])
    if skipped:
        called = f"{called}+{skipped:.0f}"
    data = pack_slice(_plain(blob[end : end + 1], blob[end + 1 :]), int(skipped), int(items))
    return StoredPack(int(number), int(items), Entry(called, called, PACK, data, (), group, data))


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
