"""Packs as the scripts of the buffer have them (scripts_packs.py)."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from connectors.redis.connection import translated
from connectors.redis.leased import text
from streams.leased.values import PACK, Entry, Pack

_GIVEN = struct.Struct(">dH")  # number of records, length of what the first is called
_STORED = struct.Struct(">dddH")  # before them when it came, and the number of the first record


class Stored(NamedTuple):
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
        yield group
        yield _GIVEN.pack(items, len(called)) + called + data


def stored(blobs: Sequence[bytes], group: str) -> list[Stored]:
    """Their entries have their data as value. Raises PersistenceError."""
    with translated():
        return [_stored(blob, group) for blob in blobs]


def _stored(blob: bytes, group: str) -> Stored:
    if len(blob) < _STORED.size:
        raise ValueError("a pack is cut off")
    _, number, items, length = _STORED.unpack_from(blob)
    end = _STORED.size + length
    called, data = text(blob[_STORED.size : end]), blob[end:]
    return Stored(int(number), int(items), Entry(called, called, PACK, data, (), group, data))
