"""The keys of a partition whose correlation has ended. A record with such a key is late and opens no new group.

The changelog stores the keys as it stores the ids of `dedupe`.
"""

from hashlib import sha256

from sluicegate.streams.agent import Correlation
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.units import spoken_duration

SOURCE = "correlated"
LONGEST = 64  # bytes; of a longer key the SHA-256 is stored


class EndedKeys:
    """`ids` are the keys. `now` is a time of the owner's clock."""

    __slots__ = ("_correlation", "ids")

    def __init__(self, correlation: Correlation) -> None:
        self._correlation = correlation
        self.ids = KnownIds(SOURCE, correlation.remember, correlation.max_keys)

    def note(self, key: bytes, now: float) -> None:
        """Note that the group of this key has ended."""
        if self._correlation.remember:
            self.ids.note([_identity(key)], now)

    def refuses(self, groups: Groups, key: bytes, record: Record, now: float) -> bool:
        """Whether the group of this key has ended. If so, the record is refused as late."""
        if not self.ids.holds(_identity(key), now):
            return False
        remembered = spoken_duration(self._correlation.remember)
        text = f"the correlation of this key has ended, and ended keys are remembered for {remembered}"
        self.refuse(groups, record, text)
        return True

    def refuse(self, groups: Groups, record: Record, text: str) -> None:
        """Refuse the record as late, or leave it out if the file says `late: skip`."""
        groups.counts["late_legs"] += 1
        if self._correlation.late == "dead-letter":
            groups.refuse(record, "aggregate", "late", text)


def _identity(key: bytes) -> bytes:
    return key if len(key) <= LONGEST else sha256(key).digest()
