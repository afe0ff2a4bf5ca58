"""Which calls of slow handlers may begin, in which order, and which never do: here all of them, in turn."""

from collections.abc import Iterable, Sequence
from threading import Event

from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import SealedItem


class NotAdmitted(Exception):
    """A call did not begin: its time had passed. The attempt does not count."""


class CallAdmission:
    """Without limits. Threads call `enters` and `left`, the loop the others."""

    def accepted(self, items: Sequence[Item], place: TopicPartition) -> Sequence[Item]:
        """What becomes of new items of a partition: the item, what was decided in place of it, or nothing. Raises
        PersistenceError."""
        return items

    def ordered(self, ready: Sequence[SealedItem], others: Iterable[SealedItem], slots: int) -> Sequence[SealedItem]:
        """Of the items of a partition that are ready those that come first, if `slots` calls may begin here and in the
        other partitions of the worker."""
        return ready

    def admitted(self, ready: Sequence[SealedItem], now: float) -> Sequence[SealedItem]:
        """Those of the first items that may begin now. The `ready_at` of the others says when to ask again. Raises
        ChangelogIncomplete."""
        return ready

    def enters(self, item: SealedItem, cancelled: Event) -> bool:
        """A thread is about to make the call of an item that was admitted. Whether it begins."""
        return True

    def left(self, item: SealedItem) -> None:
        """The call that entered has ended; its thread says so."""

    def turn(self, now: float) -> None:
        """The loop goes round. Raises PersistenceError."""
