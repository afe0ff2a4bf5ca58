"""One partition while this process owns it: claim, restore, (accept | expire), commit.

There is one way to handle a failed commit: the owner is dropped as a whole, and a new one claims.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf

from msgspec.structs import replace

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.durable.paging import pageable
from sluicegate.streams.aggregation.events import WINDOW, Event, Fire, KeptItem, Unhandled
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.group_faults import GroupFaults
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.taking import fill, taken
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Changes, Claim, CrashMark, OutboxRow, Partition, Source, TopicFacts
from sluicegate.streams.errors import (
    ChangelogIncomplete,
    EngineFault,
    Fenced,
    GroupFault,
    Halt,
    HandlerFailed,
    PersistenceError,
    ProduceStopped,
    StoreSwapped,
)
from sluicegate.streams.handlers import retried
from sluicegate.streams.handlers.handling import decided
from sluicegate.streams.handlers.held import WaitingItems, offset_of
from sluicegate.streams.handlers.processor import Aggregating, Item, RecordProcessor
from sluicegate.streams.handlers.sealed import kept
from sluicegate.streams.handlers.session import PreparedCommit, in_session
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.outbox.relay import Shard
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.ownership import released, windowed
from sluicegate.streams.ownership.beginning import check_scope, endings, idle_since, noted, start
from sluicegate.streams.ownership.checks import NOTHING, ClaimVersion, check_claim, check_partitions
from sluicegate.streams.ownership.crash import CrashMarks
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.ownership.paged import ColdReads
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.store_clock import BACK, StoreClock
from sluicegate.streams.ownership.switching import Switch, judged, refuse_left
from sluicegate.streams.ownership.timers import with_timers
from sluicegate.streams.ownership.windowed import windows_of
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.windows.intake import take
from sluicegate.streams.windows.marks import without_marks
from sluicegate.streams.windows.opening import groups_of

SLICE = 1_000  # groups that one expiry fires at most, entries that one slice of a restore reads
EARLY = 6  # commits of a claim after which its process did not die of its first fetch; idle owners commit every 5 s
Late = tuple[list[bytes], Section, list[bytes]]
"""The ids that are withdrawn, the changes of items that the store keeps, and the entries of a commit that say both."""
NOTHING_LATE: Late = ([], Section(), [])
MOST_HELD = 2_000  # records accepted while items wait for another try of their handler, before intake pauses


class Owner:
    """`partition` under `claim`. `offset` is the next one to read. Records between the claim's offset and it are not
    committed yet."""

    def __init__(
        self,
        partition: Partition,
        setting: AgentRuntime,
        rows: Rows,
        faults: int = 0,
        group_faults: GroupFaults | None = None,
    ) -> None:
        """`faults` is as in CrashMarks, `group_faults` those of earlier claims of this process."""
        self.partition, self._setting, self._rows = partition, setting, rows
        self.groups = groups_of(setting.rule, bool(setting.agent.history))
        self.windows = windows_of(self.groups)
        self.origin, self.awaits = windowed.origin_of(self.groups), windowed.awaiting(self.groups)
        self.senders, self.proof = ReceivedShards(partition.topic), HeaderProof(setting.mac)
        self.dedupe = DuplicateFilter(setting.ids) if setting.ids else None
        self.faults, self.fault = faults, ""  # how often the engine failed at a record here, and its last error
        self.groups.faults = self.group_faults = GroupFaults() if group_faults is None else group_faults
        self.marks = CrashMarks(setting.process, faults)
        self._inbox: list[Item] = []  # messages for the handlers
        self.held = WaitingItems()
        self._monotonic = 0.0  # the process' own time at the last turn: the store's clock may be set back
        self.place = partition.topic, partition.number
        self.sealed = released.sealed_of(setting, self.place)
        self.offset = self.epoch = -1
        self.informed = -1  # the version that Kafka was told last
        self.pending = 0  # records accepted and not committed
        self.left = 0  # of them, those that the commit under way leaves
        self.passed_over = 0  # records that were retried for another agent, until they are counted
        self.restored_bytes = 0
        self.newest: Record | None = None  # the last record that this process took of the partition
        self.since = 0.0  # the process' own time at its first claim of the partition
        self.begun = False  # the first record was taken, its crash mark stands
        self.suspected = False  # the owner before died at its first fetch, as it seems
        self.earlier = ""  # the token of this process' last claim of the partition
        self.grown = False  # the topic has more partitions than at the last commit: keys moved
        self.older = Generations(setting, (), apart=True)
        self._switch = Switch()
        self._source: Source | None = None
        self._late: Late = NOTHING_LATE
        self.stopping: Halt | None = None  # no record is taken any more, and it halts when its rows are sent

    def take(self, token: str, monotonic: float, known: ClaimVersion = NOTHING) -> Iterator[Sequence[Event] | None]:
        """Claim, check, restore, and end the groups that cannot go on: a slice at each step, so that polling goes on
        between them. Gives the events of each slice that it committed. `known` is the newest of the row that this
        process has seen. Raises Halt, PersistenceError, SystemNotReady, ConfigurationError, HandlerFailed."""
        setting, partition = self._setting, self.partition
        self.facts: TopicFacts = setting.input.facts(partition.topic, partition.number)
        self.claim: Claim = setting.store.claim(partition, token, setting.member)
        self._clock = StoreClock(self.claim.store_time, monotonic)
        if failpoints.armed:
            failpoints.hit("after-claim")
        yield None
        self._check(known)
        if self.claim.incarnation != setting.store.incarnation:
            raise StoreSwapped(
                "the partition was made under another incarnation of the store than the one that answers now"
            )
        before = self.claim.source
        if setting.schemas is not None:
            setting.schemas.begin(before)
        self._switch = judged(before, setting, partition)
        self.older = Generations(setting, self._switch.every, type(setting.processor) is Aggregating)
        self._changelog = Changelog(
            self.groups,
            self.claim.first,
            windowed.known(self.groups, self.dedupe),
            self.sealed,
            self._switch.generation,
            self.older.by_number(),
        )
        yield from self._restore()
        yield from self._heat()
        self._begin()
        if self.claim.offset < 0 or self._idle_begins(before) or self._switches(before):
            # Before anything else, the store must know where the partition begins, since when groups are idle, and
            # which version of the rule takes the next record.
            self._commit_source(before)
        yield from self._end_groups(monotonic)
        yield from self._release(monotonic)
        if failpoints.armed:
            failpoints.hit("after-restore")

    def _check(self, known: ClaimVersion) -> None:
        """The facts were read before the claim, since a worker without Kafka must not take a partition. Another worker
        may have continued since: so they are read once more before a halt."""
        try:
            check_claim(self.claim, self.facts, known)
        except Halt:
            self.facts = self._setting.input.facts(self.partition.topic, self.partition.number)
            try:
                check_claim(self.claim, self.facts, known)
            except Halt:
                self._still_ours()
                raise

    def _still_ours(self) -> None:
        """A later claim of another worker explains a gap. Raises Fenced."""
        view = self._setting.store.read(self.partition)
        if view is None or view.claim.token != self.claim.token:
            raise Fenced("another process claimed the partition during the takeover") from None

    def _restore(self) -> Iterator[None]:
        """Apply the changelog (docs/protocol.md, Restore)."""
        paging = self._changelog.paging
        self._cold = ColdReads(self._setting.store, self.partition, self.groups, paging, self._still_ours)
        entries: list[bytes] = []
        for entry in self._setting.store.restore(self.claim):
            entries.append(entry)
            self.restored_bytes += len(entry)
            if len(entries) % SLICE == 1:
                if failpoints.armed:
                    failpoints.hit("in-restore")
                yield
        try:
            self._changelog.replay(entries, self.claim.first, self.claim.last, self.senders)
        except ChangelogIncomplete:
            self._still_ours()
            raise

    def _heat(self) -> Iterator[None]:
        """Make all cold groups hot, where the rule of this worker keeps none, and before the partition changes to
        another generation."""
        paging, source = self._changelog.paging, self.claim.source
        if not paging.count or source is None or (pageable(self.groups) and not self._switch.every):
            return
        for _ in self._cold.all(self._changelog.every()[source.generation]):
            now, claim = self._clock.last, self.claim
            _, gone = paging.moved(now)
            entries, keep_from = self._changelog.entries({}, lambda: self.senders.whole(self._clock.last), now)
            changes = Changes(claim.offset, claim.epoch, entries, keep_from, trying=claim.trying, drop_cold=gone)
            self.claim = self._setting.store.commit(claim, changes)
            yield

    def _begin(self) -> None:
        """All steps between the restored state and the first record."""
        claim, setting, known = self.claim, self._setting, self.claim.source
        self.offset, self.epoch = self._leave(), claim.epoch
        if claim.offset < 0:
            self.offset = start(self.partition, setting.agent.start, self.facts, setting.store, setting.input)
        elif self.offset < claim.offset:
            self.epoch = -1
        self.grown = check_partitions(known, self.facts, setting.rule.aggregation, self.open_groups)
        idle = idle_since(known, setting.rule, len(self.groups.states) + self.groups.cold, self._clock.last)
        self._source = noted(claim, self.facts, setting, idle, self._switch, self.offset)
        self.proof.since = self._source.proof_from
        if idle:
            self.groups.idle = idle
            self.groups.rearm()
        self._set_back()
        self._rows.begin(claim.token, claim.number, self._source.name)
        self.marks.found(claim.trying, self.offset)
        self.suspected = self._died_fetching()
        windowed.expect_origins(self.windows, setting.input)
        if self.awaits is not None:
            self.awaits.begin(self.facts.high, self._clock.last)
        self.sealed.settle(setting.agent.handler is not None)
        if setting.slow is not None:
            setting.slow.resumed(self.sealed)
        partition, store, stops = self.partition, setting.store, setting.agent.on_error.produce == "stop"
        pending, dead = partial(store.pending, partition), partial(store.dead, partition)
        self.shard = Shard(pending, claim.number, claim.token, stops, partition, dead)

    def _died_fetching(self) -> bool:
        """Whether there are records to fetch, and the owner before died soon after its claim, with no commit that moved
        the offset: a batch that is larger than the memory when it is unpacked ends a process so. Other causes do it,
        too: this is a suspicion, which costs a probe (streams/ownership/probing.py)."""
        claim, source = self.claim, self.claim.source
        died = claim.previous not in ("", self.earlier)
        if died and source is not None and source.lineage == claim.previous:
            died = source.claimed == self.offset and claim.version - source.since < EARLY
        return self.facts.high > self.offset and (died or self.marks.unfetchable)

    def halt(self, monotonic: float) -> None:
        """Commit that the next batch cannot be fetched, so that the next owner does not try it."""
        claim = self.claim
        changes = Changes(claim.offset, claim.epoch, trying=self.marks.halting(self.offset), source=self._source)
        self.claim = self._setting.store.commit(claim, changes)
        self.tick(monotonic, inf)

    def _leave(self) -> int:
        """Leave earlier generations behind, if the restored groups ask for it. Returns the next offset to read."""
        previous, before = self._switch.left, self.claim.source
        if self.windows is not None:
            windowed.inherit(self.windows, self._changelog.older.values())
        if previous is not None and before is not None:
            groups = self._changelog.older[previous.number]
            check_scope(groups.rule, self.partition, self._setting, previous.policy)
            refuse_left(previous, len(groups.states), self.partition)
        for each in self.older:
            each.groups.faults = self.group_faults
        offset = self.older.begin(self.claim, before.name if before is not None else "")
        self.groups.elders = self.older.finishing()
        older = self.older.by_number()
        generation = self._switch.generation
        if previous is not None and previous.number not in older:
            generation = previous.number
        self._switch = Switch(tuple(each.known for each in self.older), None, generation)
        self._changelog.older, self._changelog.generation = older, generation
        return offset

    def _commit_source(self, before: Source | None) -> None:
        """The first commit of a claim, which changes nothing but the source."""
        watched = failpoints.armed and self._switches(before)
        if watched:
            failpoints.hit("switch-decided")
        changes = Changes(self.offset, self.epoch, trying=self.claim.trying, source=self._source)
        self.claim = self._setting.store.commit(self.claim, changes)
        if watched:
            failpoints.hit("switch-sent")

    def _switches(self, before: Source | None) -> bool:
        """Whether this claim changes the version of the row, or its generations."""
        now = self._source
        if before is None or now is None:
            return False
        return (before.version, before.rule, before.older) != (now.version, now.rule, now.older)

    def _end_groups(self, monotonic: float) -> Iterator[Sequence[Event]]:
        """End the groups that end before the first record. The row names the older generations until the commit that
        ends their last group, so a claim after a crash goes on with the others."""
        for _ in self._slices(self._clock.last):
            events = self.commit(monotonic)
            self.tick(monotonic, inf)  # `monotonic` is from before the commit
            yield events or ()

    def _release(self, monotonic: float) -> Iterator[Sequence[Event]]:
        """Handle the items that the store kept and that wait for nothing, each in a commit of its own. The mark that a
        call begins is durable before it, so that an item that ends its process is given up."""
        next_one = self.sealed.free if self._setting.slow is None else self.sealed.undecided
        while (item := next_one()) is not None:
            number, ends = item.number, item.attempts
            if ends >= self.sealed.bounds.most:
                events = [released.ended(item.item, self._setting.agent.handler)]
                yield self._commit_ended(item.item, events, monotonic)
                continue
            self._note(Section({}, {number: ends + 1}), monotonic)
            try:
                yield self._commit_released(item.item, monotonic)
            except HandlerFailed:
                self._note(Section({}, {number: ends}), monotonic)
                raise

    def _note(self, section: Section, monotonic: float) -> None:
        ready = self.reports()
        ready = ready._replace(changes=self._with(section, (), ready.changes))
        self.committed(self._setting.store.commit(self.claim, ready.changes), ready, monotonic)

    def _commit_released(self, item: Message | Fire, monotonic: float) -> Sequence[Event]:
        """Handle the item, and commit what became of it. Raises HandlerFailed."""
        setting, rows = self._setting, self._rows
        processor = setting.processor
        items: list[Item] = [item]
        if isinstance(item, Fire):
            handled = setting.agent.handler is not None
            items = [*retried.decided(item, setting.rule, handled, self.groups.outcomes)]
        if setting.slow is not None and (section := released.sealed_again(items)):
            self._note(section, monotonic)
            return ()
        if not processor.session or not any(isinstance(each, Message | Fire) for each in items):
            return self._commit_ended(item, processor.run(items, rows.fire_id, None, self.place), monotonic)
        base = self.reports().changes
        made = lambda events: self._with(released.after(item, events), events, base)  # noqa: E731
        claim, ready = in_session(setting.store, self.claim, processor, items, made, rows)
        return self.committed(claim, ready._replace(events=released.counted(ready.events)), monotonic)

    def _commit_ended(self, item: Message | Fire, events: Sequence[Event], monotonic: float) -> Sequence[Event]:
        """Commit what became of an item that the store kept."""
        rows = self._rows.make(events)
        changes = self._with(released.after(item, events), events, self.reports().changes)
        ready = PreparedCommit(replace(changes, outbox=rows), decided([], events), [item])
        if failpoints.armed:
            failpoints.hit("before-commit")
        return self.committed(self._setting.store.commit(self.claim, ready.changes), ready, monotonic)

    def _with(self, section: Section, events: Sequence[Event], changes: Changes) -> Changes:
        """The changes, with those of the items that the store keeps, and with what was scheduled."""
        now = self._clock.last
        self._late = [], section, self._changelog.late([], section, now)
        return with_timers(replace(changes, entries=[*changes.entries, *self._late[2]]), events, now)

    def _slices(self, now: float) -> Iterator[None]:
        yield from self.older.end(self.groups, now)
        self._cold.asked()
        yield from endings(self.groups, now)
        yield from self._cold.judged(now)

    def _idle_begins(self, before: Source | None) -> bool:
        """Whether open groups count from this claim on. Then no later claim may move that moment."""
        return bool(self._source and self._source.idle and (before is None or before.idle is None))

    def now(self, monotonic: float) -> float:
        """The owner's time: the store's time at the last commit plus the time passed since. It never goes back."""
        self._monotonic = monotonic
        return self._clock.now(monotonic)

    def accept(self, records: Sequence[Record], monotonic: float) -> None:
        """Take records of this partition, in order (docs/protocol.md, Accept). Raises Halt."""
        if records[0].offset() < self.offset and not (
            records := [record for record in records if record.offset() >= self.offset]
        ):
            return
        now = self.now(monotonic)
        self.newest = last = records[-1]
        fresh = for_us(records, self.partition, self.proof)
        self.passed_over += len(records) - len(fresh)
        if self.partition.topic in self._setting.agent.receive:
            fresh = self.senders.drop_repeats(fresh, now, self.proof)
            if self.windows is None or self.windows.merged is None:
                fresh = without_marks(fresh)
        if self.older:
            fresh = self.older.take(as_read(self.groups, self.older.again(fresh)), now, self.dedupe, self._inbox)
        if self.windows is None:
            self._cold.look_up(fresh, now)
            self._take(fresh, now)
        else:
            take(self.windows, fresh, now, self.dedupe)
        self.pending += len(records)
        self.offset = last.offset() + 1
        self.epoch = -1 if (epoch := last.leader_epoch()) is None else epoch

    def _take(self, fresh: Sequence[Record], now: float) -> None:
        processor = self._setting.processor
        if self.origin is None and self.dedupe is None and processor.batches:
            fill(self.groups, fresh, now)
            return
        fresh = taken(self.groups, fresh) if self.origin is None else windowed.stamping(self.origin, fresh, now)
        for run in self.dedupe.runs(fresh, now, self.groups, self._inbox) if self.dedupe else (fresh,):
            if processor.batches:
                accept(self.groups, run, now)
            else:
                self._inbox += processor.read(self.groups, run)

    def open(self, monotonic: float) -> None:
        """Commit the crash mark before the first batch, and before each careful step."""
        offset, epoch = self.held.reached(self.offset, self.epoch)
        changes = Changes(offset, epoch, trying=self.marks.opening(offset), source=self._source)
        self.claim = self._setting.store.commit(self.claim, changes)
        self.tick(monotonic, inf)  # `monotonic` is from before the commit
        self.begun = True

    def failed(self, error: EngineFault) -> None:
        """The engine failed, at a group or with records in hand: count it. This owner has ended."""
        if isinstance(error, GroupFault):
            self.group_faults.note(error)
        else:
            self.marks.failed()
            self.faults, self.fault = self.faults + 1, str(error)

    def refuse_crashed(self, record: Record, monotonic: float) -> None:
        """This record ended the process, or failed in the engine, three times: make it a dead letter with its bytes
        unchanged, unless the shared buffer or a result holds it already."""
        self.begun = True
        elsewhere = self.older and not self.older.again((record,))
        if elsewhere or self._setting.processor.holds(self.place, record.offset(), self._rows.fire_id):
            return self.accept((record,), monotonic)
        why = "the process ended three times while it worked on this record"
        if self.fault:
            why = f"the engine failed three times at this record; please report it: {self.fault}"
        self.groups.refuse(record, "crash", "crash", why)
        self.pending += 1
        self.offset = record.offset() + 1

    def expire(self, monotonic: float) -> int:
        """Fire a slice of the groups that are due (docs/protocol.md, Fire). Returns their number."""
        if self._nearest() > self.now(monotonic) and not self.behind:
            return 0
        if self._changelog.paging.nearest <= self._clock.last:
            self._cold.expire(self._clock.last)
        fired = self.groups.expire(self._clock.last, SLICE)
        if self.older:
            fired += self.older.expire(self._clock.last, SLICE)
        if fired and failpoints.armed:
            failpoints.hit("expire-selected")
        return fired

    @property
    def has_changes(self) -> bool:
        if self.held.items:
            return self.items_ready
        slow = self._setting.slow
        waits = slow is not None and slow.work(self.sealed, self._clock.last)
        changed = self.groups.events or self.groups.touched or (self.older and self.older.changed)
        return bool(waits or self.pending or changed)

    @property
    def behind(self) -> bool:
        """Whether more groups are due than the last slice fired."""
        cold = self._changelog.paging.nearest <= self._clock.last
        return self.groups.behind or cold or (len(self.older) > 0 and self.older.behind)

    @property
    def decided(self) -> int:
        """The events that wait for a commit."""
        newest = len(self.groups.events)
        return newest + sum(len(each.groups.events) for each in self.older) if self.older else newest

    def every_groups(self) -> list[Groups]:
        """The open groups of all generations: of the newest one first."""
        return [self.groups, *(each.groups for each in self.older)]

    @property
    def open_groups(self) -> int:
        return sum(len(each.states) + each.cold for each in self.every_groups())

    @property
    def items_ready(self) -> bool:
        """Whether there are items that a commit left and that can be handled now."""
        return self.held.ready(self._monotonic)

    @property
    def waits_for(self) -> str:
        """The error that items wait for, or why the partition is about to halt; else empty."""
        topic, number = self.place
        if self.stopping is not None:
            return f"halting {topic}/{number} when its rows are sent: {self.stopping.code}"
        return f"waiting to handle {topic}/{number} again: {self.held.why}" if self.held.waits(self._monotonic) else ""

    @property
    def halts(self) -> Halt | None:
        """Why the partition halts now. A refused row stays unsent; else all rows are sent first, because operators look
        for dead letters in their topic."""
        if self.shard.stopped:
            return ProduceStopped(self.shard.refusal)
        return None if self.shard.unsent or self.shard.more else self.stopping

    def next_due(self) -> float:
        """The time, on the owner's clock, of the nearest deadline of a group or of a handler's next try."""
        now = self._clock.last
        return min(self._nearest(), self.sealed.next_ready(now), now + self.held.due() - self._monotonic)

    def _nearest(self) -> float:
        """The nearest deadline of a group."""
        due = min(self.groups.next_due(), self._changelog.paging.nearest)
        return min(due, self.older.next_due()) if self.older else due

    @property
    def full(self) -> bool:
        """Whether intake must pause."""
        waits = bool(self.held.items) and self.pending >= MOST_HELD
        return waits or self.stopping is not None or self.shard.full or self.sealed.full or self._setting.processor.full

    def step(self) -> int:
        """How many records one commit may take; 0: no bound."""
        processor = self._setting.processor
        apart = 0 if processor.parts else processor.step(self.place, self.offset)
        return min(filter(None, (apart, self.marks.step(self.offset))), default=0)

    def commit(self, monotonic: float) -> Sequence[Event] | None:
        """Make everything since the last commit durable, then release its rows to the relay. Returns the events. None:
        a handler failed and nothing was committed; `held` says until when its items wait.

        Raises Fenced, PersistenceError or HandlerFailed: this owner has ended.
        """
        store, processor = self._setting.store, self._setting.processor
        waiting = self._inbox or self.groups.events or self.held.items
        self.now(monotonic)
        if processor.session and waiting and not self.held.waits(self._monotonic):
            return self._commit_session(processor, monotonic)
        ready = self.prepare(monotonic)
        return None if ready is None else self.committed(store.commit(self.claim, ready.changes), ready, monotonic)

    def _commit_session(self, processor: RecordProcessor, monotonic: float) -> Sequence[Event] | None:
        items = self._items()
        free, blocked = self._parted(items)
        made: list[Changes] = []

        def final(events: Sequence[Event]) -> Changes:
            if not made:  # the store may ask more than once
                made.append(self._changes([], monotonic))
            return self._settled(made[0], [*events, *blocked])

        try:
            done = in_session(self._setting.store, self.claim, processor, free, final, self._rows)
        except HandlerFailed as error:
            if made and (made[0].entries or not processor.parts):  # what the changes said is not said again
                raise
            self._hold(items, error)
            return None
        return self.committed(*done, monotonic)

    def _hold(self, items: Sequence[Item], error: HandlerFailed) -> None:
        """Handle them again later, under this claim. Raises `error` where only a new claim can: during the take-over,
        while a crash mark stands, or where a commit writes sender numbers and ids read after the failed item."""
        processor = self._setting.processor
        careful = not self.begun or self.marks.set or self.marks.step(self.claim.offset)
        if careful or not (processor.parts or processor.batches):
            raise error
        at = processor.failing(self.place, offset_of(items[0])) if processor.parts else None
        self.held.put_back(items, self._monotonic + error.delay, at, str(error))

    def prepare(self, monotonic: float) -> PreparedCommit | None:
        """Everything since the last commit as changes. What follows is `committed`, or the end of this owner. None: a
        handler failed, and nothing can be committed now."""
        self.now(monotonic)
        if self.held.waits(self._monotonic):
            return self.reports()
        items = self._items()
        free, blocked = self._parted(items)
        events: Sequence[Event]
        if (slow := self._setting.slow) is not None:
            events = slow.decide(self.sealed, items, self._rows.fire_id, self.now(monotonic))
        else:
            try:
                events = self._setting.processor.run(free, self._rows.fire_id, None, self.place)
            except HandlerFailed as error:
                self._hold(items, error)
                return None
        # a group of an earlier rule ends before the next one of its key
        apart, earlier = self.older.results(self._rows) if self.older else ((), ())
        rows = self._rows.make(events)
        decisions = events if events is items else decided(items, events)
        if apart:
            rows, events, decisions = [*earlier, *rows], [*apart, *events], [*apart, *decisions]
        changes = self._settled(self._changes(rows, monotonic), [*events, *blocked] if blocked else events)
        if failpoints.armed and (self.pending or events):
            failpoints.hit("before-commit")
        if failpoints.armed and self._has_earlier_groups:
            failpoints.hit("earlier-decided")
        return PreparedCommit(changes, decisions, items)

    @property
    def _has_earlier_groups(self) -> bool:
        """Whether the row names groups of an earlier version of the rule."""
        return bool(self.claim.source and self.claim.source.older)

    def _items(self) -> list[Item]:
        """The items to process: refused records, fires and messages."""
        earlier = self.older.items() if self.older else ()
        items, self._inbox = [*self.held.taken(), *earlier, *self.groups.drain(), *self._inbox], []
        processor = self._setting.processor
        step = processor.step(self.place, offset_of(items[0])) if items and processor.parts else 0
        return self.held.part(items, step) if step else items

    def reports(self) -> PreparedCommit:
        """The delivery reports alone, without records accepted since the last commit (docs/protocol.md, Record)."""
        delivered, dead = self.shard.taken()
        self.left, claim = self.pending, self.claim
        changes = Changes(
            claim.offset, claim.epoch, dispatched=delivered, dead=dead, trying=claim.trying, source=self._source
        )
        return PreparedCommit(changes, [], [])

    def _changes(self, rows: Sequence[OutboxRow], monotonic: float) -> Changes:
        now, paging = self.now(monotonic), self._changelog.paging
        paging.most = self._setting.rule.aggregation.hot_groups if pageable(self.groups) and not self.older else 0
        evicted, warmed = paging.moved(now)
        entries, keep_from = self._changelog.entries(self.senders.changes(), lambda: self.senders.whole(now), now)
        delivered, dead = self.shard.taken()
        offset, epoch = self.held.reached(self.offset, self.epoch)
        self.left = len(self.held.items)
        if self._setting.schemas is not None:
            self._source = self._setting.schemas.noted(self.claim, self._source)
        if self.proof.begins(now):
            self._begin_proof()
        if self.older:
            self._source = self.older.noted(self._source or self.claim.source, offset) or self._source
            self._changelog.older = self.older.by_number()
        return Changes(
            offset=offset,
            epoch=epoch,
            entries=entries,
            keep_from=keep_from,
            outbox=rows,
            dispatched=delivered,
            dead=dead,
            trying=self._mark(offset),
            source=self._source,
            put_cold=evicted,
            drop_cold=warmed,
        )

    def _begin_proof(self) -> None:
        """From here on records need a MAC. What the partition holds already needs none."""
        source, high = self._source or self.claim.source, self._setting.input.high(*self.place)
        if source is not None and high >= 0:
            self.proof.since = max(self.offset, high)
            self._source = replace(source, proof_from=self.proof.since)

    def _parted(self, items: list[Item]) -> tuple[list[Item], list[KeptItem]]:
        """The items for the handler, and those that wait in the store behind an item of their key."""
        if not self.sealed.held or self._setting.slow is not None:
            return items, []
        blocks = self.sealed.blocks
        return [item for item in items if not blocks(item)], [KeptItem(item) for item in items if blocks(item)]

    def _settled(self, changes: Changes, events: Sequence[Event]) -> Changes:
        """With what was scheduled, and the items that the store keeps. A message that its handler refused for good does
        not count as seen."""
        changes = with_timers(changes, events, self._clock.last)
        ids = self.dedupe.given_up(events) if self.dedupe else []
        section = kept(events) if self._setting.processor.parks else Section()
        self._late = ids, section, self._changelog.late(ids, section, self._clock.last)
        return replace(changes, entries=[*changes.entries, *self._late[2]]) if self._late[2] else changes

    def committed(self, claim: Claim, ready: PreparedCommit, monotonic: float) -> Sequence[Event]:
        """The store took the changes and gave the next claim; returns the events."""
        earlier = failpoints.armed and self._has_earlier_groups
        self.claim, (changes, events, items) = claim, ready
        (ids, section, blobs), self._late = self._late, NOTHING_LATE
        if blobs:
            self._changelog.settled(blobs, ids)
        if not section.empty:
            self.sealed.took(section)
        self._setting.processor.committed(items, self._rows.fire_id, self.place)
        self._setting.processor.counted(self.groups)
        if failpoints.armed and (self.pending or events):  # a commit of delivery reports alone would be no test
            failpoints.hit("commit-sent")
            failpoints.hit("after-commit")
            if any(isinstance(event, Fire | Unhandled) and event.reason in ("timeout", WINDOW) for event in events):
                failpoints.hit("expire-committed")
        if earlier:
            failpoints.hit("earlier-committed")
        if changes.trying is None:
            self.marks.clear()
        self._source, self.pending = None, self.left
        self.shard.recorded([*changes.dispatched, *(row.number for row in changes.dead)])
        self.shard.add(changes.outbox, monotonic)
        if self._setting.slow is not None:
            self._setting.slow.start(self.sealed, self._rows.fire_id)
        return events

    def _mark(self, offset: int) -> CrashMark | None:
        """The mark stays unchanged after a commit that does not move the offset: such a commit shows nothing about
        crashes."""
        return self.claim.trying if offset == self.claim.offset else None

    def tick(self, monotonic: float, took: float) -> float:
        """Take the store's time from the last commit, as StoreClock.answered."""
        jump = self._clock.answered(self.claim.store_time, monotonic, took)
        if self._clock.set_back:
            self._set_back()
            if self.groups.cold and self._changelog.paging.at > self._clock.last + BACK:
                raise PersistenceError("the store's clock was set back: the deadlines of cold groups are computed anew")
        return jump

    def _set_back(self) -> None:
        """No deadline waits for a clock that was ahead."""
        now = self._clock.last
        for groups in self.every_groups():
            groups.set_back(now)
        self.sealed.set_back(now)
        if self.dedupe is not None:
            self.dedupe.seen.set_back(now)
