"""Decides which calls of slow handlers may begin, in which order, and which never begin. The default admits all of them
in order."""

from collections.abc import Iterable, Sequence
from threading import Event

from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import SealedItem


class NotAdmitted(Exception):
    """A call did not begin, because its time had passed. The attempt does not count."""


class CallAdmission:
    """Admits every call. Threads call `enter` and `release`; the loop calls the other methods."""

    def accept(self, items: Sequence[Item], place: TopicPartition) -> Sequence[Item]:
        """Process new items of a partition. Returns the item, the decision that replaces it, or nothing, for each.
        Raises PersistenceError."""
        return items

    def order(self, ready: Sequence[SealedItem], others: Iterable[SealedItem], slots: int) -> Sequence[SealedItem]:
        """The ready items of a partition that come first, if `slots` calls may begin in all partitions of the worker.
        `others` are the ready items of the other partitions."""
        return ready

    def admit(self, ready: Sequence[SealedItem], now: float) -> Sequence[SealedItem]:
        """The items among `ready` that may begin now. For the others, `ready_at` is set to the time of the next check.
        Raises ChangelogIncomplete."""
        return ready

    def enter(self, item: SealedItem, cancelled: Event) -> bool:
        """Called by a thread before the call of an admitted item. Returns False if the call must not begin."""
        return True

    def release(self, item: SealedItem) -> None:
        """Called by a thread after the call of an item that entered has ended."""

    def turn(self, now: float) -> None:
        """Called once in each turn of the loop. Raises PersistenceError."""
