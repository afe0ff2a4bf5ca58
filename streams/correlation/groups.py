"""The open correlations of one partition, by the owner's clock. They replace its groups.

See docs/protocol.md, Correlations.
"""

from math import inf
from typing import Any

from sluicegate.streams.agent import Correlation
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import Bags, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.correlation.ended import EndedKeys


class CorrelatedGroups(Groups):
    """Groups by key. Each of them ends once within `remember`.

    The owner reports its position (`begin`, `stands`). No group times out before the owner has read the records that
    waited at its claim: a leg that waits to be read is not absent.
    """

    __slots__ = ("_high", "caught_up", "ended")

    def __init__(self, rule: Rule, correlation: Correlation, notes: bool = False) -> None:
        super().__init__(rule, notes)
        self.ended = EndedKeys(correlation)
        self.caught_up, self._high = False, -1
        self.counts |= {"late_legs": 0}

    def beside(self, newest: Groups) -> None:
        """As in Groups. Keys that ended under either rule are ended for both."""
        if isinstance(newest, CorrelatedGroups):
            self.ended = newest.ended

    def begin(self, high: int, now: float) -> None:
        """A claim begins at the owner's time `now`. The partition ends before the offset `high`."""
        self._high, self.caught_up = high, False

    def stands(self, offset: int, at_end: bool, now: float, asked: float) -> None:
        """The owner has read the records before `offset`."""
        self.caught_up = self.caught_up or at_end or 0 <= self._high <= offset

    def asks(self) -> bool:
        """Always False: silence ends no correlation by the owner's clock."""
        return False

    def obeys_clock(self) -> bool:
        """As in Groups: not before the owner has caught up."""
        return self.caught_up

    def next_due(self) -> float:
        """As in Groups; infinity before the owner has caught up."""
        return super().next_due() if self.caught_up else inf

    def give_deadline(self, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        """As in Groups; no group times out before the owner has caught up."""
        return super().give_deadline(key, state, deadline, now) and self.caught_up

    def set_back(self, now: float) -> None:
        super().set_back(now)
        self.ended.ids.set_back(now)

    def admits(self, key: bytes, state: GroupState | None, record: Record, items: list[Any], now: float) -> bool:
        """As in Groups, but a late record is refused."""
        if state is None and self.ended.refuses(self, key, record, now):
            return False
        return super().admits(key, state, record, items, now)

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """As in Groups. None also for a late record."""
        if key is not None and self.ended.refuses(self, key, record, now):
            return None
        return super().open(key, record, now)

    def emit_end(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, repeats: bool = False
    ) -> None:
        super().emit_end(key, state, bags, reason, now, repeats)
        self.ended.note(key, now)
