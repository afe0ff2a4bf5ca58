"""Items whose handler failed, or that follow such an item: they are handled later, by the same owner under the same
claim.

Nothing about them is committed until then, so a crash, or the end of the owner, reads their records again.
"""

from collections.abc import Sequence
from math import inf

from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.values import Message


class WaitingItems:
    """Of one partition. The item at the offset `at`, and what follows it, waits `until` then, in the process' own time;
    with `at` None all of them wait. `why` is what failed."""

    __slots__ = ("_at", "_until", "items", "why")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._until, self.why = -inf, ""
        self._at: int | None = None

    def waits(self, now: float) -> bool:
        """Is it too early to handle the first one?"""
        return bool(self.items) and now < self.due()

    def ready(self, now: float) -> bool:
        return bool(self.items) and now >= self.due()

    def due(self) -> float:
        """When the first one can be handled."""
        if not self.items:
            return inf
        return -inf if self._at is not None and offset_of(self.items[0]) < self._at else self._until

    def put_back(self, items: Sequence[Item], until: float, at: int | None, why: str) -> None:
        """Handling these failed. They come before those that are held already."""
        self.items = [*items, *self.items]
        self._until, self._at, self.why = until, at, why

    def reached(self, offset: int, epoch: int) -> tuple[int, int]:
        """The next offset for a commit, and its leader epoch, when these were read: no further than the first item."""
        return (offset_of(self.items[0]), epoch_of(self.items[0])) if self.items else (offset, epoch)

    def taken(self) -> list[Item]:
        """All of them, to be handled."""
        items, self.items = self.items, []
        return items

    def part(self, items: list[Item], step: int) -> list[Item]:
        """Those whose offsets lie less than `step` above the first one's; the others are held."""
        end = offset_of(items[0]) + step
        at = next((index for index, item in enumerate(items) if offset_of(item) >= end), len(items))
        self.items = items[at:]
        return items[:at]


def offset_of(item: Item) -> int:
    """Of a message, or of a record that was refused."""
    return item.offset if isinstance(item, Message) else item.record.offset()  # type: ignore[union-attr]


def epoch_of(item: Item) -> int:
    """The leader epoch of its record; -1: not known."""
    epoch = item.record.leader_epoch()  # type: ignore[union-attr]
    return -1 if epoch is None else epoch
