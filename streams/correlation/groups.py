"""The open correlations of one partition, in the place of its groups.

A key whose group ended is remembered. A record of such a key is late: it opens no new group. The remembered keys are in
the changelog, as the ids of `dedupe` are.

See docs/protocol.md, Correlations.
"""

from hashlib import sha256
from math import inf

from sluicegate.streams.agent import Correlation
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.units import spoken_duration

SOURCE = "correlated"
LONGEST = 64  # bytes; a longer key is remembered by its SHA-256


class CorrelatedGroups(Groups):
    """Groups by key, each of which ends once within `remember`.

    The owner says where it stands (`begin`, `stands`). No group times out before the owner has read what waited at its
    claim: a leg that waits to be read is not absent.
    """

    __slots__ = ("_high", "caught_up", "correlation", "finished")

    def __init__(self, rule: Rule, correlation: Correlation, notes: bool = False) -> None:
        super().__init__(rule, notes)
        self.correlation = correlation
        self.finished = KnownIds(SOURCE, correlation.remember, correlation.max_keys)
        self.caught_up, self._high = False, -1
        self.counts |= {"late_legs": 0}

    def begin(self, high: int, now: float) -> None:
        """A claim begins at the owner's time `now`. The partition ends before the offset `high`."""
        self._high, self.caught_up = high, False

    def stands(self, offset: int, at_end: bool, now: float) -> None:
        """The owner has taken the records before `offset`."""
        self.caught_up = self.caught_up or at_end or 0 <= self._high <= offset

    def next_due(self) -> float:
        """As in Groups; infinity before the owner has caught up."""
        return super().next_due() if self.caught_up else inf

    def admits(self, key: bytes, state: GroupState | None, record: Record, size: int, now: float) -> bool:
        """As in Groups; a late record gets no room."""
        if state is None and self._refuses(key, record, now):
            return False
        return super().admits(key, state, record, size, now)

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """As in Groups; None for a late record."""
        if key is not None and self._refuses(key, record, now):
            return None
        return super().open(key, record, now)

    def fire(self, key: bytes, reason: str, now: float) -> None:
        super().fire(key, reason, now)
        if self.correlation.remember:
            self.finished.note([_identity(key)], now)

    def _refuses(self, key: bytes, record: Record, now: float) -> bool:
        """Whether the group of this key has ended. Then the record is late."""
        if not self.finished.holds(_identity(key), now):
            return False
        self.counts["late_legs"] += 1
        if self.correlation.late == "dead-letter":
            remembered = spoken_duration(self.correlation.remember)
            text = f"the correlation of this key has ended, and ended keys are remembered for {remembered}"
            self.refuse(record, "aggregate", "late", text)
        return True


def _identity(key: bytes) -> bytes:
    return key if len(key) <= LONGEST else sha256(key).digest()
