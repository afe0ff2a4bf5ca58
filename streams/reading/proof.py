"""Decides whether headers of a record that would steer the agent are trusted (docs/protocol.md, Proof)."""

from sluicegate.streams.contracts.lanes import is_lane_of
from sluicegate.streams.contracts.mac import STEERING, Mac
from sluicegate.streams.contracts.record import KeptRecord, Record, headers

UNKNOWN = -1  # as the first offset: no record needs a MAC yet


class HeaderProof:
    """Records from the offset `since` on need a MAC. `refused` counts the records whose headers were not trusted."""

    __slots__ = ("mac", "refused", "since", "warned")

    def __init__(self, mac: Mac | None = None, since: int = UNKNOWN) -> None:
        self.mac, self.since = mac, since
        self.refused, self.warned = 0, False

    def keys(self, record: Record) -> Mac | None:
        """The keys that must verify the record. None if its headers are trusted without a MAC."""
        return self.mac if 0 <= self.since <= record.offset() else None

    def believes(self, record: Record) -> bool:
        return (keys := self.keys(record)) is None or keys.proves(record)

    def begins(self, now: float) -> bool:
        """Whether records need a MAC from `now`, the store's time, on, and did not before."""
        return self.since == UNKNOWN and self.mac is not None and now >= self.mac.since

    def refuse(self, record: Record, shard: str) -> Record:
        """Handle a record without a valid MAC: remove the headers that steer, and count it. `shard` is the sender in
        its headers. The numbers of another app are not counted, because that app signs with its own key."""
        steers = any(name in STEERING for name, _ in headers(record))
        app = "" if self.mac is None else self.mac.app
        if steers or (app and (shard.startswith(f"{app}/") or is_lane_of(app, shard))):
            self.refused += 1
        return without_steering(record) if steers else record


def without_steering(record: Record) -> Record:
    pairs = [header for header in headers(record) if header[0] not in STEERING]
    place = record.topic(), record.partition(), record.offset()
    return KeptRecord(place, record.key(), record.value(), pairs, record.timestamp())
