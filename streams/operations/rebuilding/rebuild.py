"""Rebuilds the state of a partition whose store was lost, from its input and its published results. Pure.

Records of a published result are counted and released. Records in no result belong to open groups. If the input
completes a group without a result, the result was decided but never sent: it is decided again, under the same id.

Groups of one key follow each other without a gap. So records in no result, before a later result of their key, cannot
be open: their group was dropped, or its result is gone.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import inf
from sys import maxsize
from typing import NamedTuple

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import Event, Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, FIRST, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import divided
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.rebuilding.rebuild_known import KnownOutputs
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.reading.gate import RecordGate
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.reading.receive import ReceivedShards


class Reach(NamedTuple):
    """Offsets from which the outputs are complete: `results` for results by the first offset of their group, `letters`
    for dead letters. Every such output that was sent is still in its topic. `mixed`: results are in both topics, so an
    early result does not prove that the later ones are still there."""

    results: float = -inf
    letters: float = -inf
    mixed: bool = False


class Rebuilt(NamedTuple):
    """The state of `partition` at `offset`, after `records` records. `decided` are the events that were never sent, by
    the number of their group, or the offset of their record.

    The rest are first offsets. `doubtful`: groups and refused records that may or may not have been sent; the topics do
    not show it. `gaps`: groups without a result, although a later result of their key exists. `lost`: results whose
    records are not in the input. `untold`: groups that may have ended without a result or a message.
    """

    partition: Partition
    offset: int
    epoch: int
    groups: Groups
    senders: ReceivedShards
    seen: KnownIds | None
    decided: dict[GroupNumber, Event]
    records: int
    results: int
    doubtful: Sequence[int] = ()
    gaps: Sequence[int] = ()
    lost: Sequence[int] = ()
    untold: Sequence[int] = ()


class IntakeFacts(NamedTuple):
    """The facts that an intake needs about its partition. `dead` are the offsets of refused records."""

    partition: Partition
    proof: HeaderProof
    dead: Collection[int]


class RebuildIntake(RecordGate):
    """Selects the records that count. Repeats of Sluicegate senders, duplicates of producers, and refused records do
    not. `now` is the time of the records; it never goes back, and never passes `latest`, the store's time."""

    def __init__(
        self, partition: Partition, agent: Agent, ids: IdRule | None, known: KnownOutputs | IntakeFacts, latest: float
    ) -> None:
        super().__init__(partition, agent, ids, known.proof)
        self._dead, self._latest = known.dead, latest
        self.now, self.records, self.epoch = 0.0, 0, -1
        self.left_out: Sequence[Record] = ()  # the last record, if `where` leaves it out

    def new(self, record: Record, groups: Groups) -> Iterator[Sequence[Record]]:
        """The record in a sequence, or nothing. Same form as Dedupe.runs."""
        kind, milliseconds = record.timestamp()
        at = milliseconds / 1000 if kind and milliseconds > 0 else self._latest
        self.now = max(self.now, min(at, self._latest))
        self.records += 1
        self.left_out = ()
        epoch = record.leader_epoch()
        self.epoch = -1 if epoch is None else epoch
        if record.offset() in self._dead or not (fresh := self.fresh([record], self.now)):
            return
        kept, self.left_out = divided(groups, fresh)
        if kept:
            yield from self.dedupe.runs(kept, self.now, groups) if self.dedupe else (kept,)

    def settle(self) -> None:
        """Discards the list of changes, because the state is written as a whole."""
        self.senders.changes()
        if self.dedupe:
            self.dedupe.seen.changes(self.now)


class UnendingGroups(Groups):
    """Open groups that take records and never end by themselves: `Rebuild` decides about their ends."""

    __slots__ = ()

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """Nothing."""

    def give_deadline(self, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        """Same as in Groups, but an overdue group does not end. It ends when an owner has it."""
        super().give_deadline(key, state, deadline, now)
        return False


class Rebuild:
    """Takes the records of one partition from `known.begin` on, in order."""

    def __init__(
        self, agent: Agent, reads: Codec, ids: IdRule | None, known: KnownOutputs, reach: Reach, latest: float
    ) -> None:
        self._rule, self._known, self._reach = Rule(agent, reads), known, reach
        self._groups = UnendingGroups(Rule(unending(agent), reads), bool(agent.history))
        self._intake = RebuildIntake(known.partition, agent, ids, known, latest)
        self._decided: dict[GroupNumber, Event] = {}
        self._again: dict[bytes, list[int]] = {}  # first offsets of the decided fires of a key
        self._settled: set[bytes] = set()  # keys with a result that ended within the records that were read
        self._open, self._crossing = dict(known.results), dict(known.crossing)
        self._gaps, self._unsure = list[int](), list[int]()  # offsets

    def take(self, records: Sequence[Record]) -> None:
        """Raises DecodeStopped where the file says stop."""
        groups = self._groups
        for record in records:
            for run in self._intake.new(record, groups):
                self._accept(run)
                self._drain()
                key = next((key for key, state in self._groups.touched.items() if state is not None), None)
                if key is not None and record.offset() in self._known.results:
                    self._begin(key, run)
                if key is not None:
                    self._judge(key, groups.states[key], record)
            self._drain()
            groups.touched.clear()
            groups.added.clear()
        self._intake.settle()

    def _accept(self, run: Sequence[Record]) -> None:
        accept(self._groups, run, self._intake.now)

    def _begin(self, key: bytes, run: Sequence[Record]) -> None:
        """A known result begins with this record, so earlier groups of its key had ended."""
        for first in self._again.pop(key, ()):
            del self._decided[first]
            self._gap(first)
        state = self._groups.states[key]
        if state[COUNT] > 1:
            self._gap(state[FIRST])
            self._groups.drop(key)
            self._accept(run)

    def _gap(self, first: int) -> None:
        if first >= self._reach.results:
            self._gaps.append(first)

    def _judge(self, key: bytes, state: GroupState, record: Record) -> None:
        """Ends the group if it ends with this record, by its known result, or else by the rule."""
        known, offset = self._open.get(state[FIRST]), record.offset()
        crosses = self._crossing.get(key, -1)
        if known is not None:
            if offset == known.last and state[COUNT] == known.records:
                del self._open[state[FIRST]]
                self._settle(key)
        elif offset <= crosses:
            if offset == crosses:
                del self._crossing[key]
                self._settle(key)
        elif (reason := self._ends(key, state, record)) is not None:
            self._groups.fire(key, reason, self._intake.now)
            self._drain()

    def _settle(self, key: bytes) -> None:
        self._groups.drop(key)
        self._settled.add(key)

    def _ends(self, key: bytes, state: GroupState, record: Record) -> str | None:
        rule = self._rule
        if state[COUNT] >= rule.completion.count:
            return "count"
        if rule.until is not None and record.value() is not None and rule.until(rule.reader.read(record)):
            return "until"
        if rule.ending is not None and rule.ending.holds(record, state, self._groups.bags.get(key, [])):
            return "until"
        return "limit" if state[COUNT] >= rule.completion.most and rule.aggregation.on_full == "fire-oldest" else None

    def _drain(self) -> None:
        """Collects the new decisions."""
        for event in self._groups.drain():
            if not isinstance(event, Refused):
                fire = event if isinstance(event, Fire) else event.fire
                if fire.first not in self._decided:  # the event of its end comes first
                    self._again.setdefault(fire.key, []).append(fire.first)
                self._decided[fire.first] = event
            else:
                offset = event.record.offset()
                self._decided[offset] = event
                if offset < self._reach.letters:
                    self._unsure.append(offset)

    def finish(self, offset: int) -> Rebuilt:
        """The result. The caller has passed all records below `offset`."""
        groups, intake, known = self._groups, self._intake, self._known
        tails = [(key, state[FIRST]) for key, state in groups.states.items()]
        tails += [(event.key, first) for first, event in self._decided.items() if isinstance(event, Fire)]
        doubtful = sorted([*self._unsure, *(in_order(first)[0] for key, first in tails if self._doubtful(key, first))])
        lost = sorted([*(in_order(number)[0] for number in self._open), *self._crossing.values()])
        return Rebuilt(
            known.partition,
            offset,
            intake.epoch,
            groups,
            intake.senders,
            intake.dedupe.seen if intake.dedupe else None,
            self._decided,
            intake.records,
            len(known.results) + len(known.crossing),
            doubtful,
            sorted(self._gaps),
            lost,
        )

    def _doubtful(self, key: bytes, first: int) -> bool:
        """Whether the group may have had a result that is gone. An earlier result of its key that is still there
        excludes that, because then all later results of that partition are there."""
        return first < self._reach.results and (self._reach.mixed or key not in self._settled)


def unending(agent: Agent) -> Agent:
    """The agent with its rule, but without any end of groups. The limits of one group's bytes stay."""
    aggregation = agent.aggregation or Aggregation()
    largest = min(aggregation.max_bytes, aggregation.max_buffered_bytes)
    rule = replace(
        aggregation,
        count=None,
        until=aggregation.until if isinstance(aggregation.until, str) else None,  # it may refuse a record
        on_timeout="discard",
        max_items=maxsize,
        max_groups=maxsize,
        max_bytes=largest,
        max_buffered_bytes=maxsize,
    )
    return replace(agent, aggregation=rule)


def unaccountable(agent: Agent) -> str | None:
    """The reason why the topics do not show what this agent did; None: they show it."""
    if agent.scope == "shared":
        return "its groups span partitions (scope: shared)"
    if agent.handler is not None and not agent.history:
        return "what its handler did is not in a topic"
    if agent.handler is not None and agent.handler.concurrency:
        return "its handler has concurrency: which of the groups that ended it has handled is lost with the store"
    if agent.handler is not None and agent.handler.then == "park":
        told_by = "the history has their ends, but only the lost store had those that waited for the handler"
        return f"its handler parks groups (then: park): {told_by}; with then: dead-letter, a topic has them"
    if agent.lookups and not agent.history and (agent.having or (agent.routes and agent.unrouted == "drop")):
        return "which results `having` or a route leaves out depends on rows of the store (lookup), which is lost"
    if agent.lookups and agent.forwards:
        return "it adds rows of the store (lookup), which is lost, to records"
    return None


def refused(agent: Agent, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"agent {agent.name} cannot be rebuilt: {why}; restore the store from a backup, or start the agent under "
        "another name"
    )
