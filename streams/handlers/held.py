"""Holds items whose handler failed, and the items after them. The same owner handles them later under the same claim.

Nothing about them is committed until then. So their records are read again after a crash, or when the owner ends.
"""

from collections.abc import Sequence
from math import inf

from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.values import Message


class WaitingItems:
    """The waiting items of one partition. The item at the offset `at` and the items after it wait until `until`, by the
    process's own clock. With `at` None all items wait. `why` is the error."""

    __slots__ = ("_at", "_until", "items", "why")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._until, self.why = -inf, ""
        self._at: int | None = None

    def waits(self, now: float) -> bool:
        """Whether it is too early to handle the first item."""
        return bool(self.items) and now < self.due()

    def ready(self, now: float) -> bool:
        return bool(self.items) and now >= self.due()

    def due(self) -> float:
        """The time at which the first item can be handled."""
        if not self.items:
            return inf
        return -inf if self._at is not None and offset_of(self.items[0]) < self._at else self._until

    def put_back(self, items: Sequence[Item], until: float, at: int | None, why: str) -> None:
        """Hold these failed items, before the items that are held already."""
        self.items = [*items, *self.items]
        self._until, self._at, self.why = until, at, why

    def reached(self, offset: int, epoch: int) -> tuple[int, int]:
        """The next offset and leader epoch for a commit, if the records before these were read. They never pass the
        first held item."""
        return (offset_of(self.items[0]), epoch_of(self.items[0])) if self.items else (offset, epoch)

    def take(self) -> list[Item]:
        """Remove and return all items."""
        items, self.items = self.items, []
        return items

    def part(self, items: list[Item], step: int) -> list[Item]:
        """Return the items whose offsets are less than `step` above the first one. Hold the others."""
        end = offset_of(items[0]) + step
        at = next((index for index, item in enumerate(items) if offset_of(item) >= end), len(items))
        self.items = items[at:]
        return items[:at]


def offset_of(item: Item) -> int:
    """The offset of a message, or of a refused record."""
    return item.offset if isinstance(item, Message) else item.record.offset()  # type: ignore[union-attr]


def epoch_of(item: Item) -> int:
    """The leader epoch of the item's record; -1 if unknown."""
    epoch = item.record.leader_epoch()  # type: ignore[union-attr]
    return -1 if epoch is None else epoch
