"""`delivery: transactional`: sends the rows of a shard in Kafka transactions. Each transaction commits a cursor of the
rows that were sent.

Each claim opens a producer, which fences earlier producers of the shard. Then a commit checks that the claim is still
valid. Only then rows are sent, except the rows that the cursor covers. So a process that sends was the owner after all
others were fenced, and it knows which rows they sent. If the result of a transaction is unknown (a lost reply, an
unavailable coordinator), the producer is closed, and the cursor of the next producer gives the result.

The relay does not use sluicegate.streams.outbox.sender: a transaction is a blocking call, it ends for all of its rows
at once, and a refused transaction is halved without a pause.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.stores import Cursor, OutputTransactions
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.relay import Shard
from sluicegate.streams.outbox.sender import count_topics

MOST_ROWS, MOST_BYTES = 5_000, 4 * 1024 * 1024  # in one transaction
MOST_LINEAGES = 60  # in a cursor: a broker accepts 4,096 bytes of metadata with an offset


class ShardProducer:
    """The producer of one shard. `cursor` is None until it is open. `calls` run one after the other, outside of the
    loop."""

    __slots__ = ("backoff", "calls", "cursor", "limit", "output", "resume_at", "running", "shard")

    def __init__(self, shard: Shard, output: OutputTransactions, calls: BackgroundCalls, backoff: Backoff) -> None:
        self.shard, self.output, self.calls, self.backoff = shard, output, calls, backoff
        self.cursor: Cursor | None = None
        self.running = False
        self.resume_at = 0.0
        self.limit = MOST_ROWS

    def knows(self, row: OutboxRow) -> bool:
        """Whether the cursor covers the row."""
        return self.cursor is not None and row.number <= self.cursor.get(row.lineage, -1)

    def reached(self, rows: Iterable[OutboxRow]) -> dict[str, int]:
        """The cursor after these rows, which are in ascending order. It omits lineages that the store no longer has."""
        lowest = self.shard.lowest
        known = {
            lineage: number
            for lineage, number in (self.cursor or {}).items()
            if lowest is not None and number >= lowest
        }
        return known | {row.lineage: row.number for row in rows}


class TransactionalRelay:
    """All shards of one worker. Each has its own producer and thread. Satisfies
    sluicegate.streams.outbox.relay.Outgoing."""

    def __init__(
        self,
        transactions: Callable[[Partition], OutputTransactions],
        pool: Callable[[int], Pool],
        meter: Meter,
        backoff: Callable[[], Backoff],
        by_topic: bool = False,
    ) -> None:
        self._transactions, self._pool, self._meter, self._backoff = transactions, pool, meter, backoff
        self._log, self._by_topic = structlog.get_logger(), by_topic
        self._outputs: dict[Partition, tuple[OutputTransactions, BackgroundCalls]] = {}
        self._lanes: dict[Partition, ShardProducer] = {}
        self._now = 0.0

    @property
    def busy(self) -> bool:
        return any(lane.running or lane.shard.doubted or lane.shard.unsent for lane in self._lanes.values())

    def turn(self, shards: Sequence[Shard], now: float) -> int:
        """Returns the number of rows in a running transaction."""
        self._now = now
        self._follow(shards)
        for lane in self._lanes.values():
            lane.calls.turn()
            self._advance(lane)
            lane.calls.turn()
        return sum(len(shard.out) for shard in shards)

    def unrecorded(self) -> Collection[Partition]:
        """Always empty: the cursor tells the next owner which rows were sent."""
        return ()

    def close(self) -> None:
        self._follow(())

    def _follow(self, shards: Sequence[Shard]) -> None:
        """Keep a producer only for these shards. The thread of a partition stays, because the partition may come
        back."""
        here = {shard.partition: shard for shard in shards}
        for partition in [partition for partition in self._lanes if partition not in here]:
            lane = self._lanes.pop(partition)
            lane.calls.begin(lane.output.close, _ignored, _ignored)
        for partition, shard in here.items():
            if partition not in self._lanes or self._lanes[partition].shard is not shard:
                if partition not in self._outputs:
                    self._outputs[partition] = (
                        self._transactions(partition),
                        BackgroundCalls(self._pool(1), lambda: None),
                    )
                output, calls = self._outputs[partition]
                self._lanes[partition] = ShardProducer(shard, output, calls, self._backoff())

    def _advance(self, lane: ShardProducer) -> None:
        shard = lane.shard
        if lane.running or shard.doubted or shard.refusal or self._now < lane.resume_at or not self._filled(lane):
            return
        if lane.cursor is None:
            lane.running = True
            lane.calls.begin(lane.output.open, partial(self._opened, lane), partial(self._failed, lane))
        elif not shard.dead:  # the cursor must not pass a row before the store knows that it is dead
            self._send(lane)

    def _opened(self, lane: ShardProducer, cursor: Cursor) -> None:
        lane.running, lane.cursor = False, cursor
        lane.shard.doubted = True
        partition = lane.shard.partition
        self._log.info(
            "relay.opened",
            topic=partition.topic,
            partition=partition.number,
            sent_up_to=max(cursor.values(), default=0),
        )

    def _filled(self, lane: ShardProducer) -> bool:
        """Read rows of the store before calling Kafka: while Kafka does not answer, they count as unsent, and intake
        continues."""
        try:
            lane.shard.refill(self._now)
        except PersistenceError as error:
            self._wait(lane)
            self._log.warning("relay.store_unavailable", error=str(error))
            return False
        return True

    def _send(self, lane: ShardProducer) -> None:
        rows = self._batch(lane)
        if not rows:
            return
        cursor, since = lane.reached(rows), self._now
        lane.running = True

        def done(text: str) -> None:
            if text:
                # the broker will never accept one of these rows: smaller transactions find it
                lane.running, lane.limit = False, max(1, len(rows) // 2)
                if len(rows) == 1:
                    lane.shard.refused(rows[0], text, self._meter, self._log)
                else:
                    lane.shard.send_again()
            else:
                self._sent(lane, rows, cursor, since)

        lane.calls.begin(partial(lane.output.send, rows, cursor), done, partial(self._failed, lane))
        if failpoints.armed:
            for _ in rows:
                failpoints.hit("produced-not-acked")

    def _batch(self, lane: ShardProducer) -> list[OutboxRow]:
        """Hand over the rows of the next transaction. Rows that the cursor covers count as delivered at once."""
        shard, rows, size = lane.shard, list[OutboxRow](), 0
        lineages = set(lane.reached(()))
        while shard.waiting and len(rows) < lane.limit and size < MOST_BYTES and shard.admits(shard.waiting[0].number):
            row = shard.waiting[0]
            if row.lineage not in lineages and len(lineages) >= MOST_LINEAGES:
                break  # wait until the store has recorded the rows of the oldest lineage
            shard.hand({row.number: row})
            if lane.knows(row):
                shard.arrived([row])
                continue
            lineages.add(row.lineage)
            rows.append(row)
            size += len(row.value or b"") + len(row.key or b"")
        return rows

    def _sent(self, lane: ShardProducer, rows: Sequence[OutboxRow], cursor: Cursor, since: float) -> None:
        lane.running, lane.cursor = False, cursor
        lane.limit = min(MOST_ROWS, 2 * lane.limit)
        lane.backoff.reset()
        lane.shard.arrived(rows)
        self._meter.count("dispatch_attempts", len(rows), outcome="success")
        if self._by_topic:
            count_topics(Counter(row.topic for row in rows), self._meter)
        self._meter.observe("dispatch_seconds", self._now - since, len(rows))

    def _failed(self, lane: ShardProducer, error: SluicegateError) -> None:
        """Close the producer. The next cursor tells whether the rows were sent. After Fenced the claim is checked
        before another producer is opened."""
        lane.running, lane.cursor = False, None
        lane.shard.send_again()
        lane.shard.doubted = isinstance(error, Fenced)
        self._wait(lane)
        self._meter.count("dispatch_attempts", outcome="transient")
        partition = lane.shard.partition
        self._log.warning("relay.failed", error=str(error), topic=partition.topic, partition=partition.number)

    def _wait(self, lane: ShardProducer) -> None:
        lane.resume_at = self._now + lane.backoff.delay()


def _ignored(result: object) -> None:
    """Does nothing with the result."""
