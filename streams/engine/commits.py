"""Decides when a worker commits, commits several partitions together, and counts the metrics (docs/protocol.md,
Commit)."""

from collections.abc import Callable, Sequence

import structlog

from sluicegate.streams.aggregation.events import Event
from sluicegate.streams.contracts.values import Claim, Partition
from sluicegate.streams.errors import EngineFault, SluicegateError
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.handlers.session import PreparedCommit
from sluicegate.streams.observe.counting import count_events
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.ownership.claims import LOST, SLICE_SECONDS, Claims
from sluicegate.streams.ownership.dead_limit import DeadLetterLimit
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.status import count_receipts, trace_fires

COMMIT_RECORDS = 20_000  # twice as many halve the bytes written per record: a commit writes each group once
COMMIT_EVENTS = 5_000
# Messages of an agent with a handler, without and with the store's transaction. Such a transaction takes 2 ms of CPU
# on PostgreSQL, which is 4 µs for each of 500 messages.
COMMIT_CALLS, COMMIT_SESSION = 2_000, 1_000
COMMIT_EVERY = 0.05  # seconds; after a turn that read nothing, the commit is made at once
# For `scope: shared` on a store that packs the records of one key in one insert: the seconds between commits, the
# seconds while records wait in Kafka (more records then share a key), and the bytes that cause a commit.
SHARED_EVERY, SHARED_BEHIND, SHARED_BYTES = 0.2, 2.0, 16 * 1024 * 1024
# Seconds from the start of a commit in which records gather. At 1,000 records a second, a commit for each record
# takes most of the CPU.
COMMIT_PAUSE = 0.001
RECORD_REPORTS_EVERY = 0.5  # seconds between two commits of delivery reports to the store


class Commits:
    """The commits of one worker. `pending` counts the records that were accepted and not committed. `lost` is called
    for an owner whose commit failed."""

    def __init__(
        self,
        setting: AgentRuntime,
        claims: Claims,
        meter: Meter,
        clock: Callable[[], float],
        lost: Callable[[Owner, Exception], None],
        spans: Spans | None = None,
    ) -> None:
        self._store, self._claims, self._meter, self._clock, self._lost = setting.store, claims, meter, clock, lost
        self._processor = processor = setting.processor
        packs = processor.at_once > COMMIT_CALLS
        self._every, self._behind_every = (SHARED_EVERY, SHARED_BEHIND) if packs else (COMMIT_EVERY, COMMIT_EVERY)
        self._most = COMMIT_RECORDS if processor.batches else COMMIT_SESSION if processor.session else COMMIT_CALLS
        if packs:
            self._most = max(COMMIT_CALLS, processor.most)
        self._spans, self._log = spans, structlog.get_logger()
        self.pending = 0
        self._dead_limit = DeadLetterLimit(setting.agent)
        self._seen: dict[Partition, int] = {}  # the versions of the claims at the last check
        self._committed_at = self._gather_until = self._reports_at = 0.0
        self._behind = True

    def gathering(self, now: float) -> float:
        """The seconds for which the poll may still wait to gather more records."""
        return max(0.0, self._gather_until - now)

    def turned(self, behind: bool) -> None:
        """Notes that a turn has read its records. `behind`: it read a full batch, so more records may wait."""
        self._behind = self._behind and behind

    def due(self, now: float, idle: bool) -> bool:
        """Whether it is time to commit. `idle`: this turn read nothing."""
        events = sum(owner.groups.events for owner in self._claims.owners.values())
        if any(owner.items_ready for owner in self._claims.owners.values()):
            return True
        if not self.pending:
            return idle or bool(events)
        passed = now - self._committed_at >= (self._behind_every if self._behind else self._every)
        full = self.pending >= self._most or self._processor.read_bytes >= SHARED_BYTES
        return idle or full or passed or events >= COMMIT_EVENTS

    def all(self, now: float, reports: bool = False) -> None:
        """Commits every owner that has changes. Delivery reports alone are committed every RECORD_REPORTS_EVERY
        seconds, or with `reports`."""
        reports = reports or now >= self._reports_at
        owners = [
            owner
            for owner in self._claims.owners.values()
            if owner.has_changes or owner.shard.pressing or (reports and owner.shard.reported)
        ]
        self._commit(owners, now)
        self.pending, self._behind = 0, True
        self._processor.read_bytes = 0
        self._committed_at, self._gather_until = self._clock(), now + COMMIT_PAUSE
        if reports:
            self._reports_at = now + RECORD_REPORTS_EVERY

    def look(self, now: float) -> None:
        """Makes an empty commit for each owner that was idle since the last check. The commit fails if an operator or
        another worker changed the partition, or if the store was replaced."""
        owners = self._claims.owners.values()
        versions = {owner.partition: owner.claim.version for owner in owners}
        self._commit([owner for owner in owners if self._seen.get(owner.partition) == owner.claim.version], now)
        self._seen = versions

    def record(self, owners: Sequence[Owner]) -> None:
        """Commits the delivery reports of these owners, without the records accepted since their last commit."""
        for owner in owners:
            now, ready = self._clock(), owner.reports()
            try:
                owner.committed(self._store.commit(owner.claim, ready.changes), ready, now)
            except LOST as error:
                self._lost(owner, error)

    def _commit(self, owners: Sequence[Owner], now: float) -> None:
        if len(owners) > 1 and not self._claims.retries.backoffs and not self._processor.session:
            self._together(owners, now)
            return
        for owner in owners:  # one by one after a failure: an owner that cannot commit must not delay the others
            try:
                with engine_faults():
                    self.one(owner, now)
            except LOST as error:
                self._lost(owner, error)

    def one(self, owner: Owner, now: float) -> None:
        """Commits one owner, and repeats it while items are ready, for at most SLICE_SECONDS. Raises one of LOST."""
        first = self._clock()
        while True:
            before, pending = self._clock(), owner.intake.pending
            events = owner.commit(now)
            if events is not None:
                self._count(owner, events, pending - owner.intake.pending, now, before)
            if not owner.items_ready or self._clock() - first > SLICE_SECONDS:
                return
            now = self._clock()  # the items are ready by the time of the answer; at an earlier time they would wait

    def _together(self, owners: Sequence[Owner], now: float) -> None:
        """Commits all owners in one call to the store, so that they share one wait for its disk (measured in
        docs/design.md)."""
        before = self._clock()
        ready = [(owner, commit) for owner in owners if (commit := self._ready(owner, now)) is not None]
        try:
            with engine_faults():
                results = self._store.commit_all([(owner.claim, commit.changes) for owner, commit in ready])
        except EngineFault as error:
            for owner, _ in ready:
                self._lost(owner, error)
            return
        for (owner, commit), result in zip(ready, results, strict=True):
            self._settle(owner, commit, result, now, before)

    def _ready(self, owner: Owner, now: float) -> PreparedCommit | None:
        try:
            with engine_faults():
                commit = owner.prepare(now)
                if commit is None and owner.items_ready:
                    self.one(owner, now)
            return commit
        except LOST as error:
            self._lost(owner, error)
            return None

    def _settle(
        self, owner: Owner, commit: PreparedCommit, result: Claim | SluicegateError, now: float, before: float
    ) -> None:
        pending = owner.intake.pending
        try:
            if isinstance(result, SluicegateError):
                raise result
            with engine_faults():
                self._count(owner, owner.committed(result, commit, now), pending - owner.intake.pending, now, before)
                if owner.items_ready:
                    self.one(owner, now)
        except LOST as error:
            self._lost(owner, error)

    def _count(self, owner: Owner, events: Sequence[Event], pending: int, now: float, before: float) -> None:
        meter, after = self._meter, self._clock()
        jump = owner.tick(after, after - before)
        if abs(jump) > 1.0:
            topic, number = owner.place
            self._log.warning("clock.jumped", seconds=round(jump, 3), topic=topic, partition=number)
        meter.observe("commit_seconds", after - before)
        self._claims.committed(owner, progress=bool(pending or events))
        if pending:
            meter.observe("batch_records", pending)
            meter.count("records_consumed", pending)
            self._claims.well(owner)
        count_events(events, after - now, meter)
        self._dead_limit.committed(owner, events, pending, now)
        trace_fires(owner, events, after - now, self._spans)
        count_receipts(owner, meter, self._log)
