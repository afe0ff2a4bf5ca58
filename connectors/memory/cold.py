"""The cold groups of a partition in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, nsmallest

from sluicegate.streams.contracts.values import ColdGroup

STALE = 1_000  # deadlines of groups that are not there any more may lie in the heap, beyond one for each group


@dataclass(slots=True)
class ColdRows:
    """The cold groups by key. `deadlines` holds (time, key) of each group with a deadline. Entries of groups that are
    gone may remain."""

    groups: dict[bytes, ColdGroup] = field(default_factory=dict)
    deadlines: list[tuple[float, bytes]] = field(default_factory=list)

    def apply(self, put: Sequence[ColdGroup], drop: Sequence[bytes]) -> None:
        for key in drop:
            self.groups.pop(key, None)
        for group in put:
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
        keys = (key for key in self.groups if after is None or key > after)
        return [self.groups[key] for key in nsmallest(limit, keys)]

    def before(self, end: bytes, limit: int) -> list[ColdGroup]:
        return [self.groups[key] for key in nsmallest(limit, (key for key in self.groups if key < end))]
