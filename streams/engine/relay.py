"""Outbox rows to Kafka: in number order, after their commit, never past a failure, never blocking the loop.

A row counts as dispatched only by its own delivery report; reports of different output partitions come out of order.
Nothing is ever purged: a late copy of a row is harmless, receivers drop it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import structlog

from streams import failpoints
from streams.contracts import Output
from streams.engine.backoff import Backoff
from streams.errors import PersistenceError
from streams.observe.metrics import Meter
from streams.values import DeadRow, OutboxRow, Partition

SPREAD = 10_000  # numbers from the lowest row of a shard that the store still holds to the highest handed over: receivers' window
IN_MEMORY = 20_000  # rows of a shard waiting in memory, at most; more are read back from the store
RESUME_BELOW = 5_000  # rows waiting, after intake was paused
IN_MEMORY_BYTES = 16 * 1024 * 1024  # of their values: 20,000 results of 900 KB would be 18 GB
PAGE = 1_000
FIRST_PAGE, PAGE_BYTES = 16, 4 * 1024 * 1024  # rows of the first page; the next ones have as many as should make so many bytes
GIVE_UP_AFTER = 5.0  # seconds for the reports of a producer that failed, before it is replaced

CODE = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")  # of a broker's refusal

ReadPage = Callable[[int, int], Sequence[OutboxRow]]
NOWHERE = Partition("", "", "", -1)


class Shard:
    """The unsent rows of one partition under one claim. `read(after, limit)` pages through the store's outbox; `claimed` was
    the last outbox number when it was claimed, `lineage` is the claim's token."""

    __slots__ = (
        "_after", "_asked", "_bytes", "_claimed", "_handed", "_lineage", "_page", "_read", "_recorded", "dead", "delivered", "doubted",
        "more", "oldest", "out", "partition", "refusal", "stops", "waiting",
    )  # fmt: skip

    def __init__(self, read: ReadPage, claimed: int, lineage: str, stops: bool = False, partition: Partition = NOWHERE) -> None:
        self._read, self._claimed, self._lineage, self.partition = read, claimed, lineage, partition
        self.doubted = self._asked = False  # whether the claim still stands is to be asked of the store by a commit; it is under way
        self.stops = stops  # a row that is refused stays in the store, and nothing follows it
        self.refusal = ""  # what the broker said of it
        self._after, self._bytes, self._page = 0, 0, FIRST_PAGE
        self._handed: deque[int] = deque()  # numbers handed over that the store may still hold, ascending
        self._recorded: set[int] = set()  # those of them that it does not
        self.more = claimed > 0  # the store may hold rows beyond those in memory
        self.waiting: deque[OutboxRow] = deque()
        self.out: dict[int, tuple[OutboxRow, float]] = {}
        self.delivered: list[int] = []
        self.dead: list[DeadRow] = []
        self.oldest: float | None = None  # monotonic time since when something waits

    @property
    def unsent(self) -> int:
        """Rows in memory without a report; the store may hold more."""
        return len(self.waiting) + len(self.out)

    @property
    def full(self) -> bool:
        """Too much is unsent: intake should pause."""
        return self.more or len(self.waiting) >= IN_MEMORY

    @property
    def roomy(self) -> bool:
        """May a paused intake go on?"""
        return not self.more and len(self.waiting) < RESUME_BELOW

    @property
    def reported(self) -> bool:
        """Reports came that no commit has recorded yet."""
        return bool(self.delivered or self.dead)

    @property
    def pressing(self) -> bool:
        """Must a commit come at once? So many reports that recording them lets many more rows out, or a doubt."""
        return self.doubted or len(self.delivered) >= SPREAD // 2

    @property
    def lowest(self) -> int | None:
        """No row of the store has a lower number; None: it has none."""
        if self._handed or self.waiting:
            return self._handed[0] if self._handed else self.waiting[0].number
        return self._after + 1 if self.more else None

    def add(self, rows: Sequence[OutboxRow], now: float) -> None:
        """Rows that a commit just made durable."""
        size = weight(rows)
        if self.more or len(self.waiting) + len(rows) > IN_MEMORY or self._bytes + size > IN_MEMORY_BYTES:
            self.more = True
            return
        self.waiting += rows
        self._bytes += size
        if rows:
            self._after = rows[-1].number
            self.oldest = now if self.oldest is None else self.oldest

    def refill(self, now: float) -> None:
        """Read the next page when memory is empty. Raises PersistenceError."""
        if self.more and not self.waiting:
            limit = min(self._page, PAGE)
            rows = self._read(self._after, limit)
            self.more = len(rows) == limit
            self.waiting += [row for row in rows if row.number <= self._claimed or row.lineage == self._lineage]
            self._bytes = weight(self.waiting)
            if rows:
                self._page = max(1, min(4 * limit, PAGE_BYTES * len(rows) // (weight(rows) + 1)))
                self._after = rows[-1].number
                self.oldest = now if self.oldest is None else self.oldest

    def admits(self, number: int) -> bool:
        """May this number be handed over? Not while one that is SPREAD lower may have to be sent again: receivers forget."""
        return not self._handed or number - self._handed[0] < SPREAD

    def hand(self, row: OutboxRow, now: float) -> None:
        """The first waiting row was handed over."""
        self.waiting.popleft()
        self._bytes -= len(row.value or b"")
        self.out[row.number] = (row, now)
        if not self._handed or row.number > self._handed[-1]:
            self._handed.append(row.number)

    @property
    def stopped(self) -> bool:
        """A row was refused, the file says stop, and all other reports are in."""
        return bool(self.refusal) and not self.out

    def recorded(self, numbers: Sequence[int]) -> None:
        """A commit took these rows out of the store."""
        if self._asked:
            self.doubted = self._asked = False
        self._recorded.update(numbers)
        while self._handed and self._handed[0] in self._recorded:
            self._recorded.discard(self._handed.popleft())

    def taken(self) -> tuple[list[int], list[DeadRow]]:
        """For a commit that begins: exactly the numbers whose reports came since the last call, ascending, and the rows declared dead."""
        self._asked = self.doubted
        delivered, self.delivered = sorted(self.delivered), []
        dead, self.dead = self.dead, []
        if failpoints.unsafe("exact-acks") and delivered:
            delivered = list(range(1, delivered[-1] + 1))
        return delivered, dead

    def again(self) -> None:
        """Everything unreported is to be sent again, lowest first, before anything newer."""
        self.waiting.extendleft(reversed([row for _, (row, _) in sorted(self.out.items())]))
        self.out.clear()
        self._bytes = weight(self.waiting)

    def refused(self, row: OutboxRow, text: str, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
        """The broker will never take this row, which was handed over: it is dead, or nothing follows it."""
        del self.out[row.number]
        meter.count("dispatch_attempts", outcome="rejected")
        if self.stops:
            self.refusal = self.refusal or f"row {row.number} for topic {row.topic}: {text}"
            return
        meter.count("dead_rows", reason=(CODE.search(text) or ["other"])[0])
        log.error("relay.row_dead", error=text, number=row.number, id=row.id, topic=row.topic)
        self.dead.append(DeadRow(row.number, text, 1))
        if not (self.waiting or self.out):
            self.oldest = None

    def sent(self, number: int) -> None:
        """This row, which was handed over, has arrived."""
        del self.out[number]
        if failpoints.armed:
            failpoints.hit("acked-not-recorded")
        self.delivered.append(number)
        if not (self.waiting or self.out):
            self.oldest = None


def weight(rows: Iterable[OutboxRow]) -> int:
    """Bytes of their values."""
    return sum(len(row.value or b"") for row in rows)


class Outgoing(Protocol):
    """What sends the rows of all shards of one worker."""

    @property
    def busy(self) -> bool:
        """Does something run beside the loop, of which only a turn hears?"""

    def turn(self, shards: Sequence[Shard], now: float) -> int:
        """Hear reports, hand over what there is room for, of exactly these shards; returns how many rows are unreported. Never blocks."""

    def close(self) -> None: ...


class Relay:
    """All shards of one worker on one producer. Satisfies Outgoing."""

    busy = False

    def __init__(self, output: Output, meter: Meter, backoff: Backoff) -> None:
        self._output, self._meter, self._backoff = output, meter, backoff
        self._log = structlog.get_logger()
        self._failed_at: float | None = None
        self._resume_at = 0.0
        self._now = 0.0
        self._took: dict[float, int] = {}  # successes of this turn, by the time of their hand-over

    def turn(self, shards: Sequence[Shard], now: float) -> int:
        self._now = now
        outstanding = self._output.poll()
        if self._took:
            self._tally(now)
        if self._failed_at is not None:
            self._recover(shards, outstanding, now)
        elif now >= self._resume_at:
            for shard in shards:
                if not self._pump(shard, now):
                    break
        return outstanding

    def _pump(self, shard: Shard, now: float) -> bool:
        """False: the producer's queue is full; go on at the next turn."""
        if shard.refusal:
            return True
        try:
            shard.refill(now)
        except PersistenceError as error:
            self._resume_at = now + self._backoff.delay()
            self._log.warning("relay.store_unavailable", error=str(error))
            return False
        waiting = shard.waiting
        while waiting and shard.admits(waiting[0].number):
            row = waiting[0]
            if not self._output.produce(row, partial(self._report, shard, row.number)):
                return False
            shard.hand(row, now)
            if failpoints.armed:
                failpoints.hit("produced-not-acked")
        return True

    def _report(self, shard: Shard, number: int, outcome: str, text: str) -> None:
        known = shard.out.get(number)
        if known is None:
            return
        if outcome == "denied":
            outcome = "failed"
        if outcome == "failed" and failpoints.unsafe("relay-order"):
            shard.waiting.append(shard.out.pop(number)[0])
            return
        if outcome == "failed":
            self._meter.count("dispatch_attempts", outcome="transient")
            if self._failed_at is None:
                self._failed_at = self._now
                self._log.warning("relay.failed", error=text, topic=known[0].topic, number=number)
            return
        if outcome == "rejected":
            shard.refused(known[0], text, self._meter, self._log)
        else:
            self._took[known[1]] = self._took.get(known[1], 0) + 1
            shard.sent(number)

    def close(self) -> None:
        """Its producer is its maker's."""

    def _tally(self, now: float) -> None:
        self._backoff.reset()
        self._meter.count("dispatch_attempts", sum(self._took.values()), outcome="success")
        for since, times in self._took.items():
            self._meter.observe("dispatch_seconds", now - since, times)
        self._took.clear()

    def _recover(self, shards: Sequence[Shard], outstanding: int, now: float) -> None:
        """After a failed delivery: nothing is handed over until every report is in, then all shards begin anew."""
        if self._failed_at is None or (outstanding and now - self._failed_at < GIVE_UP_AFTER):
            return
        self._output.replace()
        for shard in shards:
            shard.again()
        self._failed_at, self._resume_at = None, now + self._backoff.delay()
