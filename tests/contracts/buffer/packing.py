"""Packs for the tests of packs, and what is in them."""

from collections.abc import Iterator
from typing import Any

from sluicegate.streams.contracts.leased_values import PACK, Pack, PositionMove, pack_data, pack_parts


def pack(group: str, first: int, count: int = 1, width: int = 1, ends: bool = False) -> Pack:
    return Pack(
        group,
        f"t/0/{first}",
        count,
        pack_data(b"common", [b"%0*d" % (width, number) for number in range(first, first + count)]),
        ends,
    )


def put(buffer: Any, name: str, packs: list[Pack], gate: Any, begin: int = 0) -> list[Any]:
    return list(
        buffer.insert_packs(
            name, packs, gate, PositionMove("topic", 0, begin, begin + sum(pack.items for pack in packs))
        )
    )


def records(batches: Any) -> list[int]:
    """The numbers in the packs of these entries."""
    return list(_records(batches))


def _records(batches: Any) -> Iterator[int]:
    for entry in batches:
        assert entry.type == PACK
        common, *items = pack_parts(entry.data)
        assert common == b"common"
        yield from map(int, items)
