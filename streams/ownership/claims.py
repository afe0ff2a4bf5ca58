"""The partitions that this worker owns, takes over, waits for, or has halted (docs/protocol.md, Assignment).

The group's assignment says which worker should claim a partition. The claim in the store decides. A partition that was
lost to a fence or to a failing store is claimed again with a doubling back-off while it is assigned. Otherwise the late
claim of a worker that is gone would leave it without an owner.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from math import inf
from typing import NamedTuple

import structlog

from sluicegate.streams.aggregation.events import Event
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import (
    DecodeWaits,
    EngineFault,
    Fenced,
    Halt,
    HandlerFailed,
    HandlerStopped,
    LogTruncated,
    NotAuthenticated,
    PersistenceError,
    SystemNotReady,
    TopicRecreated,
)
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.handlers.slow import given_back
from sluicegate.streams.observe.counting import count_events
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import FAILED, PartitionReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.ownership.checks import NOTHING, ClaimVersion, check_low, seen
from sluicegate.streams.ownership.crash_mark_clearing import CrashMarkClearing
from sluicegate.streams.ownership.halted import Halted
from sluicegate.streams.ownership.intake import IntakePauses
from sluicegate.streams.ownership.last_failures import LastFailures
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.probing import Probing
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.status import trace_fires

SLICE_SECONDS = 0.2  # of taking over at one turn
# what ends an owner, and only that
LOST = (Halt, Fenced, HandlerFailed, DecodeWaits, PersistenceError, SystemNotReady, EngineFault)
NOT_JOINED = (
    "the group has assigned nothing yet: its brokers do not answer, or a dead member holds on until session.timeout.ms"
)
GROWN = "keys moved to other partitions: groups that were open here end by their timeout"
GAPS: dict[str, type[Halt]] = {"truncated": LogTruncated, "unknown-topic": TopicRecreated}
# the next claim asks the log itself, and begins at the offset of the store
DOUBTFUL = ("out-of-range", "unread", "unfetchable")


class TakeOver(NamedTuple):
    """A take-over in progress: the steps of `Owner.take` that remain, and when it began."""

    owner: Owner
    steps: Iterator[Sequence[Event] | None]
    since: float


class Claims:
    """`owners` are the partitions that are claimed, restored and reading."""

    def __init__(
        self,
        setting: AgentRuntime,
        app: str,
        meter: Meter,
        token: Callable[[], str],
        random: Callable[[], float],
        clock: Callable[[], float],
        spans: Spans | None = None,
    ) -> None:
        self._setting, self._app, self._meter = setting, app, meter
        self._token, self._random, self._clock, self._spans = token, random, clock, spans
        self._log = structlog.get_logger().bind(agent=setting.agent.name)
        self.owners: dict[TopicPartition, Owner] = {}
        self._assigned: set[TopicPartition] = set()
        self._taking: dict[TopicPartition, TakeOver] = {}
        self._last: dict[TopicPartition, Owner] = {}  # the newest owner of each assigned partition, also a lost one
        self._waiting: dict[TopicPartition, float] = {}
        self._backoffs: dict[TopicPartition, Backoff] = {}
        self._halted = Halted()
        self.intake = IntakePauses(setting, random, clock, self._log)
        self.probing = Probing(setting.input, self._log)
        self._again: dict[TopicPartition, int] = {}  # after a second seek: the first record that came before it
        self._void: set[TopicPartition] = set()  # sought since the last poll: drop the records that it returned
        self._clearing = CrashMarkClearing(setting.store)
        self._versions: dict[Partition, ClaimVersion] = {}
        self._unreadable: dict[TopicPartition, str] = {}  # the error code, until a commit has records again
        self._failures = LastFailures()
        self.fresh = False  # a claim succeeded since the worker cleared this: the store may be another one, or weaker

    @property
    def busy(self) -> bool:
        return any(place not in self.probing.waiting for place in self._taking)

    def next_try(self) -> float:
        return min(self._waiting.values(), default=inf)

    @property
    def retrying(self) -> bool:
        """Whether a lost partition has not committed records again yet."""
        return bool(self._backoffs)

    @property
    def assigned(self) -> Sequence[TopicPartition]:
        return sorted(self._assigned)

    def adopt(self, places: Sequence[TopicPartition], now: float) -> None:
        """Claim these partitions, which Kafka assigned to this process before."""
        self._assigned.update(places)
        self._waiting.update(dict.fromkeys(places, now))
        for place in places:
            self.intake.begins(place)

    def follow(self, now: float) -> None:
        """After each poll, before its records are used: note assigned and revoked partitions and read errors."""
        self._void.clear()
        revoked, assigned = self._setting.input.revoked(), self._setting.input.assigned()
        for place in revoked:
            self._revoke(place)
        self._assigned.update(assigned)
        self._waiting.update(dict.fromkeys(assigned, now))
        if revoked or assigned:
            self._meter.count("rebalances")
        for place, code, text in self._setting.input.failures():
            self._failed(place, code, text)

    def advance(self, now: float) -> None:
        """Continue the take-overs, for a bounded time. Call it only between the records of one poll and the next poll:
        then no record that was polled before a claim is processed under it."""
        for place in [place for place, at in self._waiting.items() if at <= now]:
            del self._waiting[place]
            self._begin(place, now)
        self._clearing.settle(now)
        for owner in self.probing.read_apart(self.owners):
            self._claim_again(owner)
        deadline = now + SLICE_SECONDS
        for place in list(self._taking):
            self._advance(place, deadline)
            if self._clock() >= deadline:
                return  # the other partitions continue after the next poll

    def _revoke(self, place: TopicPartition) -> None:
        self._assigned.discard(place)
        owner = self.owners.pop(place, None)
        taking = self._taking.pop(place, None)
        for known in (self._last, self._waiting, self._halted, self._backoffs, self._unreadable, self._again):
            known.pop(place, None)
        self._failures.forget(place)
        self.intake.forget(place)
        self.probing.forget(place)
        if owner is not None:
            owner.claim = given_back(self._setting.store, owner.claim, owner.sealed)
        self._setting.processor.forget(place)
        for gone in (owner, taking.owner if taking else None):
            if gone is not None:
                self._clear_crash_mark(gone)
                if gone.begun:
                    self._versions[gone.partition] = seen(gone.claim)
        self._log.info("partition.revoked", topic=place[0], partition=place[1])

    def _begin(self, place: TopicPartition, now: float) -> None:
        partition = Partition(self._app, self._setting.agent.name, *place)
        before = self._last.get(place)
        rows = self._setting.rows(partition, self._setting.agent)
        if before is None:
            owner = Owner(partition, self._setting, rows)
            owner.since = now
        else:
            owner = Owner(partition, self._setting, rows, before.faults, before.group_faults)
            owner.newest, owner.since, owner.fault = before.newest, before.since, before.fault
            owner.earlier = before.claim.token if hasattr(before, "claim") else before.earlier
        self._last[place] = owner
        steps = owner.take(self._token(), now, self._versions.get(partition, NOTHING))
        self._taking[place] = TakeOver(owner, steps, now)

    def _advance(self, place: TopicPartition, deadline: float) -> None:
        taking = self._taking[place]
        try:
            with engine_faults():
                for events in taking.steps:
                    if events is not None:
                        self._ended(taking.owner, events)
                    if self._clock() >= deadline:
                        return
                if self.probing.passed(taking.owner, self._clock()):
                    self._ready(place, taking)
        except LOST as error:
            self._taking.pop(place, None)
            self.owners.pop(place, None)
            self._give_up(place, taking.owner, error, owned=False)

    def _ended(self, owner: Owner, events: Sequence[Event]) -> None:
        """A commit of the take-over ended these groups."""
        self._versions[owner.partition] = seen(owner.claim)
        count_events(events, 0.0, self._meter)
        trace_fires(owner, events, 0.0, self._spans)

    def _ready(self, place: TopicPartition, taking: TakeOver) -> None:
        owner = taking.owner
        self._again.pop(place, None)  # a gap before this claim may be a late answer to another fetch
        del self._taking[place]
        self._setting.input.start(*place, owner.offset, owner.epoch)
        self.owners[place] = owner
        now = self._clock()
        work = owner.facts.high > owner.offset or owner.next_due() <= owner.now(now)
        self._failures.claimed(place, work, now)
        self.fresh = True
        self._meter.count("claims")
        self._meter.count("restore_bytes", owner.restored_bytes)
        self._meter.observe("restore_seconds", self._clock() - taking.since)
        self._log.info(
            "partition.claimed",
            topic=place[0],
            partition=place[1],
            offset=owner.offset,
            groups=owner.open_groups,
            entries=owner.claim.last - owner.claim.first + 1,
        )
        if owner.grown:
            facts = {"topic": place[0], "partition": place[1], "partitions": owner.facts.partitions}
            self._log.warning("topic.partitions_added", **facts, text=GROWN)
        self._judge_again(place[0], owner.facts.partitions)

    def _judge_again(self, topic: str, partitions: int) -> None:
        """A topic grew: claim its other partitions again, since only a claim checks their open groups for that."""
        for place, owner in list(self.owners.items()):
            if place[0] == topic and owner.facts.partitions < partitions:
                self._claim_again(owner)

    def _claim_again(self, owner: Owner) -> None:
        """Have this process claim a partition anew that it owns."""
        place = owner.place
        self.intake.begins(place)
        self._setting.input.pause([place])
        self._versions[owner.partition] = seen(owner.claim)
        self._clear_crash_mark(owner)
        del self.owners[place]
        self._waiting[place] = self._clock()

    def lost(self, owner: Owner, error: Exception) -> None:
        """Drop an owner after `error`, which is one of LOST."""
        if owner.begun:
            self._versions[owner.partition] = seen(owner.claim)
        if self.owners.get(owner.place) is owner:
            del self.owners[owner.place]
        self._give_up(owner.place, owner, error, owned=True)

    def _give_up(self, place: TopicPartition, owner: Owner, error: Exception, owned: bool) -> None:
        self._setting.input.pause([place])
        self.intake.begins(place)
        if isinstance(error, EngineFault):
            owner.failed(error)
        self._clear_crash_mark(owner)
        if isinstance(error, NotAuthenticated):
            raise error
        if isinstance(error, HandlerStopped):
            owner.claim = given_back(self._setting.store, owner.claim, owner.sealed, halted=True)
        if isinstance(error, Halt):
            self._halted[place] = error, owner.claim.store_time
            self._log.error("partition.halted", topic=place[0], partition=place[1], code=error.code, error=str(error))
            return
        if isinstance(error, DecodeWaits):
            self.intake.waits(place, error)
            self._waiting[place] = self._clock()
            return
        shown = f"the engine failed, please report it: {error}" if isinstance(error, EngineFault) else str(error)
        self._failures.note(place, shown, owned)
        if isinstance(error, HandlerFailed):  # its handling logged it
            self._waiting[place] = self._clock() + error.delay
            return
        backoff = self._backoffs.setdefault(place, Backoff(0.1, 2.0, self._random))
        self._waiting[place] = self._clock() + (delay := backoff.delay())
        facts = {"topic": place[0], "partition": place[1], "error": str(error), "retry_in": round(delay, 3)}
        if isinstance(error, Fenced):
            self._log.warning("partition.fenced", **facts)
            return
        if isinstance(error, EngineFault):
            self._log.error("partition.fault", offset=owner.offset, **facts)
            return
        # one warning for each failure: the claim is tried again every second or two
        say = self._log.warning if self._failures.unlogged(place, str(error)) else self._log.debug
        say("partition.unavailable", **facts)

    def look(self, now: float) -> None:
        """Claim the partitions again whose gap a person accepted."""
        for place in self._halted.accepted(self._setting.store, self._app, self._setting.agent.name):
            self._halted.pop(place, None)
            self._waiting[place] = now

    def _failed(self, place: TopicPartition, code: str, text: str) -> None:
        """The consumer reports an error for a partition, or with number -1 for all partitions of the topic."""
        if place[1] < 0:
            for each in [each for each in self._assigned if each[0] == place[0]]:
                self._failed(each, code, text)
            return
        owner = self.owners.get(place)
        if code not in GAPS and code not in DOUBTFUL:
            if self._unreadable.get(place) != code:
                self._log.warning("partition.unreadable", topic=place[0], partition=place[1], code=code, error=text)
            self._unreadable[place] = code
        elif owner is not None:
            if code == "unfetchable":
                self.probing.suspect(place)
            self.lost(owner, GAPS.get(code, SystemNotReady)(f"reading at offset {owner.offset}: {text}"))
        elif place in self._taking or place in self._assigned:
            self._log.info("partition.not_readable_yet", topic=place[0], partition=place[1], code=code)

    def seek_again_if_gap(self, owner: Owner, record: Record) -> bool:
        """Seek again when the first record after a claim is above the offset. Returns whether to drop the records.

        A fetch that was under way may be answered after a seek. When the same record comes again, the gap is real.
        Raises RetentionPassed when the topic begins above the offset."""
        place = owner.place
        if owner.begun or record.offset() <= owner.offset:
            return False
        if place in self._void:
            return True
        if self._again.get(place) == record.offset():
            check_low(self._setting.input.facts(*place), owner.offset, record.offset())
            return False
        self._again[place] = record.offset()
        self._void.add(place)
        self._setting.input.start(*place, owner.offset, owner.epoch)
        return True

    def committed(self, owner: Owner) -> None:
        """A commit succeeded: what failed before is over."""
        if owner.place not in self._waiting:
            self._failures.forget(owner.place)

    def well(self, owner: Owner) -> None:
        """A commit with records succeeded: the next back-off begins with its first delay."""
        self.intake.well(owner.place, owner.claim.offset)
        for known in (self._backoffs, self._again, self._unreadable):
            known.pop(owner.place, None)

    def claim_once_more(self, partitions: Collection[Partition], now: float) -> None:
        """Claim now each of these partitions that waits for a claim or is halted."""
        for place in [(partition.topic, partition.number) for partition in partitions]:
            if place in self._waiting or place in self._halted:
                self._waiting.pop(place, None)
                self._halted.pop(place, None)
                self._begin(place, now)

    def give_back(self) -> None:
        """At a clean end: leave the items of slow calls that still run to the next owner."""
        for owner in self.owners.values():
            owner.claim = given_back(self._setting.store, owner.claim, owner.sealed)

    def let_go(self) -> None:
        """This process ends alive: clear its crash marks, and leave its partitions without an owner."""
        for owner in self._last.values():
            self._clear_crash_mark(owner)
            if hasattr(owner, "claim") and not owner.marks.names():
                self._clearing.add(owner.claim, (), self._clock())

    def _clear_crash_mark(self, owner: Owner) -> None:
        """This process is alive: clear its names from the crash mark, repeated until the store acknowledges."""
        owner.sealed.cancelled.set()  # the results of its slow calls are dropped
        if owner.marks.names():
            self._clearing.add(owner.claim, owner.marks.names(), self._clock())

    def reasons(self) -> list[str]:
        """Why this worker is not ready; empty when it is."""
        texts = [*([] if self._setting.input.joined() else [NOT_JOINED]), *self._halted.reasons()]
        texts += [f"cannot read {topic}/{number}: {code}" for (topic, number), code in self._unreadable.items()]
        texts += self.intake.reasons()
        for topic, number in self._taking:
            text = self.probing.text((topic, number)) or self.failure((topic, number))
            texts.append(f"taking over {topic}/{number}{f': {text}' if text else ''}")
        for topic, number in self._waiting:
            texts.append(f"waiting to claim {topic}/{number}: {self.failure((topic, number)) or 'just assigned'}")
        failed = {place: text for place in self.owners if (text := self.failure(place)) is not None}
        return texts + [f"retrying {topic}/{number}: {text}" for (topic, number), text in failed.items()]

    def failure(self, place: TopicPartition) -> str | None:
        """The newest failure of the partition, unless it is over."""
        return self._failures.text(place, self._clock())

    def others(self) -> list[PartitionReport]:
        """Assigned partitions that are not running."""
        states = {**dict.fromkeys(self._taking, "restoring"), **dict.fromkeys(self._waiting, "claiming")}
        reports = [self._failing(place, state) for place, state in states.items()]
        return [*self._halted.reports(), *reports]

    def _failing(self, place: TopicPartition, state: str) -> PartitionReport:
        text = self.failure(place)
        return PartitionReport(*place, state, error=None if text is None else FAILED, detail=text)
