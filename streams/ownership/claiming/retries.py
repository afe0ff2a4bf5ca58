"""The times at which waiting partitions are claimed."""

from collections.abc import Callable, Iterable, Iterator
from math import inf

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import TopicPartition


class ClaimRetries:
    """`waiting` has the times of the next claims. A partition is in `backoffs` from its first failure until it commits
    records again."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.waiting: dict[TopicPartition, float] = {}
        self.backoffs: dict[TopicPartition, Backoff] = {}

    @property
    def next(self) -> float:
        """The time of the next claim; infinity if no partition waits."""
        return min(self.waiting.values(), default=inf)

    def begin(self, places: Iterable[TopicPartition], at: float) -> None:
        """Claim these partitions at this time."""
        self.waiting.update(dict.fromkeys(places, at))

    def back_off(self, place: TopicPartition, now: float) -> float:
        """Claim the partition after its next back-off. Returns the seconds until then."""
        delay = self.backoffs.setdefault(place, Backoff(0.1, 2.0, self._random)).delay()
        self.waiting[place] = now + delay
        return delay

    def due(self, now: float) -> Iterator[TopicPartition]:
        """Take the partitions whose claim is due."""
        for place in [place for place, at in self.waiting.items() if at <= now]:
            del self.waiting[place]
            yield place

    def forget(self, place: TopicPartition) -> None:
        self.waiting.pop(place, None)
        self.backoffs.pop(place, None)
