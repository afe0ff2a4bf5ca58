"""When a group is complete: at a count, at a limit, or at the nearer of its two timeouts."""

from dataclasses import dataclass
from math import inf

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.layout import OPENED, SEEN, GroupState


@dataclass(frozen=True, slots=True)
class Completion:
    """`most` is the record count at which something happens (the count, or the limit); infinities where nothing
    does."""

    count: float
    most: float
    since_first: float
    since_last: float

    @property
    def timed(self) -> bool:
        return self.since_first < inf or self.since_last < inf

    def due(self, state: GroupState, idle: float = 0.0) -> float:
        """The moment at which this group times out, on the owner's clock; infinity for never.

        `since_last` counts from the last record, but never from before `idle`: the time of earlier records is not kept.
        """
        first: float = state[OPENED] + self.since_first
        if self.since_last == inf:
            return first
        last: float = max(state[SEEN] or state[OPENED], idle) + self.since_last
        return min(first, last)


def completion(aggregation: Aggregation) -> Completion:
    count = aggregation.count or inf
    return Completion(
        count, min(count, aggregation.max_items), aggregation.since_first or inf, aggregation.since_last or inf
    )
