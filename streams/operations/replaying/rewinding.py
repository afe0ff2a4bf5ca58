"""Corrects an agent's published results: the input is replayed under a rule, and the results go to another topic.

Each input partition is replayed under a claim of its own (replays.py). The outputs are a function of the values that
were written when the replay began. After a crash the same command computes them again, skips the committed ones, and
goes on. A digest of the committed outputs shows whether the input has changed meanwhile.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

import msgspec

from sluicegate.streams import failpoints, formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.headers import NUMBER, REPLACES, SHARD, by_name
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.stores import BatchReports, OutputFacts, Store
from sluicegate.streams.contracts.values import NOBODY, Changes, Claim, OutboxRow, Partition, Source
from sluicegate.streams.errors import ConfigurationError, Fenced, SystemNotReady
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.journal.journal import note
from sluicegate.streams.operations.proofs import row_proof
from sluicegate.streams.operations.replaying import record_replay, replays
from sluicegate.streams.operations.replaying.handler_calls import group_handler
from sluicegate.streams.operations.replaying.replays import Corrected, Replay, ReplaySource
from sluicegate.streams.operations.replaying.shadowing import (
    RUN_UP,
    ShadowHistory,
    Shadowing,
    ShadowRange,
    Watch,
    watched,
)
from sluicegate.streams.outbox.rows import renumbered
from sluicegate.streams.outbox.sizes import longest
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.rules import rule_of
from sluicegate.streams.shadow import corrected
from sluicegate.streams.shadow.corrections import Corrections, sending
from sluicegate.streams.shadow.handled import HandledCorrections
from sluicegate.streams.shadow.published import Published
from sluicegate.streams.shadow.refusals import timed_topics, unshadowable
from sluicegate.streams.shadow.witness import Codecs, Witness, same_key
from sluicegate.streams.topic_names import patterns, reads
from sluicegate.streams.versions import catalogue, mac_keys

COMMIT_ROWS = 500
SENDING = 60.0  # seconds for the delivery reports of one commit
DONE = "done"
NO_TO = "its handler has no `to`, and only what it sends there can be corrected"
NO_END = "its groups have the rows of a table and go on, and only the last result of a group can be corrected"


def uncorrectable(rule: Agent, calls: bool) -> str | None:
    """Why nothing can correct what this agent published. None: a replay can. `calls`: its handler is called."""
    if rule.over_table:
        return NO_END
    return unshadowable(rule, calls) or (NO_TO if calls and not rule.outputs else None)


def _of_results(agent: Agent) -> Agent:
    """The agent without its history: a message of the history is not a result, and has no correction."""
    return replace(agent, history="")


class Sending(OutputFacts, Protocol):
    """The producer of the corrections."""

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int: ...


class Rewinding:
    """`app` and `rule` come from the file. `calls`: the handler of the agent is called, and its messages are the
    correction."""

    def __init__(
        self,
        app: App,
        rule: Agent,
        store: Store,
        history: ShadowHistory,
        output: Sending,
        watch: Watch,
        person: Person,
        calls: bool = False,
    ) -> None:
        self._app, self._rule, self._store, self._history = app, rule if calls else _of_results(rule), store, history
        self._calls = calls
        self._output, self._watch, self._person = output, watch, person
        self._most = longest(app)
        self._mac = mac_keys.read_or_make(store, app.name, lambda: f"{person.token}-keys")

    def run(self, wanted: ShadowRange, into: str) -> Replay:
        """Begins a replay, or continues the one that the same command began. Raises ConfigurationError for results that
        cannot be corrected, Fenced when another command took over, SystemNotReady and PersistenceError; then the same
        command continues."""
        if why := uncorrectable(self._rule, self._calls):
            raise ConfigurationError(f"agent {self._rule.name} has no corrections: {why}")
        RegisteredSchemas(self._rule).begin(None)  # no correction may lack its id
        replay = self._running(wanted, into) or self._begun(wanted, into)
        if replay.state == "running":
            corrected = tuple(self._corrected(replay, wanted))
            replay = self._noted(msgspec.structs.replace(replay, state="sent", corrected=corrected))
        self._delete(replay)
        return self._noted(msgspec.structs.replace(replay, state="done"))

    def abandon(self, number: int) -> Replay:
        """Deletes the state of replay `number` from the store. Corrections that were sent stay in the topic. Raises
        ConfigurationError when there is no such replay, Fenced and PersistenceError."""
        known = {other.number: other for other in replays.read(self._store, self._app.name, self._rule.name)}
        if number not in known:
            numbers = ", ".join(map(str, known)) or "none"
            raise ConfigurationError(f"agent {self._rule.name} has no replay {number}; it has {numbers}")
        replay = known[number]
        note(self._store, self._app.name, self._person, "replay --abandon", f"{self._rule.name}~{number}")
        if _runs(replay):
            replay = self._noted(msgspec.structs.replace(replay, state="abandoned"))
        self._delete(replay)
        return replay

    # Begin and end

    def _running(self, wanted: ShadowRange, into: str) -> Replay | None:
        running = [other for other in replays.read(self._store, self._app.name, self._rule.name) if _runs(other)]
        if not running:
            return None
        [replay] = running
        same = (replay.into, replay.digest, replay.wanted) == (into, rule_of(self._rule).digest, tuple(wanted))
        if not same:
            raise ConfigurationError(
                f"replay {replay.number} of agent {self._rule.name} into {replay.into} is not finished. The same file "
                f"and range continue it; --abandon {replay.number} gives it up"
            )
        return replay

    def _begun(self, wanted: ShadowRange, into: str) -> Replay:
        live = self._published_by()
        if not same_key(self._rule, live):
            raise ConfigurationError(
                f"agent {self._rule.name}: its results were published under another key, so none of them has a "
                "correction; read the input under a new agent, with another topic"
            )
        self._refuse(into)
        shadowing = Shadowing(self._app, live, self._store, self._history, wanted, self._watch, self._calls)
        witnesses = list(shadowing.witnesses(self._rule))
        claim, known = replays.claimed(self._store, self._app.name, self._rule.name, self._person.token)
        if any(map(_runs, known)):
            raise Fenced("another command began a replay of this agent")
        number = 1 + max((other.number for other in known), default=0)
        sources = tuple(replays.source_of(partition, witness) for partition, witness in witnesses)
        digest, (who, why, _) = rule_of(self._rule).digest, self._person
        replay = Replay(number, digest, live, into, tuple(wanted), claim.store_time, who, why, sources)
        for source, (_, witness) in zip(sources, witnesses, strict=True):
            self._freeze(self._claim(replay, source), replays.open_groups(witness))
        note(self._store, self._app.name, self._person, f"replay --rewind --into {into}", f"{self._rule.name}~{number}")
        replays.write(self._store, claim, [*known, replay])
        return replay

    def _published_by(self) -> Agent:
        """The agent under the rule that made the results: the newest version whose rule is not the rule of the file."""
        entry = catalogue.read(self._store, self._app.name).get(self._rule.name)
        digest = rule_of(self._rule).digest
        versions = entry.versions if entry else ()
        earlier = [version for version in versions if version.digest != digest and version.agent]
        if not earlier:
            return self._rule
        live = earlier[-1].agent or self._rule
        topics = self._rule.topics if patterns(live.topics) else live.topics  # the topics that match now
        return replace(live, topics=topics, history=self._rule.history)

    def _refuse(self, into: str) -> None:
        reader = next((agent.name for agent in self._app.agents if reads(agent.topics, into)), None)
        written = {to.topic: agent.name for agent in self._app.agents for to in agent.outputs}
        written |= {agent.dead_letters: agent.name for agent in self._app.agents}
        written |= {agent.history: agent.name for agent in self._app.agents if agent.history}
        if reader is not None:
            raise ConfigurationError(
                f"--into {into}: agent {reader} reads this topic, and would count both; name a topic of its own"
            )
        if into in written:
            raise ConfigurationError(
                f"--into {into}: agent {written[into]} writes to this topic, and its readers would take a correction "
                "for another result; name a topic of its own"
            )
        self._output.partitions(into)

    def _freeze(self, claim: Claim, entries: Sequence[bytes]) -> None:
        """Writes the open groups, and deletes the rest of a replay that never began."""
        keep = claim.last + 1
        for entry in entries:
            claim = self._store.commit(claim, Changes(-1, entries=[entry], keep_from=keep))
        source = Source("", 0, _NO_OUTPUTS)
        self._store.commit(claim, Changes(0, keep_from=keep, source=source))

    def _noted(self, replay: Replay) -> Replay:
        """Writes the replay in this state."""
        claim, known = replays.claimed(self._store, self._app.name, self._rule.name, self._person.token)
        replays.write(self._store, claim, [replay if other.number == replay.number else other for other in known])
        return replay

    def _delete(self, replay: Replay) -> None:
        """Removes the partitions of the replay from the store."""
        for source in replay.sources:
            self._store.forget(self._claim(replay, source))

    def _claim(self, replay: Replay, source: ReplaySource) -> Claim:
        place = replays.private(self._app.name, self._rule.name, replay.number, source)
        return self._store.claim(place, self._person.token, NOBODY)

    # One partition

    def _corrected(self, replay: Replay, wanted: ShadowRange) -> Iterator[Corrected]:
        shadowing = Shadowing(self._app, replay.live, self._store, self._history, wanted, self._watch, self._calls)
        published = [self._published(replay, source) for source in replay.sources]
        shadowing.read_published(published)
        self._watch.expect(sum(source.end - source.begin for source in replay.sources))
        for source, known in zip(replay.sources, published, strict=True):
            yield self._correct(replay, source, known)

    def _published(self, replay: Replay, source: ReplaySource) -> Published:
        partition = Partition(self._app.name, self._rule.name, source.topic, source.partition)
        timed = timed_topics(replay.live)
        proof = row_proof(self._store, self._mac, partition)
        return Published(
            partition, source.topic_id, source.offset, source.number, timed, self._calls or self._rule.sends_on, proof
        )

    def _correct(self, replay: Replay, source: ReplaySource, published: Published) -> Corrected:
        claim = self._claim(replay, source)
        self._check_runs(replay, claim)
        view = self._store.read(claim.partition)
        witness = _witness(source, published, () if view is None else view.entries)
        codecs = Codecs(formats.reads(self._rule), formats.writes(self._rule), self._most)
        arguments = self._rule, codecs, witness, rule_of(self._rule).short, replay.number, replay.into, self._output
        corrections = Corrections(*arguments)
        if self._calls:
            handle = group_handler(self._app, sending(self._rule, replay.into))
            corrections = HandledCorrections(*arguments, handle)
        writer = Writer(self._store, self._output, claim, self._mac)
        writer.mark(self._sent_before(claim, replay.into))
        place, counted = (source.topic, source.partition), 0
        before = self._run_up(source)
        history = self._history.read(source.topic, source.partition, source.begin, source.end)
        records = watched(history, self._watch)
        replayed = (
            record_replay.corrected(self._rule, witness, records, corrections, replay.into, before)
            if self._rule.sends_on
            else corrected(self._rule, replay.live, witness, records, corrections, before)
        )
        for offset, rows in replayed:
            counted += len(rows)
            writer.write(rows, offset)
        writer.finish(source.end)
        totals = corrections.verdicts
        return Corrected(
            *place,
            source.begin,
            source.end,
            totals.records,
            totals.given,
            corrections.removed,
            corrections.refused,
            counted,
        )

    def _check_runs(self, replay: Replay, claim: Claim) -> None:
        """Raises if another command ended the replay, and removed this partition, before this one claimed it."""
        known = replays.read(self._store, self._app.name, self._rule.name)
        if not any(other.number == replay.number and other.state == "running" for other in known):
            self._store.forget(claim)
            raise Fenced("another command ended this replay")

    def _run_up(self, source: ReplaySource) -> Iterator[Sequence[Record]]:
        if not self._rule.receive:
            return iter(())
        low = self._history.facts(source.topic, source.partition).low
        begin = max(low, source.begin - RUN_UP)
        return self._history.read(source.topic, source.partition, begin, source.begin)

    def _sent_before(self, claim: Claim, into: str) -> set[int]:
        """The numbers of rows that an earlier run sent but could not mark as sent."""
        waiting = {row.number for row in self._store.pending(claim.partition, 0, COMMIT_ROWS)}
        if not waiting:
            return set()
        prefix, sent = "{}/{}/{}/{}>".format(*claim.partition).encode(), set[int]()
        for number, (low, high) in enumerate(self._history.spans(into)):
            for records in self._history.read(into, number, low, high):
                for named in map(by_name, map(headers, filter(self._mac.proves, records))):
                    if named.raw(SHARD).startswith(prefix):
                        sent.add(named.integer(NUMBER))
        return waiting & sent


class Writer:
    """Commits the outputs of one partition and sends them. Outputs that earlier runs committed are skipped."""

    def __init__(self, store: Store, output: Sending, claim: Claim, mac: Mac) -> None:
        self._store, self._output, self._claim, self._mac = store, output, claim, mac
        self._number, self._digest = 0, hashlib.sha256()
        self._sent: list[int] = []

    def mark(self, sent: set[int]) -> None:
        """Sends the committed rows, except the rows with these numbers."""
        while rows := self._store.pending(self._claim.partition, 0, COMMIT_ROWS):
            self._send([row for row in rows if row.number not in sent])
            self._commit(self._claim.offset, (), [row.number for row in rows])

    def write(self, rows: Sequence[OutboxRow], offset: int) -> None:
        """Commits and sends the next outputs. `offset` is the last record that led to one of them. Raises
        ConfigurationError when they differ from the outputs that an earlier run committed."""
        known, fresh = self._claim.number, list[OutboxRow]()
        for row in rows:
            self._number += 1
            replaces = by_name(row.headers).get(REPLACES)
            self._digest.update(msgspec.msgpack.encode((row.id, row.topic, row.key, row.value, replaces)))
            if self._number > known:
                fresh.append(renumbered(row, self._claim.partition, self._number, self._claim.token))
                if len(fresh) == COMMIT_ROWS:
                    self._write(fresh, offset)
                    fresh = []
            elif self._number == known:
                self._judge()
        if fresh:
            self._write(fresh, offset)

    def finish(self, end: int) -> None:
        """Ends the replay of the partition: all records were read."""
        if self._number < self._claim.number:
            raise _changed(self._claim.partition)
        source = Source("", 0, self._digest.hexdigest(), lineage=DONE)
        self._claim = self._store.commit(self._claim, Changes(end, dispatched=self._sent, source=source))
        self._sent = []

    def _write(self, rows: Sequence[OutboxRow], offset: int) -> None:
        self._commit(offset, rows, self._sent)
        failpoints.hit("correction-committed")
        self._send(rows)
        self._sent = [row.number for row in rows]
        failpoints.hit("correction-sent")

    def _commit(self, offset: int, rows: Sequence[OutboxRow], sent: Sequence[int]) -> None:
        source = Source("", 0, self._digest.hexdigest()) if rows else None
        self._claim = self._store.commit(self._claim, Changes(offset, outbox=rows, dispatched=sent, source=source))

    def _judge(self) -> None:
        source = self._claim.source
        if source is None or source.rule != self._digest.hexdigest():
            raise _changed(self._claim.partition)

    def _send(self, rows: Sequence[OutboxRow]) -> None:
        rows = self._mac.signed(rows)
        reports, taken = _Reports(), 0
        while taken < len(rows):
            taken += self._output.produce_all(rows[taken:], reports)
            if taken < len(rows) and self._output.flush(SENDING):
                break
        if rows and (self._output.flush(SENDING) or reports.refusals or reports.count < len(rows)):
            why = "; ".join(reports.refusals[:3]) or f"no delivery report within {SENDING:.0f} s"
            raise SystemNotReady(f"Kafka: {rows[0].topic}: {why}. Run the same command again to go on")


class _Reports:
    """Satisfies sluicegate.streams.contracts.stores.BatchReports."""

    def __init__(self) -> None:
        self.count, self.refusals = 0, list[str]()

    def delivered(self, numbers: Sequence[int]) -> None:
        self.count += len(numbers)

    def refused(self, number: int, outcome: str, text: str) -> None:
        self.refusals.append(text)


_NO_OUTPUTS = hashlib.sha256().hexdigest()


def _changed(partition: Partition) -> ConfigurationError:
    number = partition.agent.rpartition("~")[2]
    return ConfigurationError(
        f"{partition.topic}/{partition.number}: the records or the published results are not those that replay "
        f"{number} began with: retention took some of them, or the code of the agent's functions changed. Nothing more "
        "was sent. "
        f"--abandon {number} gives the replay up"
    )


def _runs(replay: Replay) -> bool:
    return replay.state in ("running", "sent")


def _witness(source: ReplaySource, published: Published, entries: Sequence[bytes]) -> Witness:
    return Witness(
        published,
        source.topic_id,
        source.begin,
        source.end,
        source.offset,
        replays.kept_groups(entries),
        source.latest,
        source.now,
        source.whole,
        -inf if source.letters_from is None else source.letters_from,
        source.origins,
    )
