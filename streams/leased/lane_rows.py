"""Rows of a lane as the producer takes them: their partition, and the headers by which receivers drop repeats."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from streams.contracts import OutputFacts
from streams.errors import SystemNotReady, TopicMissing
from streams.leased.messages import LaneBatch, LaneRow, Outcome
from streams.values import OutboxRow

OURS = frozenset(("sluicegate-id", "sluicegate-shard", "sluicegate-seq"))


class Sendable(NamedTuple):
    """What of a batch can be handed over, in order; rows that cannot, now; and why Kafka did not say, if it did not."""

    batch: LaneBatch
    rows: Sequence[OutboxRow]
    failed: Sequence[Outcome] = ()
    away: str = ""


class LaneRows:
    """`source` names the store's data: with the lane it is the sender that receivers know (protocol.md, Receive)."""

    def __init__(self, facts: OutputFacts, source: str) -> None:
        self._facts, self._source = facts, source
        self._shards: dict[tuple[int, str], bytes] = {}

    def ordered(self, batch: LaneBatch) -> Sendable:
        """Up to the first row that cannot be sent. A row that failed before goes alone, so that nothing passes it while it is under way."""
        rows: list[OutboxRow] = []
        for row in batch.rows:
            if row.attempts and rows:
                break
            try:
                rows.append(self._made(row, batch.lane))
            except TopicMissing as error:
                return Sendable(batch, rows, [Outcome(row.message.id, "failed", str(error))])
            except SystemNotReady as error:
                return Sendable(batch, rows, (), str(error))
            if row.attempts:
                break
        return Sendable(batch, rows)

    def unordered(self, batch: LaneBatch) -> Sendable:
        """All that can be sent; they are numbered by their place, receivers know them by their ids alone."""
        rows: list[OutboxRow] = []
        failed: list[Outcome] = []
        away = ""
        for place, row in enumerate(batch.rows, 1):
            try:
                rows.append(self._made(row._replace(number=place), -1))
            except TopicMissing as error:
                failed.append(Outcome(row.message.id, "failed", str(error)))
            except SystemNotReady as error:
                away = str(error)
                failed.append(Outcome(row.message.id, "outage", away))
        return Sendable(batch, rows, failed, away)

    def _made(self, row: LaneRow, lane: int) -> OutboxRow:
        number, message = row.number, row.message
        key, topic = message.key, message.topic
        count = self._facts.partitions(topic)
        place = self._facts.partition_of(key, count) if key is not None else zlib.crc32(message.id.encode()) % count
        headers: list[tuple[str, bytes | None]] = [("sluicegate-id", message.id.encode())]
        if lane >= 0:
            shard = self._shards.get((lane, topic)) or self._shard(lane, topic)
            headers += (("sluicegate-shard", shard), ("sluicegate-seq", b"%d" % number))
        if message.headers:
            headers += [header for header in message.headers if header[0] not in OURS]
        return OutboxRow(number, "", message.id, topic, place, key, message.value, headers)

    def _shard(self, lane: int, topic: str) -> bytes:
        shard = self._shards[lane, topic] = f"outbox/{lane}>{topic}#{self._source}".encode()
        return shard
