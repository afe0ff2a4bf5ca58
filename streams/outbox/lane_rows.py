"""Converts rows of a lane to rows for the producer: adds a partition and the headers by which receivers drop
repeats."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from sluicegate.streams.contracts.headers import ID, NUMBER, OF_ROW, SHARD
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.lanes import MOST_LANES, SENDER
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.stores import OutputFacts
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import SystemNotReady, TopicMissing
from sluicegate.streams.topic_names import plain

OUTBOX = SENDER.encode()
KEYS = 50_000  # the number of keys whose partitions are cached


def lane_of(row: OutboxRow) -> int:
    """The lane of a row that this module made; -1 for rows without order."""
    shard = next((value for name, value in row.headers if name == SHARD and value is not None), b"")
    return int(shard[len(OUTBOX) : shard.index(b">")]) if shard else -1


class Sendable(NamedTuple):
    """The rows of a batch that can be handed over now, in order; the rows that failed; and in `away` the error if Kafka
    did not answer."""

    batch: LaneBatch
    rows: Sequence[OutboxRow]
    failed: Sequence[Outcome] = ()
    away: str = ""


class LaneRows:
    """`source` identifies the store's data. Receivers drop repeats by `source` and lane (docs/protocol.md, Receive)."""

    def __init__(self, facts: OutputFacts, source: str, mac: Mac | None = None) -> None:
        self._facts, self._source, self._mac = facts, source, mac
        self._shards: dict[tuple[int, str], tuple[str, bytes]] = {}
        self._places: dict[int, dict[bytes, int]] = {}  # partitions by key, by the number of partitions

    def _counts(self, batch: LaneBatch) -> dict[str, int | SystemNotReady]:
        """The number of partitions of each topic, or the error. Makes one request for each topic."""
        counts: dict[str, int | SystemNotReady] = {}
        for topic in {row.topic for row in batch.rows}:
            try:
                counts[topic] = self._facts.partitions(topic)
            except SystemNotReady as error:
                counts[topic] = error
        return counts

    def ordered(self, batch: LaneBatch) -> Sendable:
        """`_in_order`, signed. Rows of no app are not signed: dispatchers of all apps send them, with different
        keys."""
        sendable = self._in_order(batch)
        if self._mac is None or batch.lane < MOST_LANES:
            return sendable
        return sendable._replace(rows=self._mac.signed(sendable.rows))

    def _in_order(self, batch: LaneBatch) -> Sendable:
        """The rows before the first one that cannot be sent. A row that failed before is sent alone, so no row passes
        it while it is in flight."""
        counts = self._counts(batch)
        if (
            len(counts) == 1
            and isinstance(count := counts[batch.rows[0].topic], int)
            and not any(row.attempts for row in batch.rows)
        ):
            return Sendable(batch, self._made_alike(batch, count))
        rows: list[OutboxRow] = []
        for row in batch.rows:
            if row.attempts and rows:
                break
            count = counts[row.topic]
            if isinstance(count, TopicMissing):
                return Sendable(batch, rows, [Outcome(row.id, "failed", str(count))])
            if isinstance(count, SystemNotReady):
                return Sendable(batch, rows, (), str(count))
            rows.append(self._made(row.number, row, batch.lane, count))
            if row.attempts:
                break
        return Sendable(batch, rows)

    def _made_alike(self, batch: LaneBatch, count: int) -> Sequence[OutboxRow]:
        """`_made` for each row, for new rows of one topic. It takes half the time, because it makes no call for each
        row."""
        topic = batch.rows[0].topic
        shard, places = self._shard(batch.lane, topic), self._places.setdefault(count, {})
        rows: list[OutboxRow] = []
        for row in batch.rows:
            key, number, identity = row.key, row.number, row.id.encode()
            place = places.get(key, -1) if key is not None else zlib.crc32(identity) % count
            if place < 0 and key is not None:
                place = self._place(key, count)
            headers: list[tuple[str, bytes | None]] = [(ID, identity), shard, (NUMBER, b"%d" % number)]
            if row.headers:
                headers += [header for header in row.headers if header[0] not in OF_ROW]
            rows.append(OutboxRow(number, "", row.id, topic, place, key, row.value, headers))
        return rows

    def unordered(self, batch: LaneBatch) -> Sendable:
        """All rows that can be sent, numbered by their index. Receivers recognize them only by their ids."""
        rows: list[OutboxRow] = []
        failed: list[Outcome] = []
        away, counts = "", self._counts(batch)
        for place, row in enumerate(batch.rows, 1):
            count = counts[row.topic]
            if isinstance(count, TopicMissing):
                failed.append(Outcome(row.id, "failed", str(count)))
            elif isinstance(count, SystemNotReady):
                away = str(count)
                failed.append(Outcome(row.id, "outage", away))
            else:
                rows.append(self._made(place, row, -1, count))
        return Sendable(batch, rows, failed, away)

    def _made(self, number: int, row: LaneRow, lane: int, count: int) -> OutboxRow:
        key, topic, identity = row.key, row.topic, row.id.encode()
        place = self._place(key, count) if key is not None else zlib.crc32(identity) % count
        headers: list[tuple[str, bytes | None]] = [(ID, identity)]
        if lane >= 0:
            headers = [(ID, identity), self._shard(lane, topic), (NUMBER, b"%d" % number)]
        if row.headers:
            headers += [header for header in row.headers if header[0] not in OF_ROW]
        return OutboxRow(number, "", row.id, topic, place, key, row.value, headers)

    def _place(self, key: bytes, count: int) -> int:
        """The partition of the key, cached."""
        known = self._places.setdefault(count, {})
        place = known.get(key)
        if place is None:
            if len(known) >= KEYS:
                known.clear()
            place = known[key] = self._facts.partition_of(key, count)
        return place

    def _shard(self, lane: int, topic: str) -> tuple[str, bytes]:
        shard = self._shards.get((lane, topic))
        if shard is None:
            shard = self._shards[lane, topic] = SHARD, OUTBOX + f"{lane}>{plain(topic)}#{self._source}".encode()
        return shard
