"""The outbox of a partition whose rows go to several clusters. Each cluster has its own relay and producer, and its own
part of the rows. A cluster that is down does not block rows for another one.

All parts share one sequence of numbers, as the store has it. Receivers keep the output topics apart, so a number of one
cluster need not wait for a lower one of another.
"""

from collections.abc import Collection, Mapping, Sequence

from sluicegate.streams.contracts.values import DeadRow, OutboxRow, Partition
from sluicegate.streams.outbox.relay import NOWHERE, ReadDead, ReadPage, Relay, Shard, no_dead
from sluicegate.streams.topic_names import cluster_of


class SplitShard:
    """The unsent rows of one partition under one claim, by cluster. It has the attributes of Shard that the owner and
    the worker use."""

    __slots__ = ("_recording", "partition", "parts")

    def __init__(
        self,
        clusters: Collection[str],
        read: ReadPage,
        claimed: int,
        lineage: str,
        stops: bool = False,
        partition: Partition = NOWHERE,
        dead: ReadDead = no_dead,
    ) -> None:
        """As Shard. `clusters` are the names that topics use. The part of the default cluster also has the rows of
        unknown clusters: its producer refuses them."""
        self.partition = partition
        self.parts = {
            name: Shard(read, claimed, lineage, stops, partition, dead, lambda row, of=name: self._of(row) == of)  # type: ignore[misc]
            for name in clusters
        }
        self._recording: dict[str, set[int]] = {}

    def _of(self, row: OutboxRow) -> str:
        cluster = cluster_of(row.topic)
        return cluster if cluster in self.parts else ""

    @property
    def full(self) -> bool:
        return any(part.full for part in self.parts.values())

    @property
    def roomy(self) -> bool:
        return all(part.roomy for part in self.parts.values())

    @property
    def more(self) -> bool:
        return any(part.more for part in self.parts.values())

    @property
    def large(self) -> bool:
        return any(part.large for part in self.parts.values())

    @property
    def unsent(self) -> int:
        return sum(part.unsent for part in self.parts.values())

    @property
    def out(self) -> Mapping[int, OutboxRow]:
        return {number: row for part in self.parts.values() for number, row in part.out.items()}

    @property
    def oldest(self) -> float | None:
        return min((at for part in self.parts.values() if (at := part.oldest) is not None), default=None)

    @property
    def reported(self) -> bool:
        return any(part.reported for part in self.parts.values())

    @property
    def dead(self) -> bool:
        return any(part.dead for part in self.parts.values())

    @property
    def pressing(self) -> bool:
        return any(part.pressing for part in self.parts.values())

    @property
    def refusal(self) -> str:
        return next((part.refusal for part in self.parts.values() if part.refusal), "")

    @property
    def stopped(self) -> bool:
        return any(part.stopped for part in self.parts.values())

    def add(self, rows: Sequence[OutboxRow], now: float) -> None:
        of_parts: dict[str, list[OutboxRow]] = {}
        for row in rows:
            of_parts.setdefault(self._of(row), []).append(row)
        for name, own in of_parts.items():
            self.parts[name].add(own, now)

    def take_reports(self) -> tuple[list[int], list[DeadRow]]:
        delivered: list[int] = []
        dead: list[DeadRow] = []
        self._recording = {}
        for name, part in self.parts.items():
            numbers, rows = part.take_reports()
            delivered += numbers
            dead += rows
            self._recording[name] = {*numbers, *(row.number for row in rows)}
        return sorted(delivered), dead

    def recorded(self, numbers: Sequence[int]) -> None:
        for name, part in self.parts.items():
            own = self._recording.get(name, ())
            part.recorded([number for number in numbers if number in own])


class SplitRelay:
    """The relays of all clusters. Satisfies sluicegate.streams.outbox.relay.Outgoing."""

    busy = False

    def __init__(self, relays: Mapping[str, Relay]) -> None:
        self._relays = relays

    def turn(self, shards: Sequence[SplitShard], now: float) -> int:
        return sum(relay.turn([shard.parts[name] for shard in shards], now) for name, relay in self._relays.items())

    def unrecorded(self) -> Collection[Partition]:
        return {partition for relay in self._relays.values() for partition in relay.unrecorded()}

    def close(self) -> None:
        """Does nothing: the caller closes the producers."""
