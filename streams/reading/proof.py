"""Whether the headers of a record are believed that would steer the agent (docs/protocol.md, Proof)."""

from sluicegate.streams.contracts.lanes import is_lane_of
from sluicegate.streams.contracts.mac import STEERING, Mac
from sluicegate.streams.contracts.record import KeptRecord, Record, headers

UNKNOWN = -1  # as the first offset: no record needs a MAC yet


class HeaderProof:
    """Records from the offset `since` on need a MAC. `refused` counts those whose headers were not believed."""

    __slots__ = ("mac", "refused", "since", "told")

    def __init__(self, mac: Mac | None = None, since: int = UNKNOWN) -> None:
        self.mac, self.since = mac, since
        self.refused, self.told = 0, False

    def keys(self, record: Record) -> Mac | None:
        """The keys with which the record must be proven; None where its headers are believed as they are."""
        return self.mac if 0 <= self.since <= record.offset() else None

    def believes(self, record: Record) -> bool:
        return (keys := self.keys(record)) is None or keys.proves(record)

    def begins(self, now: float) -> bool:
        """Whether records need a MAC from `now` on, the store's time, and did not before."""
        return self.since == UNKNOWN and self.mac is not None and now >= self.mac.since

    def refuse(self, record: Record, shard: str) -> Record:
        """A record without a MAC, without the headers that steer. `shard` is what it says of its sender: another app
        signs with a key of its own, so its numbers are refused nothing."""
        steers = any(name in STEERING for name, _ in headers(record))
        app = "" if self.mac is None else self.mac.app
        if steers or (app and (shard.startswith(f"{app}/") or is_lane_of(app, shard))):
            self.refused += 1
        return without_steering(record) if steers else record


def without_steering(record: Record) -> Record:
    kept = [header for header in headers(record) if header[0] not in STEERING]
    place = record.topic(), record.partition(), record.offset()
    return KeptRecord(place, record.key(), record.value(), kept, record.timestamp())
