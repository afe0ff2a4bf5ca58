"""The takeover of a partition: claim, check, restore, and end the groups and items that end before the first record."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf

from msgspec.structs import replace

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.contracts.values import Changes, Source
from sluicegate.streams.errors import ChangelogIncomplete, Fenced, Halt, HandlerFailed, StoreSwapped
from sluicegate.streams.handlers import retried
from sluicegate.streams.handlers.handling import decided
from sluicegate.streams.handlers.processor import Aggregating, Item
from sluicegate.streams.handlers.session import PreparedCommit, in_session
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.outbox.relay import Shard
from sluicegate.streams.outbox.split import SplitShard
from sluicegate.streams.ownership import released
from sluicegate.streams.ownership.beginning import check_scope, idle_since, noted, start
from sluicegate.streams.ownership.checks import ClaimVersion, check_claim, check_partitions
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.paged import ColdReads
from sluicegate.streams.ownership.store_clock import StoreClock
from sluicegate.streams.ownership.switching import Switch, judged, refuse_left

SLICE = 1_000  # the number of entries in one slice of a restore
EARLY = 6  # commits of a claim after which its process did not die of its first fetch; idle owners commit every 5 s


class Takeover:
    """`owner` takes its partition over since the time `since`. `grown`: the topic has more partitions than at the last
    commit, so keys moved."""

    __slots__ = ("_earlier", "_known", "_switch", "grown", "owner", "restored_bytes", "since", "steps")

    def __init__(self, owner: Owner, token: str, now: float, known: ClaimVersion) -> None:
        """`known` is the newest state of the row that this process has seen. `token` is the token of the new claim.
        `now` is the process' own time."""
        self.owner, self.since, self._known, self._earlier = owner, now, known, owner.token
        self.steps = self._run(token, now)
        self._switch = Switch()
        self.restored_bytes = 0
        self.grown = False

    def _run(self, token: str, monotonic: float) -> Iterator[Sequence[Event] | None]:
        """Run one slice at each step, so polling continues between them. Yields the events of each slice that it
        committed. Raises Halt, PersistenceError, SystemNotReady, ConfigurationError and HandlerFailed."""
        owner = self.owner
        setting, partition = owner.setting, owner.partition
        owner.facts = setting.input.facts(partition.topic, partition.number)
        claim = owner.claim = setting.store.claim(partition, token, setting.member)
        owner.token = claim.token
        owner.clock = StoreClock(claim.store_time, monotonic)
        failpoints.hit("after-claim")
        yield None
        self._check()
        if claim.incarnation != setting.store.incarnation:
            raise StoreSwapped(
                "the partition was made under another incarnation of the store than the one that answers now"
            )
        before = claim.source
        if setting.schemas is not None:
            setting.schemas.begin(before)
        self._switch = judged(before, setting, partition)
        yield from self._restore()
        yield from self._heat()
        self._begin()
        if claim.offset < 0 or self._idle_begins(before) or self._switches(before):
            # Before anything else, the store must know where the partition begins, since when groups are idle, and
            # which version of the rule takes the next record.
            self._commit_source(before)
        yield from self._end_groups(monotonic)
        yield from self._release(monotonic)
        failpoints.hit("after-restore")

    def _check(self) -> None:
        """Check the claim. The facts were read before the claim, because a worker without Kafka must not take a
        partition. Another worker may have continued since then, so the facts are read again before a halt."""
        owner = self.owner
        try:
            check_claim(owner.claim, owner.facts, self._known)
        except Halt:
            owner.facts = owner.setting.input.facts(*owner.place)
            try:
                check_claim(owner.claim, owner.facts, self._known)
            except Halt:
                self._still_ours()
                raise

    def _still_ours(self) -> None:
        """Raises Fenced if a later claim of another worker explains a gap."""
        view = self.owner.setting.store.read(self.owner.partition)
        if view is None or view.claim.token != self.owner.claim.token:
            raise Fenced("another process claimed the partition during the takeover") from None

    def _restore(self) -> Iterator[None]:
        """Apply the changelog (docs/protocol.md, Restore)."""
        owner = self.owner
        setting, claim, groups, intake = owner.setting, owner.claim, owner.groups, owner.intake
        groups.older = Generations(setting, self._switch.every, type(setting.processor) is Aggregating)
        changelog = owner.changelog = Changelog(
            groups.newest,
            claim.first,
            groups.ids(intake.dedupe),
            owner.sealed,
            self._switch.generation,
            groups.older.by_number(),
        )
        groups.cold = ColdReads(setting.store, owner.partition, groups.newest, changelog.paging, self._still_ours)
        entries: list[bytes] = []
        for entry in setting.store.restore(claim):
            entries.append(entry)
            self.restored_bytes += len(entry)
            if len(entries) % SLICE == 1:
                failpoints.hit("in-restore")
                yield
        try:
            changelog.replay(entries, claim.first, claim.last, intake.senders)
        except ChangelogIncomplete:
            self._still_ours()
            raise

    def _heat(self) -> Iterator[None]:
        """Make all cold groups hot, if the rule of this worker keeps no cold groups, and before the partition changes
        to another generation."""
        owner, changelog = self.owner, self.owner.changelog
        paging, source = changelog.paging, owner.claim.source
        if owner.groups.newest.rule.agent.pageable and not self._switch.every:
            paging.restored()
            return
        if not paging.has_rows or source is None:
            return
        senders = owner.intake.senders
        for _ in owner.groups.cold.warm_all(changelog.every()[source.generation]):
            now, claim = owner.clock.last, owner.claim
            gone = paging.moved(now).drop
            entries, keep_from = changelog.entries({}, lambda: senders.whole(owner.clock.last), now)
            changes = Changes(claim.offset, claim.epoch, entries, keep_from, trying=claim.trying, drop_cold=gone)
            owner.claim = owner.setting.store.commit(claim, changes)
            yield

    def _begin(self) -> None:
        """Run all steps between the restore and the first record."""
        owner, groups, intake = self.owner, self.owner.groups, self.owner.intake
        claim, setting, facts, now = owner.claim, owner.setting, owner.facts, owner.clock.last
        known = claim.source
        intake.offset, intake.epoch = self._leave(), claim.epoch
        if claim.offset < 0:
            intake.offset = start(owner.partition, facts, setting)
        elif intake.offset < claim.offset:
            intake.epoch = -1
        self.grown = check_partitions(known, facts, setting.rule.aggregation, groups.open)
        idle = idle_since(known, setting.rule, len(groups.newest.states) + groups.newest.cold.count, now)
        owner.source = noted(claim, facts, setting, idle, self._switch, intake.offset)
        intake.proof.since = owner.source.proof_from
        if idle:
            groups.newest.idle = idle
            groups.newest.rearm()
        owner.set_back()
        owner.rows.begin(claim.token, claim.number, owner.source.name)
        owner.marks.restore(claim.trying, intake.offset)
        owner.marks.suspected = self._died_fetching()
        groups.expect_origins(setting.input)
        for clock in groups.awaits:
            clock.begin(facts.high, now)
        owner.sealed.settle(setting.agent.handler is not None)
        if setting.slow is not None:
            setting.slow.resumed(owner.sealed)
        partition, store, stops = owner.partition, setting.store, setting.agent.on_error.produce == "stop"
        pending, dead = partial(store.pending, partition), partial(store.dead, partition)
        of_claim = pending, claim.number, claim.token, stops, partition, dead
        clusters = setting.clusters
        owner.shard = SplitShard(clusters, *of_claim) if clusters else Shard(*of_claim)

    def _died_fetching(self) -> bool:
        """Whether there are records to fetch and the previous owner died soon after its claim, without a commit that
        moved the offset. A batch that exceeds the memory when decompressed ends a process like this. Other causes do,
        too. So this is only a suspicion, and it costs a probe (streams/ownership/probing.py)."""
        claim, offset = self.owner.claim, self.owner.intake.offset
        source = claim.source
        died = claim.previous not in ("", self._earlier)
        if died and source is not None and source.lineage == claim.previous:
            died = source.claimed == offset and claim.version - source.since < EARLY
        return self.owner.facts.high > offset and (died or self.owner.marks.unfetchable)

    def _leave(self) -> int:
        """Leave earlier generations behind, if the restored groups require it. Returns the next offset to read."""
        owner, groups, changelog = self.owner, self.owner.groups, self.owner.changelog
        previous, before = self._switch.outgoing, owner.claim.source
        groups.inherit(changelog.older.values())
        if previous is not None and before is not None:
            ending = changelog.older[previous.number]
            check_scope(ending.rule, owner.partition, owner.setting, previous.policy)
            refuse_left(previous, len(ending.states), owner.partition)
        for older in groups.older:
            older.groups.emitter.faults = owner.marks.group_faults
        offset = groups.older.begin(owner.claim, before.name if before is not None else "", groups.newest)
        groups.older.finish_beside(groups.newest)
        by_number, generation = groups.older.by_number(), self._switch.generation
        if previous is not None and previous.number not in by_number:
            generation = previous.number
        self._switch = Switch(tuple(older.known for older in groups.older), None, generation)
        changelog.older, changelog.generation = by_number, generation
        return offset

    def _commit_source(self, before: Source | None) -> None:
        """Make the first commit of a claim. It changes only the source."""
        owner, watched = self.owner, failpoints.armed and self._switches(before)
        if watched:
            failpoints.hit("switch-decided")
        offset, epoch = owner.intake.offset, owner.intake.epoch
        changes = Changes(offset, epoch, trying=owner.claim.trying, source=owner.source)
        owner.claim = owner.setting.store.commit(owner.claim, changes)
        if watched:
            failpoints.hit("switch-sent")

    def _switches(self, before: Source | None) -> bool:
        """Whether this claim changes the version of the row, or its generations."""
        now = self.owner.source
        if before is None or now is None:
            return False
        return (before.version, before.rule, before.older) != (now.version, now.rule, now.older)

    def _idle_begins(self, before: Source | None) -> bool:
        """Whether timeouts of open groups are measured from this claim. Then no later claim may change that time."""
        source = self.owner.source
        return bool(source and source.idle and (before is None or before.idle is None))

    def _end_groups(self, monotonic: float) -> Iterator[Sequence[Event]]:
        """End the groups that must end before the first record. The row names the older generations until the commit
        that ends their last group, so a claim after a crash continues with the others."""
        owner = self.owner
        for _ in owner.groups.end(owner.clock.last):
            events = owner.commit(monotonic)
            owner.tick(monotonic, inf)  # `monotonic` is from before the commit
            yield events or ()

    def _release(self, monotonic: float) -> Iterator[Sequence[Event]]:
        """Handle the stored items that no longer wait, each in a commit of its own. The mark that a call begins is
        durable before the call, so an item that ends its process is given up."""
        setting, sealed = self.owner.setting, self.owner.sealed
        next_one = sealed.free if setting.slow is None else sealed.undecided
        while (item := next_one()) is not None:
            number, ends = item.number, item.attempts
            if ends >= sealed.bounds.most:
                events = [released.ended(item.item, setting.agent.handler)]
                yield self._commit_ended(item.item, events, monotonic)
                continue
            self._note(Section({}, {number: ends + 1}), monotonic)
            try:
                yield self._commit_released(item.item, monotonic)
            except HandlerFailed:
                self._note(Section({}, {number: ends}), monotonic)
                raise

    def _note(self, section: Section, monotonic: float) -> None:
        """Commit these changes of the stored items."""
        owner, ready = self.owner, self.owner.reports()
        ready = ready._replace(changes=owner.amended(ready.changes, (), section, []))
        owner.committed(owner.setting.store.commit(owner.claim, ready.changes), ready, monotonic)

    def _commit_released(self, item: Message | Fire, monotonic: float) -> Sequence[Event]:
        """Handle the item and commit its outcome. Raises HandlerFailed."""
        owner, setting, rows = self.owner, self.owner.setting, self.owner.rows
        processor = setting.processor
        items: list[Item] = [item]
        if isinstance(item, Fire):
            handled = setting.agent.handler is not None
            items = [*retried.decided(item, setting.rule, handled, owner.groups.newest.outcomes)]
        if setting.slow is not None and (section := released.sealed_again(items)):
            self._note(section, monotonic)
            return ()
        if not processor.session or not any(isinstance(item, Message | Fire) for item in items):
            return self._commit_ended(item, processor.run(items, rows.fire_id, None, owner.place), monotonic)
        base = owner.reports().changes
        prepare = lambda events: owner.amended(base, events, released.after(item, events), [])  # noqa: E731
        claim, ready = in_session(setting.store, owner.claim, processor, items, prepare, rows)
        return owner.committed(claim, ready._replace(events=released.counted(ready.events)), monotonic)

    def _commit_ended(self, item: Message | Fire, events: Sequence[Event], monotonic: float) -> Sequence[Event]:
        """Commit the outcome of a stored item."""
        owner = self.owner
        rows = owner.rows.make(events)
        changes = owner.amended(owner.reports().changes, events, released.after(item, events), [])
        ready = PreparedCommit(replace(changes, outbox=rows), decided([], events), [item])
        failpoints.hit("before-commit")
        return owner.committed(owner.setting.store.commit(owner.claim, ready.changes), ready, monotonic)
