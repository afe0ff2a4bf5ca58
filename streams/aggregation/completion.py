"""When a group is complete: at a count, at a limit, or at the nearest of its timeouts."""

from dataclasses import dataclass
from math import inf

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.layout import DEADLINE, DEADLINE_SINCE, OPENED, SEEN, GroupState


@dataclass(frozen=True, slots=True)
class Completion:
    """The conditions under which a group is complete. `most` is the record count at which the group is checked: the
    smaller of the count and the limit. Infinity means no condition. `from_data`: records give deadlines, which are
    stored in the state."""

    count: float
    most: float
    since_first: float
    since_last: float
    from_data: bool = False

    @property
    def timed(self) -> bool:
        return self.since_first < inf or self.since_last < inf or self.from_data

    def due(self, state: GroupState, idle: float = 0.0) -> float:
        """The moment at which this group times out, on the owner's clock; infinity for never.

        `since_last` counts from the last record, but never from before `idle`: the time of earlier records is not kept.
        """
        first: float = state[OPENED] + self.since_first
        if self.from_data and (deadline := deadline_of(state)) < first:
            first = deadline
        if self.since_last == inf:
            return first
        last: float = max(state[SEEN] or state[OPENED], idle) + self.since_last
        return min(first, last)


def deadline_of(state: GroupState) -> float:
    """The deadline that a record gave, read from the state; infinity for none."""
    seconds, since = state[DEADLINE], state[DEADLINE_SINCE]
    return inf if seconds is None else float(seconds) if since is None else since + seconds


def completion(aggregation: Aggregation) -> Completion:
    count = aggregation.count or inf
    return Completion(
        count,
        inf if aggregation.table else min(count, aggregation.max_items),
        aggregation.since_first or inf,
        aggregation.since_last or inf,
        aggregation.deadline is not None,
    )
