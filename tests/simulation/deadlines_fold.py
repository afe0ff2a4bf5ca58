"""A group with a deadline from its records ends, not before it, and a group without one goes on."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import Fold, loads
from tests.simulation.timers import ROUNDED, highest, lowest, seconds


class Promise(NamedTuple):
    """The newest deadline of a group, in seconds, and the offset of the record that gave it."""

    wait: float
    giver: int


class Deadlines(Fold):
    """As Fold. `left` asks whether each timeout was due, and whether none is missing."""

    def __init__(
        self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen], identify: Any
    ) -> None:
        super().__init__(agent, records, crashed, sent, identify)
        self._sent = {self.group_of(message): message for message in sent if self.group_of(message)}

    def left(self, world: Any, partition: Partition) -> list[str]:
        return [*super().left(world, partition), *self._missing(partition), *self._early(world, partition)]

    def _missing(self, partition: Partition) -> Iterator[str]:
        for key, group in self.oracle.groups.items():
            if promise := self._promise(key, group.first, group.last):
                yield f"{partition}: the group of {key!r} from {group.first} has {promise} and never ended"

    def _early(self, world: Any, partition: Partition) -> Iterator[str]:
        assert self.agent.aggregation is not None
        assert self.agent.aggregation.deadline is not None
        since = self.agent.aggregation.deadline.since
        for key, fires in self.oracle.fires.items():
            for reason, _, first, last, *_ in fires:
                message = self._sent.get(self.identify(first))
                if reason != "timeout" or message is None or message.offset < 0:
                    continue
                place = f"{partition}: the group of {key!r} from {first} to {last}"
                if (promise := self._promise(key, first, last)) is None:
                    yield f"{place} timed out, and has no deadline"
                elif (early := self._by(world, message, promise, since)) > ROUNDED:
                    yield f"{place} timed out {early:.3f} s before {promise}"

    def _by(self, world: Any, message: Seen, promise: Promise, since: str) -> float:
        """By how many seconds the group timed out too early."""
        document = loads(message.value)
        if since == "first":
            return promise.wait - (seconds(document["closed_at"]) - seconds(document["opened_at"]))
        now = world.log.topics[message.topic][message.partition][message.offset].at / 1000
        time = next(record.at / 1000 for record in self.usable if record.o == promise.giver)
        return lowest(world, time, now) + promise.wait - highest(world, now)

    def _promise(self, key: bytes, first: int, last: int) -> Promise | None:
        """What the records of the group come to."""
        promise: Promise | None = None
        for record in self.usable:
            if record.k != key or not first <= record.o <= last:
                continue
            value = loads(record.v)
            if value["off"]:
                promise = None
            elif "wait" in value:
                promise = Promise(value["wait"], record.o)
        return promise
