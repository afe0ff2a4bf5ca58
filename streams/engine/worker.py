"""The loop over one consumer. It handles rebalances, claims, batches, deadlines, commits and draining.

It has one thread, and claims partitions between polls. Time, store, Kafka and randomness are parameters, so tests run
the same loop without the real systems.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.calling.pool import InlinePool, Pool
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import (
    Clock,
    Input,
    Output,
    OutputTransactions,
    Producer,
    Store,
    TableFeed,
    TopicPartition,
)
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.commits import Commits
from sluicegate.streams.engine.event_clock import EventClocks
from sluicegate.streams.engine.reports import StoreProbe, WorkerReports
from sluicegate.streams.engine.time_warnings import TimeWarnings
from sluicegate.streams.errors import Fenced
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.lookups.tables import TopicTables
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.relay import Outgoing, Shard
from sluicegate.streams.outbox.split import SplitShard
from sluicegate.streams.ownership.checks import informational
from sluicegate.streams.ownership.claims import LOST, Claims
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.topic_names import patterns, several

CHUNK = 500  # records taken at once; 250 take 5 to 8 % more time for a record (python -m tests.bench --jobs J1)
# Each turn looks at every partition, for 8 to 10 µs. With many of them, more records are taken at once.
CHUNK_PARTITIONS, MOST_CHUNKS = 32, 4  # a further chunk for so many partitions; chunks at once
LARGE = 16_384  # bytes of a large record
SMALL_CHUNK = 16  # records taken at once if records are large
SLOW = 0.5  # seconds; if large records take longer, fewer are taken at once, and no other partition waits behind them
# Seconds for due groups in one turn; a commit of all partitions follows. With 0.2 the longest turn of `python -m
# tests.bench.paged --cases due --groups 1000000` took 0.37 s, with 0.1 0.24 s and 6 % more CPU time for a result.
EXPIRE_SECONDS = 0.1
REPORT_EVERY, INFORM_EVERY = 1.0, 0.2  # seconds between two reports to the supervisor, and to Kafka
PROBE_EVERY = 5.0  # seconds between two checks of the store
HAND_OVER = 2.0  # seconds, at most, that a revocation waits for the delivery reports of the revoked partitions
FLUSH = 0.05  # seconds of one wait for delivery reports
IDLE, RELAYING = 0.25, 0.01  # seconds to wait for a record, without and with rows that are being sent


class WorkerDependencies(NamedTuple):
    """The systems and functions that a worker uses. `random` returns numbers in [0, 1). `token` returns a new random
    name. `pool` returns a pool with this number of threads. `time` returns seconds since 1970. `transactions` returns
    the Kafka transactions of a shard, for `delivery: transactional`. `table` opens a topic for lookups. `mac` has the
    keys of the app; without them nothing is signed. `outputs` are the producers of several clusters, by the names that
    topics use for them; `producer` has all of them. `probes_first` is as in Probing."""

    store: Store
    input: Input
    producer: Producer
    clock: Clock
    meter: Meter
    random: Callable[[], float]
    token: Callable[[], str]
    report: Callable[[WorkerReport], object]
    pool: Callable[[int], Pool] = InlinePool
    spans: Spans | None = None
    time: Callable[[], float] = time.time
    transactions: Callable[[Partition], OutputTransactions] | None = None
    table: Callable[[str], TableFeed] | None = None
    mac: Mac | None = None
    outputs: Mapping[str, Output] = MappingProxyType({})
    probes_first: bool = False


class Worker:
    """The loop of one worker of an agent."""

    def __init__(
        self,
        app: App,
        agent: Agent,
        number: int,
        setting: AgentRuntime,
        claims: Claims,
        relay: Outgoing,
        parts: WorkerDependencies,
        tables: TopicTables | None = None,
    ) -> None:
        """No partition is claimed before all `tables` answer."""
        self._agent, self._setting, self._claims, self._relay, self._parts = agent, setting, claims, relay, parts
        self._log = structlog.get_logger().bind(agent=agent.name, worker=number)
        self._owners, self._processor = claims.owners, setting.processor
        self._chunk, self._large_chunk = CHUNK, SMALL_CHUNK
        self._commits = Commits(setting, claims, parts.meter, parts.clock.monotonic, self._lost, parts.spans)
        self._clocks = EventClocks(parts.input, claims) if agent.awaits_end else None
        self._time_warnings = TimeWarnings(agent)
        self._tables = tables
        parts.input.before_revoke(self._finish)
        self._report_at = self._inform_at = self._probe_at = 0.0
        self._store = StoreProbe(setting.store, app.accept_level, self._log)
        self.reports = WorkerReports(agent, number, claims, parts.input, parts.meter, self._store, tables)

    def run(self, stop: Callable[[], bool], drain: float = 30.0) -> int:
        """`work`, then closes the systems. Returns the exit status 0."""
        self.work(stop, drain)
        self.close()
        return 0

    def work(self, stop: Callable[[], bool], drain: float = 30.0) -> None:
        """Works until `stop()` is true, then drains within `drain` seconds. Raises errors that do not belong to a
        partition. On return and on an error it clears the crash marks of this process."""
        self._log.info("worker.running", pid=os.getpid(), durability=self._store.level.name)
        try:
            while not stop():
                self.turn()
            self._drain(self._parts.clock.monotonic() + drain)
        finally:
            self._processor.finish()
            self._claims.let_go()
            if self._tables is not None:
                self._tables.close()
        self._relay.close()

    def close(self) -> None:
        """Closes the producer and the input, after `work`."""
        if self._parts.spans is not None:
            self._parts.spans.flush()
        for client in (self._parts.producer, self._parts.input):
            client.close()
        self._log.info("worker.stopped")

    @property
    def settled(self) -> bool:
        """Whether nothing is in progress that this worker began: no row is being sent, and no call runs."""
        return not self._calls_run() and not any(shard.unsent for shard in self._shards())

    def leave(self) -> Sequence[TopicPartition]:
        """After `work`: the partitions that are assigned to this process, paused, for its next worker."""
        places = self._claims.assigned
        self._parts.input.pause(places)
        return places

    def adopt(self, places: Sequence[TopicPartition]) -> None:
        """Before `work`: claim these partitions, which an earlier worker of this process left."""
        self._claims.adopt(places, self._parts.clock.monotonic())

    def turn(self) -> None:
        """One round: polls, follows rebalances, accepts records, fires deadlines, commits, and sends outbox rows."""
        now = self._parts.clock.monotonic()
        record = self._parts.input.poll(self._wait(now))
        if failpoints.armed and record is not None:
            failpoints.hit("after-poll")
        batch: Sequence[Record] = (
            () if record is None else [record, *self._parts.input.consume(self._most(record) - 1, self._gathering(now))]
        )
        now = self._parts.clock.monotonic()
        self._claims.follow(now)
        if self._clocks is not None:
            self._clocks.look(batch, now)
        self._expire(now)
        if batch:
            self._accept(batch, now)
            self._commits.turned(len(batch) >= CHUNK)
        if self._commits.due(now, not batch):
            self._commits.all(now)
        self._processor.turn(now)
        self._relay.turn(self._shards(), now)
        self._halt_stopped(now)
        if self._tables_answer():
            self._claims.advance(now)
        self._house_keeping(now)

    def _most(self, first: Record) -> int:
        """The number of records to take at once. Earlier batches give no hint if the first record is large. Partitions
        that are read by a consumer of their own have large records, so they give no hint for other partitions."""
        alone = self._parts.input.alone(first.topic(), first.partition())
        return self._large_chunk if alone or len(first.value() or b"") >= LARGE else self._chunk

    def _tables_answer(self) -> bool:
        """Whether partitions may be claimed."""
        if self._tables is None:
            return True
        self._tables.turn()
        return not self._tables.waits_for

    def _wait(self, now: float) -> float:
        """The seconds for which the poll may wait for a first record. 0 while there is work."""
        if self._commits.pending or self._claims.busy:
            return 0.0
        due = min((owner.next_due() - owner.now(now) for owner in self._owners.values()), default=IDLE)
        loading = self._tables is not None and self._tables.loading
        under_way = (
            loading
            or self._relay.busy
            or self._calls_run()
            or any(shard.unsent or shard.more for shard in self._shards())
        )
        return max(0.0, min(due, RELAYING if under_way else IDLE))

    def _calls_run(self) -> bool:
        return self._processor.busy or any(owner.sealed.running for owner in self._owners.values())

    def due_in(self, now: float) -> float:
        """The seconds until the next deadline or the next claim. Infinity if there is none."""
        deadlines = (owner.next_due() - owner.now(now) for owner in self._owners.values())
        return min(*deadlines, self._claims.retries.next - now, inf)

    def _gathering(self, now: float) -> float:
        return 0.0 if self._commits.pending or self._claims.busy else self._commits.gathering(now)

    def _accept(self, batch: Sequence[Record], now: float) -> None:
        clock, runs = self._parts.clock.monotonic, list[tuple[Sequence[Record], float]]()
        ended = clock()
        for owner, run in self._runs(batch):
            try:
                with engine_faults():
                    self._take(owner, run, now)
                    self._time_warnings.look(owner)
            except LOST as error:
                self._lost(owner, error)
            began, ended = ended, clock()
            runs.append((run, ended - began))
        if not self._parts.input.alone(batch[0].topic(), batch[0].partition()):
            largest = max(len(batch[0].value() or b""), len(batch[-1].value() or b""))
            chunk = CHUNK * min(1 + len(self._owners) // CHUNK_PARTITIONS, MOST_CHUNKS)
            self._chunk = chunk if largest < LARGE else SMALL_CHUNK
        self._pace(runs)

    def _pace(self, runs: Sequence[tuple[Sequence[Record], float]]) -> None:
        """`runs` have their seconds. If large records took long, the next ones of their partitions must not hold up the
        other partitions: the consumer's queue is one for all partitions, and may hold hundreds of them."""
        large: dict[TopicPartition, float] = {}
        for run, seconds in runs if sum(seconds for _, seconds in runs) > SLOW else ():
            if any(len(record.value() or b"") >= LARGE for record in run):
                place = run[0].topic(), run[0].partition()
                large[place] = large.get(place, 0.0) + seconds
        if sum(large.values()) <= SLOW:
            self._large_chunk = min(2 * self._large_chunk, SMALL_CHUNK)
        elif len(self._owners) > 1:
            self._large_chunk = max(1, self._large_chunk // 4)
            self._claims.intake.slow |= {place for place, seconds in large.items() if seconds * len(large) >= SLOW}

    def _runs(self, batch: Sequence[Record]) -> Iterator[tuple[Owner, Sequence[Record]]]:
        """Cuts the batch where the partition changes. Drops records of partitions that this worker does not own.

        `map` over the class's methods takes 15 ns for each record, a Python loop takes 60 ns (tests/bench/hotpath.py).
        """
        kind = type(batch[0])
        numbers = list(map(kind.partition, batch))
        topics = list(map(kind.topic, batch)) if several(self._agent.topics) else [batch[0].topic()] * len(batch)
        begin, size = 0, len(batch)
        while begin < size:
            number, topic, end = numbers[begin], topics[begin], begin + 1
            if not begin and numbers.count(number) == size and topics.count(topic) == size:
                end = size
            while end < size and numbers[end] == number and topics[end] == topic:
                end += 1
            owner = self._owners.get((topic, number))
            if owner is not None:
                yield owner, batch if end - begin == size else batch[begin:end]
            begin = end

    def _take(self, owner: Owner, records: Sequence[Record], now: float) -> None:
        if owner.stopping is not None:
            return
        if not owner.marks.begun:
            records = [record for record in records if record.error() is None]
            if not records or self._claims.fetches.seek_again_if_gap(owner, records[0]):
                return
        intake = self._claims.intake
        if intake.unresolved and not (records := intake.passed(owner.place, records)):
            return
        if owner.marks.poisoned or owner.step():
            self._take_carefully(owner, list(records), now)
            return
        if not owner.marks.begun:
            owner.open(now)
        owner.accept(records, now)
        self._commits.pending += len(records)
        failpoints.hit("after-decode")

    def _take_carefully(self, owner: Owner, records: list[Record], now: float) -> None:
        """Takes the records in small steps after a crash or a failed handler. Each step has its own commit. After a
        crash each step also has its own crash mark. Records before the claim's offset may come first: they were
        committed, so they are no step, and none of them ended the process."""
        records = [record for record in records if record.offset() >= owner.intake.offset]
        while records and owner.stopping is None:
            if owner.marks.poisoned:
                owner.marks.poisoned = False
                owner.refuse_crashed(records.pop(0), now)
            else:
                step = owner.step()
                if owner.marks.step(owner.intake.offset) or not owner.marks.begun:
                    owner.open(now)
                owner.accept(records[: step or None], now)
                del records[: step or None]
            self._commits.one(owner, now)
            self._relay.turn(self._shards(), now)  # sends now, because the next step may lose this owner

    def _expire(self, now: float) -> None:
        deadline = now + EXPIRE_SECONDS
        for owner in list(self._owners.values()):
            try:
                with engine_faults():
                    while owner.expire(now) and owner.behind and now < deadline:
                        self._commits.one(owner, now)
                        now = self._parts.clock.monotonic()
                        self._relay.turn(self._shards(), now)
            except LOST as error:
                self._lost(owner, error)

    def _halt_stopped(self, now: float) -> None:
        """For `on_error: {produce: stop}` and `{stop_above}`, and for too many dead rows: commits the delivery reports,
        then halts."""
        for owner, halt in [(owner, halt) for owner in self._owners.values() if (halt := owner.halts)]:
            try:
                self._commits.one(owner, now)
                raise halt
            except LOST as error:
                self._lost(owner, error)

    def _lost(self, owner: Owner, error: Exception) -> None:
        """Drops the owner and its state. The next claim shows whether its last commit succeeded."""
        if isinstance(error, Fenced):
            self._parts.meter.count("fenced_commits")
        self._commits.pending -= min(self._commits.pending, owner.intake.pending)
        self._claims.lost(owner, error)

    def _finish(self, places: Sequence[TopicPartition]) -> None:
        """Called before other members get these partitions. Commits which of their rows Kafka has, so that the next
        owner does not send them again. The next owner reads the records accepted since the last commit again."""
        owners = [owner for place in places if (owner := self._owners.get(place)) is not None]
        for _ in range(int(HAND_OVER / FLUSH) if self._agent.delivery != "transactional" else 0):
            if not any(owner.shard.out for owner in owners):
                break
            self._parts.producer.flush(FLUSH)
        self._commits.record([owner for owner in owners if owner.shard.reported])

    def _shards(self) -> list[Shard | SplitShard]:
        return [owner.shard for owner in self._owners.values()]

    def _house_keeping(self, now: float) -> None:
        self._claims.intake.balance(self._owners)
        if self._claims.fresh or now >= self._report_at:  # a report right after a claim precedes any later failure
            self._report_at = now + REPORT_EVERY
            if self._tables is not None:
                self._tables.measure()
            self._parts.report(self.reports.of(now))
        if self._claims.fresh or now >= self._probe_at:
            self._claims.fresh, self._probe_at = False, now + PROBE_EVERY
            self._store.look()
            self._commits.look(now)
            self._claims.look(now)
        if now >= self._inform_at:
            self._inform_at = now + INFORM_EVERY
            self._inform()
        # the worker with the first partition of all counts what belongs to no partition
        names = self._parts.input.topics() if patterns(self._agent.topics) else self._agent.topics
        self._processor.measure(now, any((name, 0) in self._owners for name in (names or ())[:1]))

    def _inform(self) -> None:
        """Commits the offsets to Kafka, for lag monitors and to detect a store that lost writes. Such an asynchronous
        commit takes the loop more than a millisecond, so it is made once every INFORM_EVERY seconds."""
        for owner in self._owners.values():
            claim = owner.claim
            if claim.version != owner.informed and claim.offset >= 0:
                self._parts.input.inform(*owner.place, claim.offset, informational(claim))
                owner.informed = claim.version

    def _drain(self, deadline: float) -> None:
        """Stops the intake, commits, waits for delivery reports and commits them (docs/protocol.md, Release)."""
        clock, self.reports.draining = self._parts.clock, True
        self._log.info("worker.draining")
        if self._setting.slow is not None:
            self._setting.slow.stop()
        self._processor.stop()
        self._parts.report(self.reports.of(clock.monotonic()))
        self._commits.all(clock.monotonic())
        self._confirm(deadline)
        while (self._calls_run() or any(shard.unsent for shard in self._shards())) and clock.monotonic() < deadline:
            self._processor.turn(clock.monotonic())
            self._relay.turn(self._shards(), clock.monotonic())
            self._halt_stopped(clock.monotonic())
            if self._calls_run() or self._relay.busy:
                time.sleep(0.02)  # they run in threads, and no event reports their end
                self._commits.all(clock.monotonic())
            elif any(shard.unsent for shard in self._shards()):
                self._parts.producer.flush(FLUSH)
        self._commits.all(clock.monotonic(), reports=True)
        self._claims.give_back()
        self._inform()

    def _confirm(self, deadline: float) -> None:
        """Claims lost partitions again if their delivery reports are not committed, because that commit needs a claim.
        Accepts no record."""
        clock = self._parts.clock
        self._relay.turn(self._shards(), clock.monotonic())
        self._claims.claim_once_more(self._relay.unrecorded(), clock.monotonic())
        while self._claims.busy and clock.monotonic() < deadline:
            self._claims.advance(clock.monotonic())
        self._relay.turn(self._shards(), clock.monotonic())
