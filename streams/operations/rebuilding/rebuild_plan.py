"""Plans the rebuild of an agent. Everything is read and judged before anything is written."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import NamedTuple, Protocol

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.events import Event, Fire, Refused, Sent
from sluicegate.streams.aggregation.rule import fingerprint
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.contracts.values import Claim, GroupNumber, Partition, Source, TopicFacts
from sluicegate.streams.errors import ConfigurationError, Fenced
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.proofs import TopicProofs
from sluicegate.streams.operations.rebuilding.rebuild import Reach, Rebuild, Rebuilt, refused, unaccountable
from sluicegate.streams.operations.rebuilding.rebuild_known import KnownOutputs, Messages
from sluicegate.streams.operations.rebuilding.rebuild_rekeyed import Rekeyed
from sluicegate.streams.operations.rebuilding.rebuild_replayed import ReplayedRebuild
from sluicegate.streams.operations.rebuilding.rebuild_write import WHAT, lost, write
from sluicegate.streams.outbox.history import telling
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.outbox.sizes import longest
from sluicegate.streams.ownership.beginning import idle_since
from sluicegate.streams.ownership.checks import informational, maker_of, told_era
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.shadow.witness import Codecs, Witness, leaves_traces
from sluicegate.streams.versions import mac_keys
from sluicegate.streams.windows.replayed import origins_of
from sluicegate.streams.wording import counted

MOST_DECIDED = 50_000  # results of a partition without a trace in the topic: more than an outbox holds


class History(Protocol):
    """Kafka as a rebuild reads it, without joining a group."""

    def facts(self, topic: str, number: int) -> TopicFacts:
        """Same as InputFacts.facts."""

    def offset_at(self, topic: str, number: int, start: float) -> int:
        """Same as InputFacts.offset_at."""

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        """The records from `first` on, below `end`; some offsets may have none. Raises SystemNotReady when they do not
        come."""

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        """First and next offset of each partition. Raises SystemNotReady."""

    def compacted(self, topics: Sequence[str]) -> list[str]:
        """The topics whose records are deleted by their key. Raises SystemNotReady."""

    def members(self) -> int:
        """The number of consumers in the agent's group. Raises SystemNotReady."""

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        """Commits the group's offset, and waits for it. Raises SystemNotReady, also when the group has members."""


class Making(Protocol):
    """Rebuilds one partition."""

    def take(self, records: Sequence[Record]) -> None:
        """Takes the next records, in order. Raises Halt, and ConfigurationError where it is unknown what the agent
        did."""

    def finish(self, offset: int) -> Rebuilt: ...


class RebuildRange(NamedTuple):
    """The start of the rebuild: the offset `since` in every partition (0: the first one that is there), or
    `since_time`, seconds since 1970. All results before it were sent, and no group was open there. Without both, all
    records must be there from where the agent began. `accept_gaps`: forget records that are in no result although a
    later result exists."""

    since: int | None = None
    since_time: float | None = None
    accept_gaps: bool = False

    @property
    def has_start(self) -> bool:
        return self.since is not None or self.since_time is not None


class Lost(NamedTuple):
    """A partition to rebuild. `committed` is the group's informational offset; -1: there is no such Sluicegate offset.
    `whole`: all of its input exists, or the command says that the rest is enough."""

    known: KnownOutputs
    facts: TopicFacts
    committed: int
    whole: bool


class Planned(NamedTuple):
    built: Rebuilt
    lost: Lost


class Plans:
    """The plans of an agent's partitions."""

    def __init__(
        self, app: App, agent: Agent, store: Store, history: History, outputs: OutputFacts, wanted: RebuildRange
    ) -> None:
        try:
            self._reads, self._writes = formats.reads(agent), formats.writes(agent)
        except ValueError as error:
            raise ConfigurationError(f"agent {agent.name}: {error}") from error
        RegisteredSchemas(agent).begin(None)  # no result may lack its id
        self._app, self._agent, self._store, self._history = app, agent, store, history
        self._outputs, self._wanted = outputs, wanted
        self._results = [*dict.fromkeys(to.topic for to in agent.outputs)] if agent.handler is None else []
        self._ids = IdRule(agent, self._reads) if agent.dedupe else None
        self._most = longest(app)
        self._proofs = TopicProofs(store, app.name, history.offset_at)
        self._keys_lost = False

    def plan(self, latest: float, report: Callable[[str], None]) -> list[Planned]:
        """The states to write, for partitions without a state. `report` is called with each step of reading. Raises
        ConfigurationError when the topics do not show enough, SystemNotReady and PersistenceError."""
        self._judge_agent()
        sources = [source for topic in self._agent.topics for source in self._lost(topic)]
        if not sources:
            return []
        self._judge_keys(sources, report)
        cut = self._read_outputs([source.known for source in sources], report)
        for source in sources if self._agent.sends_on else ():
            source.known.rekeyed(source.known.begin, source.facts.high)
        # the agent has done nothing in other partitions
        read = [source for source in sources if max(source.known.end, source.committed) >= 0]
        return [self._rebuilt(source, cut, latest, report) for source in read]

    def _judge_agent(self) -> None:
        agent = self._agent
        if why := unaccountable(agent):
            raise refused(agent, why)
        topics = [*agent.topics, *telling(agent)]
        if compacted := self._history.compacted(sorted(set(topics))):
            raise refused(
                agent,
                f"records of {', '.join(compacted)} are deleted by their key (cleanup.policy), so some may be missing",
            )
        if agent.start == "latest" and not self._wanted.has_start:
            raise ConfigurationError(
                f"agent {agent.name} began at `latest`, and where that was is lost with the store; name the time "
                "with --from TIME"
            )
        if members := self._history.members():
            raise ConfigurationError(
                f"the group {self._app.name}.{agent.name} has {members} members: stop them first (one that died is "
                "gone after its session)"
            )

    def _lost(self, topic: str) -> Iterator[Lost]:
        count = self._history.facts(topic, 0).partitions
        for number in range(count):
            partition = Partition(self._app.name, self._agent.name, topic, number)
            if not lost(self._store.read(partition)):
                continue
            facts = self._history.facts(topic, number)
            committed = facts.committed if maker_of(facts.metadata) is not None else -1
            begin, whole = self._begin(topic, number, facts)
            known = KnownOutputs(partition, facts.topic_id, begin, self._agent)
            yield Lost(known, facts, committed, whole)

    def _judge_keys(self, sources: Sequence[Lost], report: Callable[[str], None]) -> None:
        """Decides whether records need proof. They do if the store's keys are the keys of the lost rows; Kafka's group
        names the store of those rows."""
        makers = {maker_of(source.facts.metadata) for source in sources if source.committed >= 0}
        self._keys_lost = self._proofs.mac is None or makers != {self._store.incarnation}
        if self._keys_lost:
            report(
                "the keys that signed the records were lost with the store: what the topics hold is believed without "
                "proof"
            )
            return
        for source in sources:
            source.known.published.proof = self._proofs.lost_input(
                source.known.partition.topic, source.known.partition.number
            )

    def _begin(self, topic: str, number: int, facts: TopicFacts) -> tuple[int, bool]:
        """The first offset to read, and the value of Lost.whole."""
        wanted, start = self._wanted, self._agent.start
        if wanted.since is not None:
            return max(facts.low, wanted.since), True
        if wanted.since_time is not None:
            return max(facts.low, self._history.offset_at(topic, number, wanted.since_time)), True
        first = self._history.offset_at(topic, number, float(start)) if not isinstance(start, str) else 0
        return max(facts.low, first), facts.low <= first

    def _read_outputs(self, known: Sequence[KnownOutputs], report: Callable[[str], None]) -> dict[str, list[int]]:
        """Fills `known`. Returns by topic the partitions whose first records retention has deleted. Raises
        ConfigurationError if such records may be missing in the history."""
        strict = {*self._results, self._agent.history}
        messages = Messages(known, strict, self._agent.sends_on, self._agent.handler is not None)
        cut: dict[str, list[int]] = {}
        for topic in telling(self._agent):
            spans = self._history.spans(topic)
            cut[topic] = [number for number, (low, _) in enumerate(spans) if low > 0]
            for number, (low, high) in enumerate(spans):
                report(f"reading {topic}/{number}: {high - low} messages")
                proof = HeaderProof() if self._keys_lost else self._proofs.output(topic, number)
                for records in self._history.read(topic, number, low, high):
                    for record in records:
                        messages.take(record, proof)
        if unproven := messages.index.unproven:
            report(f"{counted(unproven, 'message')} of the agent's name without proof of the app: left out")
        if cut.get(self._agent.history) and not self._wanted.has_start:
            raise ConfigurationError(
                f"agent {self._agent.name}: retention took the start of {self._agent.history}, so groups that ended "
                "may be missing there; name a time since when nothing is missing with --from TIME"
            )
        return cut

    def _rebuilt(
        self, source: Lost, cut: dict[str, list[int]], latest: float, report: Callable[[str], None]
    ) -> Planned:
        facts, known, partition = source.facts, source.known, source.known.partition
        place = f"{partition.topic}/{partition.number}"
        end = max(known.end, source.committed)
        if told_era(facts):
            raise refused(self._agent, f"an operator accepted a gap of {place}, and its ids are other ones since then")
        if end < facts.low:
            raise refused(
                self._agent,
                f"{place} was read to {end} and begins at {facts.low}: records were deleted before they were read",
            )
        if end > facts.high:
            raise refused(
                self._agent, f"{place} was read to {end} and ends at {facts.high}: records that were read are gone"
            )
        if not source.whole:
            raise ConfigurationError(
                f"{place} begins at {facts.low}: groups may have been open of which records are gone; name a time at "
                "which none was open, and all results were sent, with --from TIME (or --from earliest)"
            )
        if end < facts.high and not self._wanted.has_start and self._forgotten(known, cut):
            raise ConfigurationError(
                f"{place}: what was sent of records from {end} on, if anything, may have gone from its topic: "
                "retention took its start, "
                "and nothing later of this partition is there; name a time since when nothing is missing with --from "
                "TIME (or earliest)"
            )
        self._judge_watermark(known)
        known.begin = min(known.begin, end)
        making = self._making(source, cut, latest, end)
        report(f"reading {place}: {end - known.begin} records")
        for records in self._history.read(known.partition.topic, known.partition.number, known.begin, end):
            making.take(records)
        built = making.finish(end)
        self._judge(built, known, place)
        return Planned(built, source)

    def _judge_watermark(self, known: KnownOutputs) -> None:
        """Raises ConfigurationError if it depends on the watermark at `known.begin` which records count."""
        rule = self._agent.aggregation
        skips_late = rule is not None and rule.window is not None and rule.window.late == "skip"
        if self._wanted.has_start and known.begin > 0 and skips_late:
            raise refused(
                self._agent,
                "late records are only counted (late: skip), and which ones are late after --from is not known: the "
                "watermark follows from earlier records",
            )

    def _forgotten(self, known: KnownOutputs, cut: dict[str, list[int]]) -> bool:
        """Whether retention may have deleted the newest output. It has not if a later output is there. (The offset of
        the consumer group may be slightly behind.)"""
        topic = self._agent.dead_letters
        return any(place not in known.newest for place in self._cut_results(cut)) or any(
            (topic, number) not in known.letters for number in cut[topic]
        )

    def _cut_results(self, cut: dict[str, list[int]]) -> list[tuple[str, int]]:
        """The partitions of results whose first records retention has deleted."""
        return [(topic, number) for topic in self._results for number in cut[topic]]

    def _making(self, loss: Lost, cut: dict[str, list[int]], latest: float, end: int) -> Making:
        agent, reach = self._agent, self._reach(loss.known, cut)
        if self._agent.sends_on:
            return Rekeyed(agent, self._reads, self._ids, loss.known, reach, latest, loss.facts.topic_id, self._most)
        emits = agent.aggregation is not None and agent.aggregation.emit is not None
        if agent.windowed or agent.correlates or emits or not leaves_traces(agent):
            origins = origins_of(agent, self._history.facts)
            witness = Witness(
                loss.known.published,
                loss.facts.topic_id,
                loss.known.begin,
                end,
                end,
                {},
                now=latest,
                whole=True,
                letters_from=reach.letters,
                origins=origins,
                restores=True,
            )
            return ReplayedRebuild(agent, Codecs(self._reads, self._writes, self._most), witness, reach, loss.known)
        return Rebuild(agent, self._reads, self._ids, loss.known, reach, latest)

    def _reach(self, known: KnownOutputs, cut: dict[str, list[int]]) -> Reach:
        """Outputs that retention deleted from a partition were sent before the remaining ones, so they belong to
        earlier records. `--from` asserts that nothing is missing from there on."""
        agent, topics = self._agent, self._results
        if self._wanted.has_start:
            return Reach()
        both, letters = _may_be_letters(agent), agent.dead_letters
        oldest = [known.oldest.get(place, inf) for place in self._cut_results(cut)]
        oldest += [inf for _ in cut[letters] if both or not topics]
        dead = [known.letters.get((letters, number), inf) for number in cut[letters]]
        return Reach(max(oldest, default=-inf), max(dead, default=-inf), (both and bool(topics)) or len(topics) > 1)

    def _judge(self, built: Rebuilt, known: KnownOutputs, place: str) -> None:
        """Raises ConfigurationError when topics and results do not fit together."""
        agent = self._agent
        if built.lost:
            ended = "" if leaves_traces(agent) else "; or a group ended without a result, which only `history` tells"
            raise refused(
                agent,
                f"{place}: {len(built.lost)} results, the first at offset {built.lost[0]}, have other records than "
                f"the input has (retention, or another rule or dedupe than now{ended})",
            )
        if built.doubtful:
            raise ConfigurationError(
                f"{place}: {len(built.doubtful)} groups or dead letters, the first at offset {built.doubtful[0]}, "
                "may have been sent to "
                "topics that no longer hold them; name a later time at which no group was open, and all results were "
                "sent, with --from TIME"
            )
        self._judge_untold(built, place)
        self._judge_handled(built, place)
        late = [number for number, event in built.decided.items() if self._overtaken(number, event, known)]
        missing = [number for number in late if not _goes_on(built.decided[number])]
        gaps = sorted({*built.gaps, *(in_order(number)[0] for number in missing)})
        if gaps and not self._wanted.accept_gaps:
            raise ConfigurationError(
                f"{place}: {len(gaps)} groups, the first at offset {gaps[0]}, have no result, though later ones are "
                "there: the groups were dropped, their rows are dead, or the topic was created again; --accept-gaps "
                "forgets them"
            )
        for number in [*built.gaps, *late]:
            built.decided.pop(number, None)
        if len(built.decided) > MOST_DECIDED:
            raise refused(
                agent, f"{place}: {len(built.decided)} results are not in the topic, more than ever wait to be sent"
            )

    def _judge_untold(self, built: Rebuilt, place: str) -> None:
        """Raises ConfigurationError for groups that may have ended without a message, and for results whose rows are
        lost."""
        agent = self._agent
        if built.untold:
            raise ConfigurationError(
                f"{place}: {len(built.untold)} groups, the first at offset {built.untold[0]}, may have ended without a "
                "result (having, a route that drops, on_timeout: discard, emit with final: false), and when is not "
                "known; with `history` a topic tells it"
            )
        rowless = [n for n, event in built.decided.items() if not isinstance(event, Refused)] if agent.lookups else []
        if rowless:
            raise refused(
                agent,
                f"{place}: {len(rowless)} results, the first at offset {min(map(in_order, rowless))[0]}, were never "
                "sent, and hold rows of the store (lookup), which is lost",
            )

    def _judge_handled(self, built: Rebuilt, place: str) -> None:
        """Forgets groups that ended and that the history does not name, because the handler may have had them. Raises
        ConfigurationError unless `accept_gaps` permits it."""
        if self._agent.handler is None:
            return
        ended = sorted((n for n, event in built.decided.items() if not isinstance(event, Refused)), key=in_order)
        if ended and not self._wanted.accept_gaps:
            raise ConfigurationError(
                f"{place}: {len(ended)} groups, the first at offset {in_order(ended[0])[0]}, ended and have no message "
                f"in {self._agent.history}: whether the handler had them is not known; --accept-gaps forgets them"
            )
        for number in ended:
            built.decided.pop(number)

    def _overtaken(self, number: GroupNumber, event: Event, known: KnownOutputs) -> bool:
        """Whether a result exists that was sent after this event. Rows of one output partition arrive in their
        order."""
        if not isinstance(event, Fire | Sent) or not self._results:
            return False
        topic = (
            event.topic if isinstance(event, Sent) else self._agent.outputs[(event.outputs or ((0, {}),))[0][0]].topic
        )
        place = topic, self._outputs.partition_of(event.key or b"", self._outputs.partitions(topic))
        if isinstance(event, Fire) and event.window is not None and event.window.by and not event.window.own:
            return (event.window.end, in_order(number)[0]) < known.closed.get(place, (-1, -1))
        last = event.last if isinstance(event, Fire) else in_order(number)[0]
        return last < known.newest.get(place, -1)

    def carry_out(self, planned: Planned, person: Person) -> Claim:
        """Writes the state, and commits its offset to the consumer group. Raises ConfigurationError if another process
        claims the partition meanwhile, PersistenceError (outcome unknown: run it again) and SystemNotReady."""
        built, facts, agent = planned.built, planned.lost.facts, self._agent
        rows = Rows(built.partition, agent, self._writes, self._outputs, self._most)
        idle = idle_since(None, built.groups.rule, 0, 0.0)  # the rebuilt groups know the time of their last record
        proof_from = planned.lost.known.proof.since
        source = Source(
            facts.topic_id, facts.partitions, fingerprint(agent), facts.partitions, idle=idle, proof_from=proof_from
        )
        try:
            claim = write(self._store, built, rows, planned.lost.known.number, source, person)
        except Fenced as error:
            place = f"{built.partition.topic}/{built.partition.number}"
            raise ConfigurationError(
                f"{place} was claimed by another process: stop the agent's workers and run this again"
            ) from error
        self._history.inform(built.partition.topic, built.partition.number, claim.offset, informational(claim))
        return claim

    def note_lost_keys(self, token: str) -> None:
        """Records, before anything is written, that the store's keys prove nothing about earlier records. Raises
        PersistenceError and Fenced."""
        if self._keys_lost:
            mac_keys.begin_anew(self._store, self._app.name, token)

    def inform_again(self) -> None:
        """Informs Kafka's group about partitions that an earlier run finished before it was killed."""
        for topic in self._agent.topics:
            for number in range(self._history.facts(topic, 0).partitions):
                partition = Partition(self._app.name, self._agent.name, topic, number)
                view, facts = self._store.read(partition), self._history.facts(topic, number)
                if view is None or lost(view) or view.claim.offset < facts.committed:
                    continue
                if maker_of(facts.metadata) in (None, view.claim.incarnation):
                    continue
                if any(change.what == WHAT for change in contents_of(self._agent, partition, view).amended):
                    self._history.inform(topic, number, view.claim.offset, informational(view.claim))


def _goes_on(event: Event) -> bool:
    """Whether the event is an early result. A later result that was sent has all of its records."""
    return isinstance(event, Fire) and event.goes_on


def _may_be_letters(agent: Agent) -> bool:
    """Whether results of groups may be among the dead letters: an expression may have no answer, no route may take
    them, or a group timed out or was refused."""
    rule, expressions = agent.aggregation, [field.expression for to in agent.outputs for field in to.select]
    of_groups = rule is not None and "dead-letter" in (rule.on_timeout, rule.on_full)
    has_clauses = bool(agent.having or agent.routes or any(expressions) or agent.lookups)
    return of_groups or (has_clauses and agent.handler is None)
