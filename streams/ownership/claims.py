"""The partitions that this worker owns, takes over, waits for, or has halted (docs/protocol.md, Assignment).

Kafka assigns a partition to a worker, and the worker claims it in the store. The newest claim is the owner. A claim
that a dead worker sent may arrive late and fence the living owner. So a worker that loses a partition to a fence or to
a failing store claims it again, with a doubling back-off, as long as the partition is assigned to it.
"""

from collections.abc import Callable, Collection, Sequence

import structlog

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
from sluicegate.streams.ownership.checks import NOTHING, ClaimVersion, seen
from sluicegate.streams.ownership.claiming.fetches import Fetches
from sluicegate.streams.ownership.claiming.retries import ClaimRetries
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.ownership.crash_mark_clearing import CrashMarkClearing
from sluicegate.streams.ownership.halted import Halted
from sluicegate.streams.ownership.intake_pauses import IntakePauses
from sluicegate.streams.ownership.last_failures import LastFailures
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.probing import Probing
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.status import trace_fires

SLICE_SECONDS = 0.2  # the maximum time for take-overs in one turn
# what ends an owner, and only that
LOST = (Halt, Fenced, HandlerFailed, DecodeWaits, PersistenceError, SystemNotReady, EngineFault)
NOT_JOINED = (
    "the group has assigned nothing yet: its brokers do not answer, or a dead member holds on until session.timeout.ms"
)
GROWN = "keys moved to other partitions: groups that were open here end by their timeout"
GAPS: dict[str, type[Halt]] = {"truncated": LogTruncated, "unknown-topic": TopicRecreated}
# the next claim asks the log itself, and begins at the offset of the store
DOUBTFUL = ("out-of-range", "unread", "unfetchable")


class Claims:
    """`owners` are the partitions that are claimed, restored and being read."""

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
        self._token, self._clock, self._spans = token, clock, spans
        self._log = structlog.get_logger().bind(agent=setting.agent.name)
        self.owners: dict[TopicPartition, Owner] = {}
        self._assigned: set[TopicPartition] = set()
        self._taking: dict[TopicPartition, Takeover] = {}
        self._last: dict[TopicPartition, Owner] = {}  # the newest owner of each assigned partition, active or lost
        self.retries = ClaimRetries(random)
        self._halted = Halted()
        self.intake = IntakePauses(setting, random, clock, self._log)
        self.probing = Probing(setting.input, self._log, setting.probes_first)
        self.fetches = Fetches(setting.input, self._log)
        self._clearing = CrashMarkClearing(setting.store)
        self._versions: dict[Partition, ClaimVersion] = {}
        self._failures = LastFailures()
        self.fresh = False  # a claim succeeded since the worker cleared this: the store may be another one, or weaker

    @property
    def busy(self) -> bool:
        return any(place not in self.probing.waiting for place in self._taking)

    @property
    def assigned(self) -> Sequence[TopicPartition]:
        return sorted(self._assigned)

    def adopt(self, places: Sequence[TopicPartition], now: float) -> None:
        """Claim these partitions. Kafka has already assigned them to this process."""
        self._assigned.update(places)
        self.retries.begin(places, now)
        for place in places:
            self.intake.begins(place)

    def follow(self, now: float) -> None:
        """Process assigned and revoked partitions and read errors. Call it after each poll, before its records are
        used."""
        self.fetches.void.clear()
        revoked, assigned = self._setting.input.revoked(), self._setting.input.assigned()
        for place in revoked:
            self._revoke(place)
        self._assigned.update(assigned)
        self.retries.begin(assigned, now)
        if revoked or assigned:
            self._meter.count("rebalances")
        for place, code, text in self._setting.input.failures():
            self._failed(place, code, text)
        if self._setting.matching is not None:
            if self._setting.matching.look():
                for owner in list(self.owners.values()):  # only a claim determines the origins
                    self._claim_again(owner)
            for partition, token in self._setting.matching.gone():
                self._clearing.add(partition, token, (), now)  # no worker will claim it

    def advance(self, now: float) -> None:
        """Continue the take-overs for a bounded time. Call it only between the records of one poll and the next poll:
        then no record that was polled before a claim is processed under it."""
        if self._setting.matching is not None and not self._setting.matching.ready():
            return
        for place in self.retries.due(now):
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
        if self._setting.matching is not None and (newest := self._last.get(place)) is not None:
            self._setting.matching.revoked(newest.partition, newest.token)
        for known in (self._last, self._halted):
            known.pop(place, None)
        self.retries.forget(place)
        self.fetches.forget(place)
        self._failures.forget(place)
        self.intake.forget(place)
        self.probing.forget(place)
        if owner is not None:
            owner.claim = given_back(self._setting.store, owner.claim, owner.sealed)
        self._setting.processor.forget(place)
        for gone in (owner, taking.owner if taking else None):
            if gone is not None:
                self._clear_crash_mark(gone)
                if gone.marks.begun:
                    self._versions[gone.partition] = seen(gone.claim)
        self._log.info("partition.revoked", topic=place[0], partition=place[1])

    def _begin(self, place: TopicPartition, now: float) -> None:
        partition = Partition(self._app, self._setting.agent.name, *place)
        before = self._last.get(place)
        rows = self._setting.rows(partition, self._setting.agent)
        owner = self._last[place] = Owner(partition, self._setting, rows, now, before)
        self._taking[place] = Takeover(owner, self._token(), now, self._versions.get(partition, NOTHING))

    def _advance(self, place: TopicPartition, deadline: float) -> None:
        taking = self._taking[place]
        try:
            with engine_faults():
                for events in taking.steps:
                    if events is not None:
                        self._versions[taking.owner.partition] = seen(taking.owner.claim)
                        count_events(events, 0.0, self._meter)
                        trace_fires(taking.owner, events, 0.0, self._spans)
                    if self._clock() >= deadline:
                        return
                if self.probing.passed(taking.owner, self._clock()):
                    self._ready(place, taking)
        except LOST as error:
            self._taking.pop(place, None)
            self.owners.pop(place, None)
            self._give_up(place, taking.owner, error, owned=False)

    def _ready(self, place: TopicPartition, taking: Takeover) -> None:
        owner = taking.owner
        self.fetches.again.pop(place, None)  # a gap before this claim may be a late answer to another fetch
        del self._taking[place]
        self._setting.input.start(*place, owner.intake.offset, owner.intake.epoch)
        self.owners[place] = owner
        now = self._clock()
        self._failures.claimed(place, self._work(owner, now), now)
        self.fresh = True
        self._meter.count("claims")
        self._meter.count("restore_bytes", taking.restored_bytes)
        self._meter.observe("restore_seconds", self._clock() - taking.since)
        self._log.info(
            "partition.claimed",
            topic=place[0],
            partition=place[1],
            offset=owner.intake.offset,
            groups=owner.groups.open,
            entries=owner.claim.last - owner.claim.first + 1,
        )
        if taking.grown:
            facts = {"topic": place[0], "partition": place[1], "partitions": owner.facts.partitions}
            self._log.warning("topic.partitions_added", **facts, text=GROWN)
        self._judge_again(place[0], owner.facts.partitions)

    def _judge_again(self, topic: str, partitions: int) -> None:
        """A topic has more partitions: claim its other partitions again, because only a claim checks their open groups
        for this."""
        for place, owner in list(self.owners.items()):
            if place[0] == topic and owner.facts.partitions < partitions:
                self._claim_again(owner)

    def _claim_again(self, owner: Owner) -> None:
        """End this owner, and let this process claim the partition again."""
        place = owner.place
        self.intake.begins(place)
        self._setting.input.pause([place])
        self._versions[owner.partition] = seen(owner.claim)
        self._clear_crash_mark(owner)
        del self.owners[place]
        self.retries.waiting[place] = self._clock()

    def lost(self, owner: Owner, error: Exception) -> None:
        """Drop an owner after `error`, which is one of LOST."""
        if owner.marks.begun:
            self._versions[owner.partition] = seen(owner.claim)
        if self.owners.get(owner.place) is owner:
            del self.owners[owner.place]
        self._give_up(owner.place, owner, error, owned=True)

    def _give_up(self, place: TopicPartition, owner: Owner, error: Exception, owned: bool) -> None:
        self._setting.input.pause([place])
        self.intake.begins(place)
        if isinstance(error, EngineFault):
            owner.marks.failed(error)
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
            self.retries.waiting[place] = self._clock()
            return
        shown = f"the engine failed, please report it: {error}" if isinstance(error, EngineFault) else str(error)
        self._failures.note(place, shown, owned)
        if isinstance(error, HandlerFailed):  # its handling logged it
            self.retries.waiting[place] = self._clock() + error.delay
            return
        delay = self.retries.back_off(place, self._clock())
        facts = {"topic": place[0], "partition": place[1], "error": str(error), "retry_in": round(delay, 3)}
        if isinstance(error, Fenced):
            self._log.warning("partition.fenced", **facts)
            return
        if isinstance(error, EngineFault):
            self._log.error("partition.fault", offset=owner.intake.offset, **facts)
            return
        # warn once for each failure: the claim is retried every second or two
        say = self._log.warning if self._failures.unlogged(place, str(error)) else self._log.debug
        say("partition.unavailable", **facts)

    def look(self, now: float) -> None:
        """Claim the halted partitions again whose gap an operator accepted."""
        for place in self._halted.accepted(self._setting.store, self._app, self._setting.agent.name):
            self._halted.pop(place, None)
            self.retries.waiting[place] = now

    def _failed(self, place: TopicPartition, code: str, text: str) -> None:
        """Process a read error of the consumer for a partition. Number -1 stands for all partitions of the topic."""
        if place[1] < 0:
            for own in [own for own in self._assigned if own[0] == place[0]]:
                self._failed(own, code, text)
            return
        owner = self.owners.get(place)
        if code not in GAPS and code not in DOUBTFUL:
            self.fetches.failed(place, code, text)
        elif owner is not None:
            if code == "unfetchable":
                self.probing.suspect(place)
            self.lost(owner, GAPS.get(code, SystemNotReady)(f"reading at offset {owner.intake.offset}: {text}"))
        elif place in self._taking or place in self._assigned:
            self._log.info("partition.not_readable_yet", topic=place[0], partition=place[1], code=code)

    @staticmethod
    def _work(owner: Owner, now: float) -> bool:
        """Whether records that waited at the claim are still unread, or a deadline has passed."""
        return owner.facts.high > owner.intake.offset or owner.next_due() <= owner.now(now)

    def committed(self, owner: Owner, progress: bool) -> None:
        """A commit succeeded. The last failure is over if the commit had records or results (`progress`), or if no work
        remains that could fail again."""
        if owner.place not in self.retries.waiting and (progress or not self._work(owner, self._clock())):
            self._failures.forget(owner.place)

    def well(self, owner: Owner) -> None:
        """A commit with records succeeded: reset the back-off."""
        self.intake.well(owner.place, owner.claim.offset)
        self.retries.backoffs.pop(owner.place, None)
        self.fetches.forget(owner.place)

    def claim_once_more(self, partitions: Collection[Partition], now: float) -> None:
        """Claim each of these partitions now, if it waits for a claim or is halted."""
        for place in [(partition.topic, partition.number) for partition in partitions]:
            if place in self.retries.waiting or place in self._halted:
                self.retries.waiting.pop(place, None)
                self._halted.pop(place, None)
                self._begin(place, now)

    def give_back(self) -> None:
        """At a clean end: release the items of slow calls that still run to the next owner."""
        for owner in self.owners.values():
            owner.claim = given_back(self._setting.store, owner.claim, owner.sealed)

    def let_go(self) -> None:
        """At an end of this process without a crash: clear its crash marks, and leave its partitions without an
        owner."""
        for owner in self._last.values():
            self._clear_crash_mark(owner)
            if owner.claimed and not owner.marks.names():
                self._clearing.add(owner.partition, owner.claim.token, (), self._clock())

    def _clear_crash_mark(self, owner: Owner) -> None:
        """Remove the names of this process from the crash mark. Repeated until the store acknowledges."""
        owner.sealed.cancelled.set()  # drops the results of its slow calls
        if owner.marks.names():
            self._clearing.add(owner.partition, owner.claim.token, owner.marks.names(), self._clock())

    def reasons(self) -> list[str]:
        """The reasons why this worker is not ready; empty when it is."""
        texts = [*([] if self._setting.input.joined() else [NOT_JOINED]), *self._halted.reasons()]
        texts += [*self.fetches.reasons(), *self.intake.reasons()]
        for topic, number in self._taking:
            text = self.probing.text((topic, number)) or self.failure((topic, number))
            texts.append(f"taking over {topic}/{number}{f': {text}' if text else ''}")
        for topic, number in self.retries.waiting:
            texts.append(f"waiting to claim {topic}/{number}: {self.failure((topic, number)) or 'just assigned'}")
        failed = {place: text for place in self.owners if (text := self.failure(place)) is not None}
        return texts + [f"retrying {topic}/{number}: {text}" for (topic, number), text in failed.items()]

    def failure(self, place: TopicPartition) -> str | None:
        """The newest failure of the partition, unless it is over."""
        return self._failures.text(place, self._clock())

    def others(self) -> list[PartitionReport]:
        """The reports of assigned partitions without an owner in this worker."""
        states = {**dict.fromkeys(self._taking, "restoring"), **dict.fromkeys(self.retries.waiting, "claiming")}
        reports = [*self._halted.reports()]
        for place, state in states.items():
            text = self.failure(place)
            reports.append(PartitionReport(*place, state, error=None if text is None else FAILED, detail=text))
        return reports
