"""One partition while this process owns it: it accepts records, fires groups that are due, and commits. A take-over
precedes it (takeover.py).

A failed commit is handled in one way: the owner is dropped as a whole, and a new owner claims.
"""

from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import WINDOW, Event, Fire, KeptItem, Unhandled
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Changes, Claim, CrashMark, OutboxRow, Partition, Source, TopicFacts
from sluicegate.streams.errors import Halt, HandlerFailed, ProduceStopped
from sluicegate.streams.handlers.handling import decided
from sluicegate.streams.handlers.held import WaitingItems, offset_of
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.sealed import kept
from sluicegate.streams.handlers.session import PreparedCommit, in_session
from sluicegate.streams.outbox.relay import Shard
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.outbox.split import SplitShard
from sluicegate.streams.ownership import released
from sluicegate.streams.ownership.crash import CrashMarks
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.ownership.intake import Intake
from sluicegate.streams.ownership.partition_groups import PartitionGroups
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.store_clock import StoreClock
from sluicegate.streams.ownership.timers import with_timers

Late = tuple[list[bytes], Section, list[bytes]]
"""The ids that are withdrawn, the changes of stored items, and the entries of a commit that record both."""
NOTHING_LATE: Late = ([], Section(), [])
MOST_HELD = 2_000  # records that are accepted while items wait for another attempt of their handler


class Owner:
    """`partition` under `claim`. Records between the claim's offset and `intake.offset` are not committed yet. `token`
    belongs to the newest claim by this process. `source` are the input facts that the next commit writes; None: they
    stay unchanged. The take-over sets the attributes that have no value here."""

    facts: TopicFacts
    claim: Claim
    clock: StoreClock
    changelog: Changelog
    shard: Shard | SplitShard

    def __init__(
        self, partition: Partition, setting: AgentRuntime, rows: Rows, now: float, before: "Owner | None" = None
    ) -> None:
        """`now` is the process' own time. `before` is the previous owner in this process."""
        self.partition, self.setting, self.rows = partition, setting, rows
        self.place = partition.topic, partition.number
        self.groups = PartitionGroups(setting.rule, bool(setting.agent.history), Generations(setting, (), apart=True))
        self.intake: Intake = Intake(partition, setting, self.groups, now, before.intake if before else None)
        self.marks: CrashMarks = CrashMarks(setting.process, before.marks if before else None)
        self.groups.newest.emitter.faults = self.marks.group_faults
        self.waiting = WaitingItems()
        self.sealed = released.sealed_of(setting, self.place)
        self.token: str = before.token if before else ""
        self.informed = -1  # the version in the last informational commit
        self.source: Source | None = None
        self.stopping: Halt | None = None  # intake has stopped, and the partition halts when its rows are sent
        self._uncommitted = 0  # the number of pending records that the current commit does not include
        self._late = NOTHING_LATE

    @property
    def claimed(self) -> bool:
        return hasattr(self, "claim")

    def halt(self, monotonic: float) -> None:
        """Commit that the next batch cannot be fetched, so the next owner does not try it without a probe."""
        claim = self.claim
        changes = Changes(claim.offset, claim.epoch, trying=self.marks.halting(self.intake.offset), source=self.source)
        self.claim = self.setting.store.commit(claim, changes)
        self.tick(monotonic, inf)

    def now(self, monotonic: float) -> float:
        """The owner's time: the store's time at the last commit plus the time passed since. It never goes back."""
        return self.clock.now(monotonic)

    def accept(self, records: Sequence[Record], monotonic: float) -> None:
        """Take records of this partition, in order. Raises Halt."""
        self.intake.accept(records, self.now(monotonic))

    def open(self, monotonic: float) -> None:
        """Commit the crash mark before the first batch, and before each careful step."""
        offset, epoch = self.waiting.reached(self.intake.offset, self.intake.epoch)
        changes = Changes(offset, epoch, trying=self.marks.opening(offset), source=self.source)
        self.claim = self.setting.store.commit(self.claim, changes)
        self.tick(monotonic, inf)  # `monotonic` is from before the commit
        self.marks.begun = True

    def refuse_crashed(self, record: Record, monotonic: float) -> None:
        """Make the record a dead letter, because it ended the process, or the engine failed at it, three times. A
        record that the shared buffer or a result already holds is accepted instead, and a repeat is skipped. After an
        error of the engine repeats are not looked for, because that check may be what failed."""
        self.marks.begun = True
        older = self.groups.older
        elsewhere = older and not older.select_reread((record,))
        if elsewhere or self.setting.processor.holds(self.place, record.offset(), self.rows.fire_id):
            self.accept((record,), monotonic)
        elif self.marks.fault or self.intake.fresh((record,), self.now(monotonic)):
            self.intake.refuse(record, self.marks.cause)
        else:
            self.intake.skip(record)

    def expire(self, monotonic: float) -> int:
        """Fire a slice of the groups that are due. Returns their number."""
        fired = self.groups.expire(self.now(monotonic))
        if fired and failpoints.armed:
            failpoints.hit("expire-selected")
        return fired

    @property
    def behind(self) -> bool:
        """Whether more groups are due than the last slice fired."""
        return self.groups.behind(self.clock.last)

    @property
    def has_changes(self) -> bool:
        if self.waiting.items:
            return self.items_ready
        slow = self.setting.slow
        waits = slow is not None and slow.work(self.sealed, self.clock.last)
        return bool(waits or self.intake.pending or self.groups.changed)

    @property
    def items_ready(self) -> bool:
        """Whether a commit left items that can be handled now."""
        return self.waiting.ready(self.clock.monotonic)

    @property
    def waits_for(self) -> str:
        """The error for which items wait, or the reason of a pending halt; empty otherwise."""
        topic, number = self.place
        if self.stopping is not None:
            return f"halting {topic}/{number} when its rows are sent: {self.stopping.code}"
        waits = self.waiting.waits(self.clock.monotonic)
        return f"waiting to handle {topic}/{number} again: {self.waiting.why}" if waits else ""

    @property
    def halts(self) -> Halt | None:
        """The reason if the partition halts now. A refused row stays unsent. In all other cases all rows are sent
        first, because operators look for dead letters in their topic."""
        if self.shard.stopped:
            return ProduceStopped(self.shard.refusal)
        return None if self.shard.unsent or self.shard.more else self.stopping

    def next_due(self) -> float:
        """The nearest deadline of a group or of a handler's next attempt, on the owner's clock."""
        now = self.clock.last
        return min(self.groups.next_due(), self.sealed.next_ready(now), now + self.waiting.due() - self.clock.monotonic)

    @property
    def full(self) -> bool:
        """Whether intake must pause."""
        waits = bool(self.waiting.items) and self.intake.pending >= MOST_HELD
        return waits or self.stopping is not None or self.shard.full or self.sealed.full or self.setting.processor.full

    def step(self) -> int:
        """The number of records that one commit may take; 0: no bound."""
        processor = self.setting.processor
        apart = 0 if processor.parts else processor.step(self.place, self.intake.offset)
        return min(filter(None, (apart, self.marks.step(self.intake.offset))), default=0)

    def commit(self, monotonic: float) -> Sequence[Event] | None:
        """Make all changes since the last commit durable, then release the rows to the relay. Returns the events. None:
        a handler failed and nothing was committed; its items wait in `waiting`.

        Raises Fenced, PersistenceError or HandlerFailed: this owner has ended.
        """
        store, processor = self.setting.store, self.setting.processor
        waiting = self.intake.inbox or self.groups.newest.events or self.waiting.items
        self.now(monotonic)
        if processor.session and waiting and not self.waiting.waits(self.clock.monotonic):
            return self._commit_session(processor, monotonic)
        ready = self.prepare(monotonic)
        return None if ready is None else self.committed(store.commit(self.claim, ready.changes), ready, monotonic)

    def _commit_session(self, processor: RecordProcessor, monotonic: float) -> Sequence[Event] | None:
        items = self._items()
        free, blocked = self._parted(items)
        changes: list[Changes] = []

        def final(events: Sequence[Event]) -> Changes:
            if not changes:  # the store may call this more than once
                changes.append(self._changes([], monotonic))
            return self._settled(changes[0], [*events, *blocked])

        try:
            done = in_session(self.setting.store, self.claim, processor, free, final, self.rows)
        except HandlerFailed as error:
            if changes and (changes[0].entries or not processor.parts):  # these changes cannot be produced again
                raise
            self._hold(items, error)
            return None
        return self.committed(*done, monotonic)

    def _hold(self, items: Sequence[Item], error: HandlerFailed) -> None:
        """Let the items wait, and handle them again under this claim. Raises `error` if this requires a new claim:
        during the take-over, while a crash mark is set, or if a commit writes sender numbers and ids that were read
        after the failed item."""
        processor = self.setting.processor
        careful = not self.marks.begun or self.marks.set or self.marks.step(self.claim.offset)
        if careful or not (processor.parts or processor.batches):
            raise error
        at = processor.failing(self.place, offset_of(items[0])) if processor.parts else None
        self.waiting.put_back(items, self.clock.monotonic + error.delay, at, str(error))

    def prepare(self, monotonic: float) -> PreparedCommit | None:
        """Collect all changes since the last commit. Either `committed` follows, or this owner ends. None: a handler
        failed, and nothing can be committed now."""
        self.now(monotonic)
        if self.waiting.waits(self.clock.monotonic):
            return self.reports()
        items = self._items()
        free, blocked = self._parted(items)
        events: Sequence[Event]
        if (slow := self.setting.slow) is not None:
            events = slow.decide(self.sealed, items, self.rows.fire_id, self.now(monotonic))
        else:
            try:
                events = self.setting.processor.run(free, self.rows.fire_id, None, self.place)
            except HandlerFailed as error:
                self._hold(items, error)
                return None
        # a group of an earlier rule ends before the next group of its key
        apart, earlier = self.groups.older.results(self.rows) if self.groups.older else ((), ())
        rows = self.rows.make(events)
        decisions = events if events is items else decided(items, events)
        if apart:
            rows, events, decisions = [*earlier, *rows], [*apart, *events], [*apart, *decisions]
        changes = self._settled(self._changes(rows, monotonic), [*events, *blocked] if blocked else events)
        if failpoints.armed and (self.intake.pending or events):
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
        items = [*self.waiting.take(), *self.intake.drain()]
        processor = self.setting.processor
        step = processor.step(self.place, offset_of(items[0])) if items and processor.parts else 0
        return self.waiting.part(items, step) if step else items

    def reports(self) -> PreparedCommit:
        """The delivery reports alone, without the records accepted since the last commit (docs/protocol.md, Record)."""
        delivered, dead = self.shard.take_reports()
        self._uncommitted, claim = self.intake.pending, self.claim
        changes = Changes(
            claim.offset, claim.epoch, dispatched=delivered, dead=dead, trying=claim.trying, source=self.source
        )
        return PreparedCommit(changes, [], [])

    def _changes(self, rows: Sequence[OutboxRow], monotonic: float) -> Changes:
        now, intake, older = self.now(monotonic), self.intake, self.groups.older
        rows_of_groups = self.groups.moved(now)
        entries, keep_from = self.changelog.entries(intake.senders.changes(), lambda: intake.senders.whole(now), now)
        delivered, dead = self.shard.take_reports()
        offset, epoch = self.waiting.reached(intake.offset, intake.epoch)
        self._uncommitted = len(self.waiting.items)
        if self.setting.schemas is not None:
            self.source = self.setting.schemas.noted(self.claim, self.source)
        if intake.proof.begins(now):
            self._begin_proof()
        if older:
            self.source = older.noted(self.source or self.claim.source, offset) or self.source
            self.changelog.older = older.by_number()
        return Changes(
            offset=offset,
            epoch=epoch,
            entries=entries,
            keep_from=keep_from,
            outbox=rows,
            dispatched=delivered,
            dead=dead,
            trying=self._mark(offset),
            source=self.source,
            put_cold=rows_of_groups.put,
            drop_cold=rows_of_groups.drop,
            drop_due=rows_of_groups.due,
        )

    def _begin_proof(self) -> None:
        """Require a MAC for records from here on. Records that the partition already holds need none."""
        source, high = self.source or self.claim.source, self.setting.input.high(*self.place)
        if source is not None and high >= 0:
            self.intake.proof.since = max(self.intake.offset, high)
            self.source = replace(source, proof_from=self.intake.proof.since)

    def _parted(self, items: list[Item]) -> tuple[list[Item], list[KeptItem]]:
        """Separate the items for the handler from the items that must wait in the store behind an item of their key."""
        if not self.sealed.by_number or self.setting.slow is not None:
            return items, []
        blocks = self.sealed.blocks
        return [item for item in items if not blocks(item)], [KeptItem(item) for item in items if blocks(item)]

    def _settled(self, changes: Changes, events: Sequence[Event]) -> Changes:
        """Add the outcomes of the handlers to the changes. The id of a message that its handler refused for good is
        withdrawn."""
        ids = self.intake.dedupe.given_up(events) if self.intake.dedupe else []
        return self.amended(changes, events, kept(events) if self.setting.processor.parks else Section(), ids)

    def amended(self, changes: Changes, events: Sequence[Event], section: Section, ids: list[bytes]) -> Changes:
        """Add scheduled timeouts, changes of stored items, and withdrawn ids to the changes."""
        changes, now = with_timers(changes, events, self.clock.last), self.clock.last
        self._late = ids, section, self.changelog.late(ids, section, now)
        return replace(changes, entries=[*changes.entries, *self._late[2]]) if self._late[2] else changes

    def committed(self, claim: Claim, ready: PreparedCommit, monotonic: float) -> Sequence[Event]:
        """Process a successful commit: `claim` is the claim after it. Returns the events."""
        earlier = failpoints.armed and self._has_earlier_groups
        self.claim, (changes, events, items) = claim, ready
        (ids, section, blobs), self._late = self._late, NOTHING_LATE
        if blobs:
            self.changelog.settled(blobs, ids)
        if not section.empty:
            self.sealed.took(section)
        self.setting.processor.committed(items, self.rows.fire_id, self.place)
        self.setting.processor.counted(self.groups.newest)
        if failpoints.armed and (self.intake.pending or events):  # not for a commit of delivery reports alone
            failpoints.hit("commit-sent")
            failpoints.hit("after-commit")
            if any(isinstance(event, Fire | Unhandled) and event.reason in ("timeout", WINDOW) for event in events):
                failpoints.hit("expire-committed")
        if earlier:
            failpoints.hit("earlier-committed")
        if changes.trying is None:
            self.marks.clear()
        self.source, self.intake.pending = None, self._uncommitted
        self.shard.recorded([*changes.dispatched, *(row.number for row in changes.dead)])
        self.shard.add(changes.outbox, monotonic)
        if self.setting.slow is not None:
            self.setting.slow.start(self.sealed, self.rows.fire_id)
        return events

    def _mark(self, offset: int) -> CrashMark | None:
        """The crash mark for the commit. A commit that does not move the offset keeps the mark, because it proves
        nothing about crashes."""
        return self.claim.trying if offset == self.claim.offset else None

    def tick(self, monotonic: float, took: float) -> float:
        """Read the store's time from the last commit, as StoreClock.answered."""
        jump = self.clock.answered(self.claim.store_time, monotonic, took)
        if self.clock.set_back:
            self.set_back()
            self.groups.cold.set_back(self.clock.last)
        return jump

    def set_back(self) -> None:
        """Move all times back to the owner's time, because the clock was ahead."""
        now = self.clock.last
        self.groups.set_back(now)
        self.sealed.set_back(now)
        if self.intake.dedupe is not None:
            self.intake.dedupe.seen.set_back(now)
