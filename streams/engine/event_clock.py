"""Tells the windows and the correlations of each partition where its owner stands in the log.

Only the watermark makes a record late, so the owner's clock may close windows only when no record waits to be read. And
a leg that waits to be read is not absent. The partition must have been read to its end since the last seek, its intake
must not be paused, and no record of it may be in hand. After a turn that took long, the end is looked for again: the
process may have stood still while records came.
"""

from collections.abc import Sequence

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Gauge, TopicPartition
from sluicegate.streams.ownership.claims import Claims
from sluicegate.streams.ownership.owner import Owner

STILL = 0.5  # seconds; a turn without work takes half of it


class EventClocks:
    """The partitions of one worker whose groups ask for the end of the log."""

    def __init__(self, gauge: Gauge, claims: Claims) -> None:
        self._gauge, self._claims = gauge, claims
        self._looked = 0.0
        self._asked: set[TopicPartition] = set()  # their ends are being looked for again

    def look(self, batch: Sequence[Record], now: float) -> None:
        """After a poll, before its records are taken and before windows may close."""
        stood_still, self._looked = now - self._looked > STILL, now
        self._asked.intersection_update(self._claims.owners)
        for place, owner in self._claims.owners.items():
            if owner.awaits is not None:
                came = _holds(batch, place)
                at_end = self._at_end(place, owner) and not came
                if at_end and stood_still and place not in self._asked:
                    self._gauge.look_again(*place)
                    self._asked.add(place)
                    at_end = self._at_end(place, owner)
                elif at_end or came:  # an answer of a broker, which holds, also if the store took long before
                    self._asked.discard(place)
                owner.awaits.stands(owner.offset, at_end, owner.now(now))

    def _at_end(self, place: TopicPartition, owner: Owner) -> bool:
        return self._gauge.ended(*place) >= owner.offset and self._claims.intake.reads(place)


def _holds(batch: Sequence[Record], place: TopicPartition) -> bool:
    return any((record.topic(), record.partition()) == place for record in batch)
