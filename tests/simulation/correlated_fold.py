"""The judge of correlations: a key ends once, and no group times out while a record of it lay unread at the claim."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import Fold


class Correlated(Fold):
    """As Fold. The records of a key that has ended are late."""

    def __init__(
        self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen], identify: Any
    ) -> None:
        self._late: list[LogRecord] = []
        self._sent = sent
        super().__init__(agent, records, crashed, sent, identify)

    def _take(self, record: LogRecord, timeouts: dict[str, int]) -> None:
        if record.k in self.oracle.fires and record.v is not None and record.v[-1:] == b"}":
            self.oracle.refused.append((record.o, "late"))
            self._late.append(record)
        else:
            super()._take(record, timeouts)

    def left(self, world: Any, partition: Partition) -> list[str]:
        return [*super().left(world, partition), *self._absences(world, partition)]

    def _absences(self, world: Any, partition: Partition) -> Iterator[str]:
        """Late records that were in the log before the owner claimed that called their leg absent. Records behind the
        end that the broker named at the claim do not count. A leader names no end that is too low (KIP-207), but the
        fault `stale` lets it."""
        claims = dict(world.claims.get(partition, []))
        fires = {self.identify(fire[2]): fire for fires in self.oracle.fires.values() for fire in fires}
        for message in self._sent:
            fire = fires.get(message.headers.get("sluicegate-fire", ""))
            if fire is None or fire[0] != "timeout":
                continue
            token = message.headers["sluicegate-shard"].rpartition("#")[2]
            before, high = int(1000 * claims.get(token, 0.0)), world.highs.get(token, inf)
            unread = [late.o for late in self._late if late.k == message.key and late.at < before and late.o < high]
            if unread:
                yield f"{partition}: {message.key!r} timed out while its records {unread} waited to be read"
