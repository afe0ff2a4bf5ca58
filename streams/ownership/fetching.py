"""The partitions of a worker that ended processes while they were fetched. They are fetched one at a time, apart from
all others (docs/protocol.md, Crash marks).

All other partitions begin first. So they go on even if the next fetch ends this process as well.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from sluicegate.streams.contracts.stores import Gauge, TopicPartition
from sluicegate.streams.ownership.owner import Owner

PATIENCE = 60.0  # seconds of a fetch after which it counts as one that ends no process
OTHERS_FIRST = 3.0  # seconds that a partition waits for the first records of others


class FetchedApart:
    """`waiting` are owners that are restored and whose fetch has not begun. `current` is fetched now."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._log = structlog.get_logger()
        self.waiting: dict[TopicPartition, Callable[[], None]] = {}
        self.current: Owner | None = None
        self._since, self._offset = 0.0, -1
        self._first = 0.0

    def wait(self, owner: Owner, begin: Callable[[], None], now: float) -> None:
        """Have `begin` called when it is this partition's turn."""
        self.waiting[owner.place] = begin
        self._first = now
        text = "processes ended while they fetched it: it is fetched apart from other partitions"
        where = {"topic": owner.place[0], "partition": owner.place[1], "offset": owner.offset}
        self._log.warning("partition.suspected", **where, text=text)

    def begins(self, owner: Owner, now: float) -> None:
        self.current, self._since, self._offset = owner, now, owner.claim.offset

    def forget(self, place: TopicPartition) -> None:
        self.waiting.pop(place, None)
        if self.current is not None and self.current.place == place:
            self.current = None

    def next(self, others: Iterable[Owner], now: float) -> Callable[[], None] | None:
        """What begins the next partition. None: none waits, or others have not had their first records yet."""
        if not self.waiting or self.current is not None:
            return None
        if now - self._first < OTHERS_FIRST and any(owner.marks.set for owner in others):
            return None
        return self.waiting.pop(next(iter(self.waiting)))

    def ended(self, owners: Mapping[TopicPartition, Owner], now: float) -> Owner | None:
        """The current owner, if the records that were suspected are read. It is current no more."""
        owner = self.current
        if owner is None or owners.get(owner.place) is not owner:
            self.current = None
            return None
        if owner.claim.offset != self._offset:
            self._since, self._offset = now, owner.claim.offset
        read = owner.offset >= owner.marks.apart_to or self._gauge.ended(*owner.place) >= owner.offset
        if not read and now - self._since < PATIENCE:
            return None
        self.current = None
        return owner

    def committed(self) -> TopicPartition | None:
        """The current partition, if all records that were read of it are committed."""
        owner = self.current
        return owner.place if owner is not None and owner.offset == owner.claim.offset else None

    def reasons(self) -> list[str]:
        """Why the worker is not ready."""
        return [f"waiting to fetch {topic}/{number}: fetching it ended processes" for topic, number in self.waiting]


def long_fetched(owners: Collection[Owner], now: float) -> list[Owner]:
    """The owners whose first fetch has gone on for so long that it ends no process: nothing is there to read."""
    return [
        owner for owner in owners if owner.marks.fetching and not owner.marks.apart and now - owner.began > PATIENCE
    ]
