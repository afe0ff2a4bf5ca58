"""Outbox rows to Kafka: in number order, after their commit, never past a failure, never blocking the loop.

A row counts as dispatched only by its own delivery report; reports of different output partitions come out of order.
A row is handed over again only when its producer failed: the end of an owner does not make a copy, since the relay outlives it.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Protocol

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.contracts import Output
from sluicegate.streams.engine.backoff import Backoff
from sluicegate.streams.engine.handed import Handed, Out, Reports
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.values import DeadRow, OutboxRow, Partition

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
NO_ROW = (None, 0.0)


class Shard:
    """The unsent rows of one partition under one claim. `read(after, limit)` pages through the store's outbox; `claimed` was
    the last outbox number when it was claimed, `lineage` is the claim's token."""

    __slots__ = (
        "_after", "_asked", "_before", "_bytes", "_claimed", "_handed", "_lineage", "_page", "_read", "_recorded", "_reports", "_taken",
        "doubted", "more", "oldest", "out", "partition", "refusal", "stops", "waiting",
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
        self.out: Out = {}
        self._reports, self._taken = Reports(), Reports()  # for the next commit; of the commit that is under way
        self._before = Handed({}, Reports())  # under earlier claims, until the store's pages confirm it
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
        return bool(self._reports)

    @property
    def dead(self) -> bool:
        """Rows were declared dead that no commit has recorded yet."""
        return bool(self._reports.dead)

    @property
    def remembers(self) -> bool:
        """Were rows handed over that no commit has recorded yet, under this claim or an earlier one?"""
        return bool(self.out or self._reports or self._taken or self._before.out or self._before.reports)

    @property
    def pressing(self) -> bool:
        """Must a commit come at once? So many reports that recording them lets many more rows out, or a doubt."""
        return self.doubted or len(self._reports.delivered) >= SPREAD // 2

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
            self._sort([row for row in rows if row.number <= self._claimed or row.lineage == self._lineage])
            self._bytes = weight(self.waiting)
            if rows:
                self._page = max(1, min(4 * limit, PAGE_BYTES * len(rows) // (weight(rows) + 1)))
                self._after = rows[-1].number
            if self.oldest is None and self.unsent:
                self.oldest = now
            if self.more:
                self._before.forget(self._after)
            else:
                self._before.clear()

    def _sort(self, rows: Sequence[OutboxRow]) -> None:
        """Rows of the store: those that were handed over under an earlier claim are as they were, the others wait. Up to the highest one
        that was handed over, all count as handed: receivers may know a number that is so much higher."""
        highest = 0
        for row in rows:
            if self._resumed(row):
                highest = row.number
            else:
                self.waiting.append(row)
        self._handed.extend(row.number for row in rows if row.number <= highest)

    def _resumed(self, row: OutboxRow) -> bool:
        """Was this row handed over under an earlier claim? Then it is under way, or its report is for the next commit."""
        number, lineage, before = row.number, row.lineage, self._before
        if number in before.out and before.out[number][0].lineage == lineage:
            self.out[number] = before.out.pop(number)
            return True
        if before.reports.delivered.get(number) == lineage:
            self._reports.delivered[number] = lineage
            return True
        if number in before.reports.dead and before.reports.dead[number][0] == lineage:
            self._reports.dead[number] = before.reports.dead[number]
            return True
        return False

    def follow(self, last: "Shard") -> None:
        """This shard is of a newer claim of the same partition in this process: what the `last` one handed over is remembered."""
        before = last._before
        for reports in (last._taken, last._reports):
            before.reports.join(reports)
        before.out.update(last.out)
        self._before = before

    def leave(self) -> None:
        """Its owner ended: nothing more is handed over."""
        self.waiting.clear()
        self._bytes = 0

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
        self._taken = Reports()
        if self._asked:
            self.doubted = self._asked = False
        self._recorded.update(numbers)
        while self._handed and self._handed[0] in self._recorded:
            self._recorded.discard(self._handed.popleft())

    def taken(self) -> tuple[list[int], list[DeadRow]]:
        """For a commit that begins: exactly the numbers whose reports came since the last call, ascending, and the rows declared dead."""
        self._asked = self.doubted
        self._taken.join(self._reports)
        self._reports = Reports()
        delivered, dead = sorted(self._taken.delivered), [dead for _, dead in self._taken.dead.values()]
        return delivered, dead

    def again(self) -> None:
        """The producer was replaced: everything unreported is to be sent again, lowest first, before anything newer."""
        self.waiting.extendleft(reversed([row for _, (row, _) in sorted(self.out.items())]))
        self.out.clear()
        self._before.out.clear()
        self._bytes = weight(self.waiting)

    def since(self, row: OutboxRow) -> float | None:
        """When this very row was handed over; None: it is not under way, and a report of it changes nothing."""
        for out in (self.out, self._before.out):
            known = out.get(row.number)
            if known is not None and known[0] is row:
                return known[1]
        return None

    def refused(self, row: OutboxRow, text: str, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
        """The broker will never take this row, which is under way: it is dead, or nothing follows it."""
        reports = self._end(row)
        meter.count("dispatch_attempts", outcome="rejected")
        if self.stops:
            self.refusal = self.refusal or f"row {row.number} for topic {row.topic}: {text}"
            return
        meter.count("dead_rows", reason=(CODE.search(text) or ["other"])[0])
        log.error("relay.row_dead", error=text, number=row.number, id=row.id, topic=row.topic)
        reports.dead[row.number] = row.lineage, DeadRow(row.number, text, 1)

    def sent(self, row: OutboxRow) -> None:
        """This row, which was under way, has arrived."""
        reports = self._end(row)
        if failpoints.armed:
            failpoints.hit("acked-not-recorded")
        reports.delivered[row.number] = row.lineage

    def _end(self, row: OutboxRow) -> Reports:
        """The row is no longer under way; returns where its report belongs."""
        if self.out.get(row.number, NO_ROW)[0] is not row:
            del self._before.out[row.number]
            return self._before.reports
        del self.out[row.number]
        if not (self.waiting or self.out):
            self.oldest = None
        return self._reports


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

    def unrecorded(self) -> Collection[Partition]:
        """Partitions without an owner here, with rows that were handed over and that the store still holds as unsent."""

    def close(self) -> None: ...


class Way:
    """Where the reports of one partition's rows go: to the shard of its newest claim in this process."""

    __slots__ = ("shard",)

    def __init__(self, shard: Shard) -> None:
        self.shard = shard


class Relay:
    """All shards of one worker on one producer. Satisfies Outgoing. What was handed over for a partition is remembered while nobody owns
    it, so that its next shard does not hand it over again."""

    busy = False

    def __init__(self, output: Output, meter: Meter, backoff: Backoff) -> None:
        self._output, self._meter, self._backoff = output, meter, backoff
        self._log = structlog.get_logger()
        self._failed_at: float | None = None
        self._resume_at = 0.0
        self._now = 0.0
        self._took: dict[float, int] = {}  # successes of this turn, by the time of their hand-over
        self._shards: list[Shard] = []  # of the last turn
        self._ways: dict[Partition, Way] = {}

    def turn(self, shards: Sequence[Shard], now: float) -> int:
        self._now = now
        if shards != self._shards:
            self._follow(shards)
        outstanding = self._output.poll()
        if self._took:
            self._tally(now)
        if self._failed_at is not None:
            self._recover(outstanding, now)
        elif now >= self._resume_at:
            for shard in shards:
                if not self._pump(shard, now):
                    break
        return outstanding

    def _follow(self, shards: Sequence[Shard]) -> None:
        """The shard of a newer claim goes on where the last one of its partition ended."""
        here = {shard.partition: shard for shard in shards}
        for partition, way in self._ways.items():
            if here.get(partition) is not way.shard:
                way.shard.leave()
        for partition, shard in here.items():
            way = self._ways.setdefault(partition, Way(shard))
            if way.shard is not shard:
                shard.follow(way.shard)
                way.shard = shard
        self._shards = list(shards)

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
        waiting, way = shard.waiting, self._ways[shard.partition]
        while waiting and shard.admits(waiting[0].number):
            row = waiting[0]
            if not self._output.produce(row, partial(self._report, way, row)):
                return False
            shard.hand(row, now)
            if failpoints.armed:
                failpoints.hit("produced-not-acked")
        return True

    def _report(self, way: "Way", row: OutboxRow, outcome: str, text: str) -> None:
        shard = way.shard
        since = shard.since(row)
        if since is None:
            return
        if outcome == "denied":
            outcome = "failed"
        if outcome == "failed":
            self._meter.count("dispatch_attempts", outcome="transient")
            if self._failed_at is None:
                self._failed_at = self._now
                self._log.warning("relay.failed", error=text, topic=row.topic, number=row.number)
            return
        if outcome == "rejected":
            shard.refused(row, text, self._meter, self._log)
        else:
            self._took[since] = self._took.get(since, 0) + 1
            shard.sent(row)

    def unrecorded(self) -> Collection[Partition]:
        here = {shard.partition for shard in self._shards}
        return [partition for partition, way in self._ways.items() if partition not in here and way.shard.remembers]

    def close(self) -> None:
        """Its producer is its maker's."""

    def _tally(self, now: float) -> None:
        self._backoff.reset()
        self._meter.count("dispatch_attempts", sum(self._took.values()), outcome="success")
        for since, times in self._took.items():
            self._meter.observe("dispatch_seconds", now - since, times)
        self._took.clear()

    def _recover(self, outstanding: int, now: float) -> None:
        """After a failed delivery: nothing is handed over until every report is in, then all shards begin anew."""
        if self._failed_at is None or (outstanding and now - self._failed_at < GIVE_UP_AFTER):
            return
        self._output.replace()
        for way in self._ways.values():
            way.shard.again()
        self._failed_at, self._resume_at = None, now + self._backoff.delay()
