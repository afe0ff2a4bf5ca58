"""The outbox of each partition as a source of the sender: unsent rows, read in pages from the store, under one claim.

A row is handed over again only if its producer failed. The relay outlives an owner, so the end of an owner causes no
repeat.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Protocol

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import Output
from sluicegate.streams.contracts.values import DeadRow, OutboxRow, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.hints import command
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.handed import RowSource
from sluicegate.streams.outbox.sender import Sender
from sluicegate.streams.windows.marks import withdrawn

# from the lowest number that the store still holds to the highest that was handed over: the window of receivers
SPREAD = 10_000
IN_MEMORY = 20_000  # rows of a shard waiting in memory, at most; more are read back from the store
RESUME_BELOW = 5_000  # rows waiting, after intake was paused
IN_MEMORY_BYTES = 8 * 1024 * 1024  # size of their values: 20,000 results of 900 KB would be 18 GB
LARGE_ROW = 16_384  # bytes
PAGE = 1_000
# rows of the first page, and the target size of the next pages in bytes
FIRST_PAGE, PAGE_BYTES = 16, 4 * 1024 * 1024

MOST_DEAD = 16 * 1024 * 1024  # bytes of dead rows of a partition; beyond it, the next refused row halts the partition
ReadPage = Callable[[int, int], Sequence[OutboxRow]]
ReadDead = Callable[[int], Sequence[tuple[OutboxRow, DeadRow]]]
NOWHERE = Partition("", "", "", -1)


def no_dead(limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
    return ()


def dead_bytes(dead: ReadDead) -> int:
    """The bytes of the dead rows. Stops counting at MOST_DEAD."""
    limit = 8
    while True:
        rows = [row for row, _ in dead(limit)]
        size = weight(rows)
        if size > MOST_DEAD or len(rows) < limit:
            return size
        limit *= 2


class Shard(RowSource):
    """The unsent rows of one partition under one claim. `read(after, limit)` reads pages of the store's outbox.
    `claimed` is the last outbox number at the claim, `lineage` is the claim's token."""

    __slots__ = (
        "_after",
        "_asked",
        "_bytes",
        "_claimed",
        "_dead",
        "_dead_bytes",
        "_handed",
        "_lineage",
        "_mine",
        "_page",
        "_read",
        "_recorded",
        "_since",
        "doubted",
        "large",
        "more",
        "partition",
    )

    def __init__(
        self,
        read: ReadPage,
        claimed: int,
        lineage: str,
        stops: bool = False,
        partition: Partition = NOWHERE,
        dead: ReadDead = no_dead,
        mine: Callable[[OutboxRow], bool] | None = None,
    ) -> None:
        """`dead(limit)` returns the first dead rows in the store. `mine` selects the rows of this shard; None: all
        rows."""
        super().__init__(stops)
        self._mine = mine
        self._dead = dead
        self._dead_bytes: int | None = None  # None: no row was refused under this claim
        self._read, self._claimed, self._lineage, self.partition = read, claimed, lineage, partition
        # a commit must check that the claim is still valid; that commit is running
        self.doubted = self._asked = False
        self._after, self._bytes, self._page = 0, 0, FIRST_PAGE
        self._handed: deque[int] = deque()  # numbers handed over that the store may still hold, ascending
        self._recorded: set[int] = set()  # numbers in `_handed` that the store has recorded
        self.more = claimed > 0  # the store may hold rows beyond those in memory
        self.large = False  # the last rows that did not fit into memory were large
        self._since = 0.0  # monotonic time since which rows are unsent

    @property
    def full(self) -> bool:
        """Whether intake should pause because too many rows are unsent."""
        return self.more or len(self.waiting) >= IN_MEMORY

    @property
    def roomy(self) -> bool:
        """Whether a paused intake may continue."""
        return not self.more and len(self.waiting) < RESUME_BELOW

    @property
    def oldest(self) -> float | None:
        """The monotonic time since which rows are unsent; None if all are sent."""
        return self._since if self.unsent else None

    @property
    def reported(self) -> bool:
        """Whether reports wait for a commit."""
        return bool(self._reports)

    @property
    def dead(self) -> bool:
        """Whether dead rows wait for a commit."""
        return bool(self._reports.dead)

    @property
    def pressing(self) -> bool:
        """Whether a commit is needed at once: to record many reports, so more rows can be handed over, or to check the
        claim."""
        return self.doubted or len(self._reports.delivered) >= SPREAD // 2

    @property
    def lowest(self) -> int | None:
        """The lowest number that the store may have; None if it has no rows."""
        if self._handed or self.waiting:
            return self._handed[0] if self._handed else self.waiting[0].number
        return self._after + 1 if self.more else None

    def add(self, rows: Sequence[OutboxRow], now: float) -> None:
        """Add rows that a commit just made durable."""
        size = weight(rows)
        if self.more or len(self.waiting) + len(rows) > IN_MEMORY or self._bytes + size > IN_MEMORY_BYTES:
            self.more, self.large = True, size >= LARGE_ROW * len(rows)
            return
        if not self.unsent:
            self._since = now
        self.waiting += rows
        self._bytes += size
        if rows:
            self._after = rows[-1].number

    def refill(self, now: float) -> None:
        """Read the next page when no row waits in memory. With `mine`, read on to the next page with a row of this
        shard. Raises PersistenceError."""
        while self.more and not self.waiting:
            if not self.unsent:
                self._since = now
            limit = min(self._page, PAGE)
            rows = self._read(self._after, limit)
            self.more = len(rows) == limit
            here = rows if self._mine is None else list(filter(self._mine, rows))
            self._sort([self._ours(row) for row in here if row.number <= self._claimed or row.lineage == self._lineage])
            self._bytes = weight(self.waiting)
            if rows:
                self._page = max(1, min(4 * limit, PAGE_BYTES * len(rows) // (weight(rows) + 1)))
                self._after = rows[-1].number
            if self.more:
                self._before.forget(self._after)
            else:
                self._before.clear()
            if self._mine is None:
                break

    def _ours(self, row: OutboxRow) -> OutboxRow:
        """The row in the form in which this claim sends it. A time mark of an earlier claim is no longer valid."""
        return row if row.lineage == self._lineage else withdrawn(row)

    def _sort(self, rows: Sequence[OutboxRow]) -> None:
        """Take over rows of the store that were handed over under an earlier claim; the others wait. All rows up to the
        highest one that was handed over count as handed over, because receivers may know that number."""
        highest = 0
        for row in rows:
            if self._take_over_row(row):
                highest = row.number
            else:
                self.waiting.append(row)
        self._handed.extend(row.number for row in rows if row.number <= highest)

    def leave(self) -> None:
        super().leave()
        self._bytes = 0

    def keeps(self, row: OutboxRow) -> str:
        """As in RowSource. If dead rows exceed MOST_DEAD bytes, the next refused row also stops the partition."""
        if why := super().keeps(row):
            return why
        if self._dead_bytes is None:
            try:
                self._dead_bytes = dead_bytes(self._dead)
            except PersistenceError:  # the next refused row retries this
                return ""
        self._dead_bytes += weight([row])
        if self._dead_bytes <= MOST_DEAD:
            return ""
        return (
            f"the partition has more than {MOST_DEAD >> 20} MiB of dead rows: correct why the broker refuses them, "
            f"send them with {command('dead retry FILE AGENT --all')}, and restart"
        )

    def admits(self, number: int) -> bool:
        """Whether this number may be handed over. It must wait while a number SPREAD lower may be sent again, because
        receivers would have forgotten that number."""
        return number - (self.lowest or number) < SPREAD

    def ready(self, now: float) -> Sequence[OutboxRow]:
        """The first waiting rows that are admitted."""
        if self.refusal or self.claim_ended:
            return ()
        self.refill(now)
        waiting = self.waiting
        if not waiting or self.admits(waiting[-1].number):
            return waiting
        return list(takewhile(lambda row: self.admits(row.number), waiting))

    def hand(self, rows: Mapping[int, OutboxRow]) -> None:
        super().hand(rows)
        self._bytes -= weight(rows.values())
        highest = self._handed[-1] if self._handed else 0
        self._handed.extend(number for number in rows if number > highest)

    @property
    def stopped(self) -> bool:
        """Whether a refused row stops the shard, and all other delivery reports have arrived."""
        return bool(self.refusal) and not self.out

    def recorded(self, numbers: Sequence[int]) -> None:
        """Process a commit that removed these rows from the store."""
        self.recorded_all()
        if self._asked:
            self.doubted = self._asked = False
        self._recorded.update(numbers)
        while self._handed and self._handed[0] in self._recorded:
            self._recorded.discard(self._handed.popleft())

    def take_reports(self) -> tuple[list[int], list[DeadRow]]:
        """Take the reports for a commit: the numbers that were delivered since the last commit, ascending, and the dead
        rows."""
        self._asked = self.doubted
        taken = self.take()
        delivered, dead = sorted(taken.delivered), [dead for _, dead in taken.dead.values()]
        return delivered, dead

    def send_again(self) -> None:
        super().send_again()
        self._bytes = weight(self.waiting)


def weight(rows: Iterable[OutboxRow]) -> int:
    """The bytes of the rows' values."""
    return sum(len(row.value or b"") for row in rows)


class Outgoing(Protocol):
    """Sends the rows of all shards of one worker."""

    @property
    def busy(self) -> bool:
        """Whether a call runs in another thread. The next turn handles its result."""

    def turn(self, shards: Sequence[Any], now: float) -> int:
        """Handle reports and hand over rows of exactly these shards while there is room. Returns the number of rows in
        flight. Never blocks. The shards have the type that this class requires."""

    def unrecorded(self) -> Collection[Partition]:
        """The partitions without an owner in this process whose rows were handed over and are not recorded as sent."""

    def close(self) -> None: ...


class Relay:
    """All shards of one worker on one producer. Satisfies Outgoing. It remembers rows that were handed over for a
    partition that has lost its owner, so the next shard does not hand them over again."""

    busy = False

    def __init__(self, output: Output, meter: Meter, backoff: Backoff, by_topic: bool = False) -> None:
        self._sender = Sender(output, meter, backoff, by_topic)
        self._shards: list[Shard] = []  # the shards of the last turn
        self._newest: dict[Partition, Shard] = {}  # the newest shard of each partition, with or without an owner
        self._sources: list[Shard] = []  # the same shards, owned ones first

    def turn(self, shards: Sequence[Shard], now: float) -> int:
        if shards != self._shards:
            self._follow(shards)
        return self._sender.turn(self._sources, now)

    def _follow(self, shards: Sequence[Shard]) -> None:
        """Let the shard of a newer claim follow the last shard of its partition."""
        here = {shard.partition: shard for shard in shards}
        for partition, last in self._newest.items():
            if here.get(partition) is not last:
                last.leave()
        for partition, shard in here.items():
            last = self._newest.get(partition, shard)
            if last is not shard:
                shard.follow(last)
            self._newest[partition] = shard
        self._shards = list(shards)
        self._sources = [*shards, *(shard for shard in self._newest.values() if shard.claim_ended)]

    def unrecorded(self) -> Collection[Partition]:
        return [partition for partition, shard in self._newest.items() if shard.claim_ended and shard.remembers]

    def close(self) -> None:
        """Does nothing: the caller closes the producer."""
