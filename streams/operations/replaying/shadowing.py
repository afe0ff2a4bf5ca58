"""Reads the input of a shadow comparison: the store, the agent's outputs and its input records. Claims nothing, writes
nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple, Protocol

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.durable.entry import unpacked
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, OPENED
from sluicegate.streams.contracts.headers import FIRST as FIRST_RECORD
from sluicegate.streams.contracts.headers import ID, RULE, UnreadableHeader, by_name
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition, PartitionView, TopicFacts
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.keys import FINISH
from sluicegate.streams.operations.groups.cold_groups import parts
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.proofs import TopicProofs
from sluicegate.streams.operations.replaying.handler_calls import group_handler
from sluicegate.streams.operations.replaying.record_replay import compared
from sluicegate.streams.outbox.history import telling
from sluicegate.streams.outbox.sizes import longest
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.rules import rule_of
from sluicegate.streams.shadow import folded
from sluicegate.streams.shadow.judge import GroupHandler
from sluicegate.streams.shadow.published import Published, ShardIndex
from sluicegate.streams.shadow.refusals import timed_topics, unshadowable
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import LiveGroup, Witness
from sluicegate.streams.windows.replayed import origins_of
from sluicegate.streams.wording import counted

NEWEST = 1_000_000  # records of a partition that are read unless the range names a start
RUN_UP = 20_000  # records before the range, for the repeats of our senders
ROWS = 500  # of the outbox, in one read
DEAD = 100_000


class ShadowHistory(Protocol):
    """The part of Kafka that a shadow needs, without joining a group. The methods are those of
    sluicegate.streams.operations.rebuilding.rebuild_plan.History."""

    def facts(self, topic: str, number: int) -> TopicFacts: ...
    def offset_at(self, topic: str, number: int, start: float) -> int: ...
    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]: ...
    def spans(self, topic: str) -> Sequence[tuple[int, int]]: ...
    def compacted(self, topics: Sequence[str]) -> list[str]: ...


class ShadowRange(NamedTuple):
    """The range of input records: from the offset `since`, or from the time `since_time`, up to `until` or
    `until_time`, seconds since 1970. Without a start: the newest NEWEST records of each partition. Without an end: all
    records that the agent has processed."""

    since: int | None = None
    since_time: float | None = None
    until: int | None = None
    until_time: float | None = None


class Watch(Protocol):
    """Receives the progress of reading."""

    def expect(self, records: int) -> None:
        """The number of records that will be read in addition."""

    def read(self, records: int) -> None:
        """The number of records that were read."""


def watched(history: Iterator[Sequence[Record]], watch: Watch) -> Iterator[Sequence[Record]]:
    """The records, reported to the watch."""
    for records in history:
        yield records
        watch.read(len(records))


class _Source(NamedTuple):
    """One partition that the agent has processed up to `offset`."""

    partition: Partition
    view: PartitionView
    facts: TopicFacts
    begin: int
    end: int
    whole: bool
    published: Published


class Shadowing:
    """`live` is the agent under the rule that made its published results. `calls`: its handler is called, and the
    messages that it sent are read."""

    def __init__(
        self,
        app: App,
        live: Agent,
        store: Store,
        history: ShadowHistory,
        wanted: ShadowRange,
        watch: Watch,
        calls: bool = False,
    ) -> None:
        self._app, self._live, self._store, self._history = app, live, store, history
        self._calls = calls
        sent = {to.topic for to in live.outputs} if calls else ()
        self._telling = list(dict.fromkeys([*telling(live), *sent]))
        self._wanted, self._watch = wanted, watch
        self._most = longest(app)
        self._proofs = TopicProofs(store, app.name, history.offset_at)
        self._unproven = 0  # messages that claim to be of the agent, without proof
        self._digest, self._earlier = rule_of(live).short.encode(), set[str]()  # ids of results of other versions

    def compare(self, rule: Agent, only: bytes | None = None) -> Shadowed:
        """The sum of the verdicts on all partitions, under `rule`. Raises ConfigurationError for an agent that cannot
        be judged, SystemNotReady and PersistenceError."""
        rule = replace(rule, history=self._live.history)  # no part of the rule: it records how groups ended
        self._judge(rule)
        sources = [source for topic in self._live.topics for source in self._sources(topic)]
        for source in sources:
            self._watch.expect(source.end - source.begin)
        cut = self._read_outputs([source.published for source in sources])
        total, handle = Shadowed(), group_handler(self._app, rule) if self._calls else None
        for source in sources:
            total.add(self._compare(source, rule, only, cut, handle))
        if rule.handler is not None and handle is None:
            functions = ", ".join(rule.handler.functions)
            total.note(f"the handler {functions} is not called: what it sends is not compared")
        if self._earlier:
            total.note(f"{counted(len(self._earlier), 'result')} of another version of the rule: they may differ")
        if self._unproven:
            total.note(f"{counted(self._unproven, 'message')} of the agent's name without proof of the app: left out")
        return total

    def _judge(self, rule: Agent) -> None:
        for agent in (self._live, rule):
            if why := unshadowable(agent, self._calls):
                raise ConfigurationError(f"agent {agent.name} has no shadow: {why}")
            RegisteredSchemas(agent).begin(None)  # no result may lack its id
        if self._live.grouped != rule.grouped:
            raise ConfigurationError(
                f"agent {rule.name} has no shadow: only one of the two rules has groups, so nothing has a counterpart"
            )
        topics = sorted({*self._live.topics, *self._telling})
        if compacted := self._history.compacted(topics):
            raise ConfigurationError(
                f"agent {self._live.name} has no shadow: records of {', '.join(compacted)} are deleted by their key "
                "(cleanup.policy), so some may be missing"
            )

    def _sources(self, topic: str) -> Iterator[_Source]:
        for number in range(self._history.facts(topic, 0).partitions):
            partition = Partition(self._app.name, self._live.name, topic, number)
            view, facts = self._store.read(partition), self._history.facts(topic, number)
            if view is None or view.claim.offset < 0 or view.claim.source is None:
                continue
            if view.claim.source.era:
                raise ConfigurationError(
                    f"agent {self._live.name} has no shadow: an operator accepted a gap of {topic}/{number}, and which "
                    "results were decided before it is not known"
                )
            if any(generation.policy == FINISH for generation in view.claim.source.older):
                raise ConfigurationError(
                    f"agent {self._live.name} has no shadow: groups of an earlier version of the rule still finish in "
                    f"{topic}/{number}, and the store alone tells which records are theirs; compare when they have "
                    "ended"
                )
            begin, end, whole = self._range(partition, facts, view.claim.offset)
            claim = view.claim
            published = Published(
                partition,
                claim.source.name if claim.source else "",
                claim.offset,
                claim.number,
                timed_topics(self._live),
                self._live.handler is not None or self._live.sends_on,
                self._proofs.input(partition),
            )
            self._read_rows(partition, published, claim.number)
            yield _Source(partition, view, facts, begin, max(begin, end), whole, published)

    def _range(self, partition: Partition, facts: TopicFacts, offset: int) -> tuple[int, int, bool]:
        """The first offset, the end, and whether the agent began at the first offset."""
        place, wanted, start = (partition.topic, partition.number), self._wanted, self._live.start
        end = min(offset, facts.high)
        if wanted.until is not None:
            end = min(end, wanted.until)
        elif wanted.until_time is not None:
            end = min(end, self._history.offset_at(*place, wanted.until_time))
        if wanted.since is not None:
            begin = wanted.since
        elif wanted.since_time is not None:
            begin = self._history.offset_at(*place, wanted.since_time)
        else:
            begin = 0 if _begins_at_once(self._live) else end - NEWEST
        began = 0 if start == "earliest" else self._history.offset_at(*place, start) if start != "latest" else -1
        begin = max(begin, began, facts.low)
        return begin, end, begin == began

    def _read_rows(self, partition: Partition, published: Published, number: int) -> None:
        """Reads the outputs that were decided and not sent: the rows of the outbox, and the rows that the broker
        refused."""
        after = 0
        while rows := self._store.pending(partition, after, ROWS):
            for row in rows:
                published.row(row)
            after = rows[-1].number
            if after >= number:
                break
        for row, _ in self._store.dead(partition, DEAD):
            published.row(row)

    def _read_outputs(self, published: Sequence[Published]) -> set[tuple[str, int]]:
        """Passes each message to the `Published` of its partition. Returns the output partitions whose first messages
        retention has deleted."""
        spans = [
            (topic, number, span) for topic in self._telling for number, span in enumerate(self._history.spans(topic))
        ]
        self._watch.expect(sum(high - low for _, _, (low, high) in spans))
        outputs = {*self._telling} - ({self._live.dead_letters} - {to.topic for to in self._live.outputs})
        index = ShardIndex({part.partition: part for part in published}, outputs)
        for topic, number, (low, high) in spans:
            proof = self._proofs.output(topic, number)
            for records in watched(self._history.read(topic, number, low, high), self._watch):
                for record in records:
                    named = by_name(headers(record))
                    place = f"{topic}/{number}/{record.offset()}"
                    try:
                        about = index.find(record, named, proof)
                    except UnreadableHeader as error:
                        raise ConfigurationError(
                            f"{place}: the message has no header {error.name}: another program writes to the "
                            "topic, so what the agent published cannot be compared"
                        ) from None
                    if about is not None:
                        if FIRST_RECORD in named and named.raw(RULE) not in (b"", self._digest):
                            self._earlier.add(named.text(ID))
                        about.take(topic, number, place, record.key(), record.value(), named)
        self._unproven += index.unproven
        return {(topic, number) for topic, number, (low, _) in spans if low > 0}

    def witnesses(self, rule: Agent) -> Iterator[tuple[Partition, Witness]]:
        """The witness of each partition. Raises as `compare`."""
        self._judge(rule)
        sources = [source for topic in self._live.topics for source in self._sources(topic)]
        cut = self._read_outputs([source.published for source in sources])
        for source in sources:
            yield source.partition, self._witness(source, cut)[0]

    def read_published(self, published: Sequence[Published]) -> None:
        """Reads the published outputs of these partitions."""
        for part in published:
            self._read_rows(part.partition, part, part.number)
        self._read_outputs(published)

    def _witness(self, source: _Source, cut: set[tuple[str, int]]) -> tuple[Witness, list[str]]:
        published = source.published
        begin, notes = self._moved(source, cut)
        letters = [published.oldest_letter.get(place, inf) for place in cut if place[0] == self._live.dead_letters]
        witness = Witness(
            published,
            source.view.claim.source.name if source.view.claim.source else "",
            begin,
            source.end,
            source.view.claim.offset,
            self._open(source),
            _latest(source.view),
            source.view.claim.store_time,
            source.whole and begin == source.begin,
            max(letters, default=-inf),
            origins_of(self._live, self._history.facts),
        )
        return witness, notes

    def _compare(
        self, source: _Source, rule: Agent, only: bytes | None, cut: set[tuple[str, int]], handle: GroupHandler | None
    ) -> Shadowed:
        witness, notes = self._witness(source, cut)
        begin, place = witness.begin, (source.partition.topic, source.partition.number)
        before = self._history.read(*place, max(source.facts.low, begin - RUN_UP), begin) if rule.receive else ()
        records = watched(self._history.read(*place, begin, source.end), self._watch)
        if rule.sends_on:
            verdict = compared(rule, witness, records, only, self._most, before, bool(cut))
        else:
            verdict = folded(rule, self._live, witness, records, only, self._most, before, handle)
        verdict.notes += notes
        return verdict

    def _moved(self, source: _Source, cut: set[tuple[str, int]]) -> tuple[int, list[str]]:
        """Moves the begin of the range to where no result can be missing because of retention. Earlier results were
        sent, and so decided, before the remaining ones."""
        place, oldest = f"{source.partition.topic}/{source.partition.number}", source.published.oldest
        results = sorted(result for result in cut if result[0] != self._live.dead_letters)
        begin = min(source.end, max([source.begin, *(oldest[result] for result in results if result in oldest)]))
        notes = []
        if source.begin == source.facts.low > 0 or begin > source.begin:
            notes.append(f"{place}: retention took what was before, the shadow begins at offset {begin}")
        if unknown := [f"{topic}/{number}" for topic, number in results if (topic, number) not in oldest]:
            notes.append(
                f"{place}: retention took the first messages of {', '.join(unknown)}, results may be missing there"
            )
        return begin, notes

    def _open(self, source: _Source) -> dict[bytes, LiveGroup]:
        contents = contents_of(self._live, source.partition, source.view)
        return {
            key: LiveGroup(
                state[FIRST],
                state[LAST],
                state[COUNT],
                state[OPENED],
                within.rule.values(state, within.groups.bags.get(key, [])),
            )
            for within in parts(contents, self._store)
            for key, state in within.groups.current().items()
        }


def _begins_at_once(agent: Agent) -> bool:
    """Whether a replay needs what the agent read from its beginning (`witness.judge_start`)."""
    return agent.dedupe is not None or agent.windowed or agent.correlates or agent.over_table


def _latest(view: PartitionView) -> float | None:
    """The owner's time at its last commit that changed a group."""
    for blob in reversed(view.entries):
        entry = unpacked(blob)
        if entry.states and not entry.amended:
            return entry.at
    return None
