"""The cold groups of a partition in memory."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile

from sluicegate.streams.contracts.values import ColdGroup

STALE = 1_000  # deadlines of groups that are not there any more may lie in the heap, beyond one for each group
BLOCK = 1_000  # keys in a block, at most twice this number


class SortedKeys:
    """Different keys in their order: sorted blocks of keys, the smallest keys first. No block is empty. A change costs
    the search for its place and a move within one block."""

    __slots__ = ("_blocks", "_last")

    def __init__(self) -> None:
        self._blocks: list[list[bytes]] = []
        self._last: list[bytes] = []  # the last key of each block

    def add(self, key: bytes) -> None:
        """`key` is not there yet."""
        blocks, last = self._blocks, self._last
        at = bisect_left(last, key)
        if at == len(blocks):  # after all others
            if not blocks or len(blocks[-1]) >= BLOCK:
                blocks.append([key])
                last.append(key)
                return
            at -= 1
        block = blocks[at]
        insort(block, key)
        if len(block) > 2 * BLOCK:
            blocks.insert(at, block[:BLOCK])
            last.insert(at, block[BLOCK - 1])
            del block[:BLOCK]
            at += 1
        last[at] = block[-1]

    def remove(self, key: bytes) -> None:
        """`key` is there."""
        at = bisect_left(self._last, key)
        block = self._blocks[at]
        del block[bisect_left(block, key)]
        if block:
            self._last[at] = block[-1]
        else:
            del self._blocks[at], self._last[at]

    def after(self, key: bytes | None) -> Iterator[bytes]:
        """The keys after this one, or all."""
        at = 0 if key is None else bisect_right(self._last, key)
        for number, block in enumerate(islice(self._blocks, at, None)):
            yield from islice(block, bisect_right(block, key) if key is not None and not number else 0, None)


@dataclass(slots=True)
class ColdRows:
    """The cold groups by key; `keys` are theirs. `deadlines` holds (time, key) of each group with a deadline. Entries
    of groups that are gone may remain."""

    groups: dict[bytes, ColdGroup] = field(default_factory=dict)
    keys: SortedKeys = field(default_factory=SortedKeys)
    deadlines: list[tuple[float, bytes]] = field(default_factory=list)

    def copy(self) -> "ColdRows":
        other = ColdRows()
        other.apply(list(self.groups.values()), ())
        return other

    def apply(self, put: Sequence[ColdGroup], drop: Sequence[bytes]) -> None:
        for key in drop:
            if self.groups.pop(key, None) is not None:
                self.keys.remove(key)
        for group in put:
            if group.key not in self.groups:
                self.keys.add(group.key)
            self.groups[group.key] = group
            if group.due is not None:
                heappush(self.deadlines, (group.due, group.key))
        if len(self.deadlines) > 2 * len(self.groups) + STALE:
            self.deadlines = [(group.due, group.key) for group in self.groups.values() if group.due is not None]
            heapify(self.deadlines)

    def due(self, until: float, limit: int) -> list[ColdGroup]:
        nearest: dict[bytes, ColdGroup] = {}
        while self.deadlines and self.deadlines[0][0] <= until and len(nearest) < limit:
            deadline, key = heappop(self.deadlines)
            group = self.groups.get(key)
            if group is not None and group.due == deadline:
                nearest[key] = group
        for group in nearest.values():
            heappush(self.deadlines, (group.due or 0.0, group.key))
        return list(nearest.values())

    def page(self, after: bytes | None, limit: int) -> list[ColdGroup]:
        return [self.groups[key] for key in islice(self.keys.after(after), limit)]

    def before(self, end: bytes, limit: int) -> list[ColdGroup]:
        first = takewhile(lambda key: key < end, self.keys.after(None))
        return [self.groups[key] for key in islice(first, limit)]
