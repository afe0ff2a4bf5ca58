"""Reports the owner's position in the log to the windows and the correlations of each partition.

The owner's clock may close a window, or a correlation that lacks a leg, only when no record waits to be read: only the
watermark makes a record late, and the missing leg may be among the unread records. So the partition must have been read
to its end since the last seek, its intake must not be paused, and none of its records may be in hand.

An end offset may be outdated when it is used: the connection may have failed silently, or the process may have been
paused. So before silence closes a window, the end offset is requested again, and only the answer permits it. The
request is a fetch, and the loop does not wait for it.
"""

from collections.abc import Sequence
from math import inf

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Gauge, TopicPartition
from sluicegate.streams.ownership.claims import Claims
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.partition_groups import Awaiting


class EventClocks:
    """The partitions of one worker whose groups need the end of the log."""

    def __init__(self, gauge: Gauge, claims: Claims) -> None:
        self._gauge, self._claims = gauge, claims
        self._asked: dict[TopicPartition, float] = {}  # the process' time at which each end was requested

    def look(self, batch: Sequence[Record], now: float) -> None:
        """Report the positions after a poll, before its records are taken and before windows may close."""
        for place in [place for place in self._asked if place not in self._claims.owners]:
            del self._asked[place]
        for place, owner in self._claims.owners.items():
            if awaits := owner.groups.awaits:
                _stand(awaits, *self._position(place, owner, _holds(batch, place), now))
                if any(groups.asks() for groups in awaits):
                    self._gauge.look_again(*place)
                    self._asked[place] = now
                    _stand(awaits, *self._position(place, owner, False, now))

    def _position(self, place: TopicPartition, owner: Owner, came: bool, now: float) -> tuple[int, bool, float, float]:
        """The next offset, whether the log ends there, the owner's time, and the time at which the end was
        requested."""
        at_end = self._gauge.ended(*place) >= owner.intake.offset and self._claims.intake.reads(place) and not came
        time = owner.now(now)
        return owner.intake.offset, at_end, time, time - (now - self._asked.get(place, -inf))


def _stand(awaits: Sequence[Awaiting], offset: int, at_end: bool, now: float, asked: float) -> None:
    for groups in awaits:
        groups.stands(offset, at_end, now, asked)


def _holds(batch: Sequence[Record], place: TopicPartition) -> bool:
    return any((record.topic(), record.partition()) == place for record in batch)
