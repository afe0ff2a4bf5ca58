"""Kafka transactions over a log in memory, which has only committed messages."""

from collections.abc import Callable, Sequence

from sluicegate.streams import failpoints
from sluicegate.streams.contracts.stores import Cursor
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import Fenced, SystemNotReady
from sluicegate.streams.testing.log import Log


class LogTransactions:
    """Satisfies sluicegate.streams.contracts.stores.OutputTransactions. `fate` decides about a transaction: sent,
    rejected, failed (unknown, not written) or lost (unknown, written). `time` gives seconds since 1970."""

    def __init__(self, log: Log, partition: Partition, time: Callable[[], float] = lambda: 0.0) -> None:
        self.log, self.partition, self._time = log, partition, time
        self.fate: Callable[[Sequence[OutboxRow]], str] = lambda rows: "sent"
        self._epoch = 0

    def open(self) -> Cursor:
        self._epoch = self.log.epochs[self.partition] = self.log.epochs.get(self.partition, 0) + 1
        return self.log.cursors.get(self.partition, {})

    def send(self, rows: Sequence[OutboxRow], cursor: Cursor) -> str:
        failpoints.hit("txn-produced")
        if self._epoch != self.log.epochs.get(self.partition):
            raise Fenced("a newer producer was opened")
        fate = self.fate(rows)
        if fate == "rejected":
            return "rejected: by the test"
        if fate != "failed":
            for row in rows:
                self.log.append(
                    row.topic, row.partition, row.key, row.value, list(row.headers), int(self._time() * 1000)
                )
            self.log.cursors[self.partition] = dict(cursor)
        if fate != "sent":
            raise SystemNotReady(f"{fate}: by the test")
        failpoints.hit("txn-committed")
        return ""

    def close(self) -> None: ...
