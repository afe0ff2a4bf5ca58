"""Sends outbox rows to Kafka after their commit, in number order, never past a failure, without blocking the loop
(docs/protocol.md, Send).

This is a hot path: many rows are handed over, and their reports handled, at a time. A row counts as dispatched only by
its own delivery report. Reports of different output partitions arrive out of order.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import Output
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.handed import RowSource

GIVE_UP_AFTER = 5.0  # seconds for the reports of a producer that failed, before it is replaced


class Chunk:
    """Rows of one source that were handed over together. Reports go to the newest claim of the source in this process.
    Satisfies sluicegate.streams.contracts.stores.BatchReports."""

    __slots__ = ("_newest", "_sender", "_since", "_source", "rows")

    def __init__(self, sender: "Sender", source: RowSource, since: float) -> None:
        self._sender, self._since = sender, since
        self._source = self._newest = source
        self.rows: dict[int, OutboxRow] = {}  # by number

    def delivered(self, numbers: Sequence[int]) -> None:
        newest = self._follow()
        if (topics := self._sender.topics) is not None:
            rows = (self.rows[number] for number in numbers)
            topics.update(row.topic for row in rows if newest.under_way(row))
        if newest is self._source:
            arrived = newest.delivered(numbers)
        else:
            arrived = newest.arrived([self.rows[number] for number in numbers])
        if arrived:
            self._sender.took(self._since, arrived)

    def refused(self, number: int, outcome: str, text: str) -> None:
        row, source = self.rows.get(number), self._follow()
        if row is not None and source.under_way(row):
            self._sender.refused(source, row, outcome, text)

    def _follow(self) -> RowSource:
        while self._newest.heir is not None:
            self._newest = self._newest.heir
        return self._newest


def count_topics(topics: Mapping[str, int], meter: Meter) -> None:
    """Counts the rows that the broker took, by topic."""
    for topic, times in topics.items():
        meter.count("rows_delivered", times, topic=topic)


class Sender:
    """Sends the rows of all sources of one process with its producer."""

    def __init__(self, output: Output, meter: Meter, backoff: Backoff, by_topic: bool = False) -> None:
        """`by_topic`: rows are also counted by topic."""
        self._output, self._meter, self._backoff = output, meter, backoff
        self._log = structlog.get_logger()
        self._failed_at: float | None = None
        self._resume_at = 0.0
        self._now = 0.0
        self._gathering = False  # rows that were handed over wait for others
        self._took: dict[float, int] = {}  # deliveries of this turn, by the time of their hand-over
        self.topics: Counter[str] | None = Counter() if by_topic else None  # these deliveries by topic

    def turn(self, sources: Sequence[RowSource], now: float, more: bool | None = None) -> int:
        """Handle reports and hand over rows while there is room. Returns the number of rows in flight. Never blocks.
        `more`: more rows come soon, so rows wait for them up to linger.ms; larger requests cost the broker a quarter
        per row. False: rows are sent at once. None: linger.ms alone decides."""
        self._now = now
        outstanding = self._output.poll()
        if self._took:
            self._backoff.reset()
            self._meter.count("dispatch_attempts", sum(self._took.values()), outcome="success")
            for since, times in self._took.items():
                self._meter.observe("dispatch_seconds", now - since, times)
            self._took.clear()
            if self.topics:
                count_topics(self.topics, self._meter)
                self.topics.clear()
        if self._failed_at is not None:
            self._recover(sources, outstanding, self._failed_at)
        elif now >= self._resume_at:
            full = not all(self._hand_over(source) for source in sources)
            if more is not None and self._gathering and (full or not more):
                self._gathering = False
                self._output.send_now()
        return outstanding

    def _hand_over(self, source: RowSource) -> bool:
        """Returns False if the producer's queue is full or the store does not answer: continue in the next turn."""
        try:
            ready = source.ready(self._now)
        except PersistenceError as error:
            self._resume_at = self._now + self._backoff.delay()
            self._log.warning("relay.store_unavailable", error=str(error))
            return False
        if not ready:
            return True
        wanted, chunk = len(ready), Chunk(self, source, self._now)
        taken = self._output.produce_all(ready, chunk)
        if taken:
            self._gathering = True
            handed = ready if taken == wanted else islice(ready, taken)
            chunk.rows = {row.number: row for row in handed}
            source.hand(chunk.rows)
        if failpoints.armed:
            for _ in range(taken):
                failpoints.hit("produced-not-acked")
        return taken == wanted

    def took(self, since: float, count: int) -> None:
        """Count `count` delivered rows that were handed over at `since`."""
        self._took[since] = self._took.get(since, 0) + count

    def refused(self, source: RowSource, row: OutboxRow, outcome: str, text: str) -> None:
        """Process a row in flight that was not delivered."""
        if outcome == "rejected":
            source.refused(row, text, self._meter, self._log)
        elif outcome == "failed" or not source.denied(row, text):
            self._meter.count("dispatch_attempts", outcome="transient")
            if self._failed_at is None:
                self._failed_at = self._now
                self._log.warning("relay.failed", error=text, topic=row.topic, number=row.number)

    def _recover(self, sources: Sequence[RowSource], outstanding: int, failed_at: float) -> None:
        """After a failed delivery: wait for every report, then replace the producer and send again."""
        if outstanding and self._now - failed_at < GIVE_UP_AFTER:
            return
        self._output.replace()
        for source in sources:
            source.send_again()
        self._failed_at, self._resume_at = None, self._now + self._backoff.delay()
