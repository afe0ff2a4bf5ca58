"""Converts a sealed batch of the shared buffer to outbox messages: its result, or the outputs of its handler."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from operator import attrgetter
from threading import Lock
from typing import Any

from msgspec import structs

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import (
    COUNT_LOWERED,
    WHOLE,
    BadItem,
    Cancelled,
    Event,
    Fire,
    Refused,
    Scheduled,
    Unhandled,
)
from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import DEAD_MEMBERS, LAST, OF_ROW
from sluicegate.streams.contracts.ids import retried_id
from sluicegate.streams.contracts.leased_values import EarlyPast, OpenBatch, SealedBatch
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import ConfigurationError, HandlerStopped, SluicegateError
from sluicegate.streams.handlers.failures import Failures, ProcessEnded
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.retried import decided
from sluicegate.streams.handlers.values import NO_ROWS, IsCancelled
from sluicegate.streams.outbox.rows import AnyPartition, Rows
from sluicegate.streams.outbox.sizes import size
from sluicegate.streams.shared.shared_records import RecordOrigin, SharedRecord, unpacked
from sluicegate.streams.shared.shared_retries import RetriedGroup, is_letter, is_retried, lacks_fields, members_of
from sluicegate.streams.shared.shared_retries import unpacked as retried
from sluicegate.streams.shared.shared_rows import SharedRows

ENDLESS = 1 << 62
_taken_at = attrgetter("common.taken_at")


def aggregation_of(agent: Agent) -> Aggregation:
    """The agent's aggregation. Raises ConfigurationError when it has none."""
    if agent.aggregation is None:
        raise ConfigurationError(f"agent {agent.name}: scope shared needs an aggregation")
    return agent.aggregation


def endless(agent: Agent) -> Agent:
    """The agent with a rule that ends no groups, because the buffer ends them."""
    timeless = replace(aggregation_of(agent), since_first=None, since_last=None, deadline=None, until=None)
    rule = replace(timeless, count=None, max_items=ENDLESS, on_full="fire-oldest")
    return replace(agent, aggregation=rule)


class HandlerError(Exception):
    """An error of the handler for one group of a batch."""

    def __init__(self, fire: Fire, identity: str, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.fire, self.identity, self.error = fire, identity, error


@dataclass(frozen=True, slots=True)
class Made:
    """The messages to commit with the end of a batch, and the values for the metrics: events, outcomes of expressions,
    and records that are left out without a dead letter."""

    messages: Sequence[OutboxMessage]
    events: Sequence[Event]
    answers: Mapping[tuple[str, str], int]
    skipped: int


class SharedFiring:
    """Pure, except for the handler. Thread-safe. A message may have at most `most` bytes."""

    def __init__(
        self,
        app: str,
        agent: Agent,
        reads: Codec,
        writes: Codec,
        most: int,
        handling: Handling | None,
        rows: SharedRows | None = None,
    ) -> None:
        self._count = aggregation_of(agent).count or inf
        self._rule = Rule(endless(agent), reads)
        self._app, self._agent, self._writes, self._most, self._handling = app, agent, writes, most, handling
        self._looked_up = rows
        self._one_at_a_time = Lock()  # an expression may be used by one thread at a time
        self._known_rows: dict[tuple[str, str, int], Rows] = {}

    def made(self, batch: SealedBatch, now: float, known: Failures, cancelled: IsCancelled) -> Made:
        """The messages of a batch at the time `now`, in seconds since 1970. Raises HandlerError, HandlerFailed while a
        group waits for its row, LookupFailed and ProduceStopped."""
        if is_retried(batch.group):
            return self._again(retried(batch.entries), known, cancelled)
        records = unpacked(batch.entries)
        messages: list[OutboxMessage] = []
        counted: list[Event] = []
        groups = self._groups(batch, records, now)
        for event in groups.drain():
            if isinstance(event, Refused):
                record = records[event.record.offset()]
                real = replace(event, record=record.real)
                messages += self._refused(real, record)
                counted.append(real)
                continue
            group = event if isinstance(event, Fire) else event.fire
            first, last = records[group.first].origin, records[group.last].origin
            fire = structs.replace(group, first=first.offset, last=last.offset)
            if isinstance(event, Unhandled):
                events: Sequence[Event] = [replace(event, fire=fire)]
                counted += events
            else:
                events = self._handled(fire, first, known, cancelled, groups.outcomes)
                counted += [fire, *(event for event in events if isinstance(event, Unhandled | BadItem))]
            members = partial(members_of, records[group.first : group.last + 1])
            messages += [self._message(row, last, members) for row in self._rows(events, first)]
        return Made(messages, counted, groups.outcomes, groups.counts["skipped"])

    def _again(self, group: RetriedGroup, known: Failures, cancelled: IsCancelled) -> Made:
        """The messages of a group that an operator retried. Their ids are derived from the retry: the outbox may still
        have the messages of the first run, and drops a message with the same id."""
        outcomes = Counter[tuple[str, str]]()
        handled = self._handling is not None
        fire = group.fire if handled or group.fire.again is not None else structs.replace(group.fire, again=WHOLE)
        messages: list[OutboxMessage] = []
        counted: list[Event] = []
        with self._one_at_a_time:
            items = decided(fire, self._rule, handled, outcomes)
        for item in items:
            events: Sequence[Event] = [item]
            if isinstance(item, Fire):
                events = self._handled(item, group.first, known, cancelled, outcomes)
            counted += [event for event in events if isinstance(event, Unhandled | BadItem)]
            rows = self._rows(events, group.first)
            messages += [of_retry(self._message(row, group.last, lambda: group.members), group.run) for row in rows]
        return Made(messages, counted, outcomes, 0)

    def forget(self, batch: SealedBatch) -> None:
        """Another worker has the batch. If it comes back, its groups wait for their rows from the start."""
        if self._looked_up is not None:
            again = is_retried(batch.group)
            origins = [retried(batch.entries).first] if again else [entry.origin for entry in unpacked(batch.entries)]
            self._looked_up.forget(origins)

    def given_up(self, batch: SealedBatch, error: str) -> Made:
        """The messages of a batch at which the engine failed three times: each record becomes a dead letter."""
        if is_retried(batch.group):
            return self._retry_given_up(retried(batch.entries), error)
        why = f"the engine failed three times at the group of this record; please report it: {error}"
        records = unpacked(batch.entries)
        events = [Refused(record.real, "crash", "crash", why) for record in records]
        pairs = zip(events, records, strict=True)
        return Made([made for event, record in pairs for made in self._refused(event, record)], events, {}, 0)

    def _retry_given_up(self, group: RetriedGroup, error: str) -> Made:
        why = f"the engine failed three times at this group; please report it: {error}"
        event = Unhandled(group.fire, why, DEATHS, "crash", stage="crash")
        rows = self._rows([event], group.first)
        return Made([self._message(row, group.last, lambda: group.members) for row in rows], [event], {}, 0)

    def early(self, batch: OpenBatch, now: float) -> Made:
        """The messages of an early result of a group that stays open: none if the last one covers all records, or if
        the group will end with several results, because it exceeds `max_bytes`. Refused records become dead letters
        when the group ends."""
        if batch.past.whole or is_retried(batch.group):
            return Made((), (), {}, 0)
        records = unpacked(batch.entries)
        with self._one_at_a_time:
            groups = self._filled(records, batch.past, now)
            several = any(isinstance(event, Fire) for event in groups.drain())
            groups.outcomes.clear()  # the answers for the records count when the group ends
            for key in () if several else list(groups.states):
                groups.early.tell(key, now)
        fires: list[Event] = []
        messages: list[OutboxMessage] = []
        for group in groups.drain():
            if isinstance(group, Fire):
                first, last = records[group.first].origin, records[group.last].origin
                fire = structs.replace(group, first=first.offset, last=last.offset)
                fires.append(fire)
                messages += [self._message(row, last) for row in self._rows([fire], first)]
        return Made(messages, fires, groups.outcomes, 0)

    def _filled(self, records: Sequence[SharedRecord], past: EarlyPast, now: float) -> Groups:
        """The groups of these records. They continue the count of the early results, from the first record on: a record
        may end a part of its group by `max_bytes`."""
        groups, taken_at, begin = Groups(self._rule), min(map(_taken_at, records), default=now), 0
        while past.results and begin < len(records) and not groups.states:
            accept(groups, records[begin : begin + 1], taken_at)
            begin += 1
        groups.early.past |= dict.fromkeys(groups.states, (past.results, 0, None))
        accept(groups, records[begin:], taken_at)
        alone = len(groups.states) == 1 and not groups.events
        for key, state in groups.states.items() if past.results else ():
            groups.early.past[key] = (past.results, state[COUNT] if past.whole and alone else 0, None)
        return groups

    def _groups(self, batch: SealedBatch, records: Sequence[SharedRecord], now: float) -> Groups:
        """The groups of the batch. Their events are one fire, unless the rule has changed since, or the group exceeds
        `max_bytes`."""
        reason = batch.reason
        if reason == "count" and len(records) != self._count:
            reason = "limit" if len(records) < self._count else COUNT_LOWERED
        with self._one_at_a_time:
            groups = self._filled(records, batch.past, now)
            for key in list(groups.states):
                groups.fire(key, reason, now)
            return groups

    def _handled(
        self,
        fire: Fire,
        first: RecordOrigin,
        known: Failures,
        cancelled: IsCancelled,
        outcomes: Counter[tuple[str, str]],
    ) -> Sequence[Event]:
        handling, rows = self._handling, NO_ROWS
        if self._looked_up is not None:
            decided = self._looked_up.of(fire, first, outcomes)
            if not isinstance(decided, Mapping):
                return decided
            rows = decided
        if handling is None:
            return [fire]
        identity = self._of(first).fire_id(fire.first)
        letters, rest = handling.remainder(fire, identity, known)
        if not isinstance(rest, Fire):
            return letters
        if known.ended:
            raise HandlerError(rest, identity, ProcessEnded())
        attempt = known.attempt(identity)
        try:
            sent = handling.call(rest, identity, attempt, cancelled, rows)
        except SluicegateError:
            raise
        except Exception as error:
            why = handling.isolated(rest, error, identity, attempt, cancelled, rows)
            raise HandlerError(rest, identity, why) from error
        if any(isinstance(event, Scheduled | Cancelled) for event in sent):
            raise HandlerStopped(
                f"{handling.where(fire)}: schedule() and cancel() need scope partition; leave them out, and restart"
            )
        return [*letters, *sent]

    def _refused(self, refused: Refused, record: SharedRecord) -> list[OutboxMessage]:
        return [self._message(row, record.origin) for row in self._rows([refused], record.origin)]

    def _message(
        self, row: OutboxRow, last: RecordOrigin, members: Callable[[], bytes | None] | None = None
    ) -> OutboxMessage:
        """The message of a row. The relay adds its own id, shard and number headers. The last record may come from
        another partition than the first. `members` returns the places of the records of a group."""
        end = f"{last.topic}/{last.partition}/{last.offset}".encode()
        headers = [(name, end if name == LAST else value) for name, value in row.headers if name not in OF_ROW]
        if members is not None and lacks_fields(row) and (places := members()) is not None:
            longer = [*headers, (DEAD_MEMBERS, places)]
            headers = longer if size(row.key, row.value, longer) <= self._most else headers
        return OutboxMessage(row.topic, row.key, row.value, headers, row.id)

    def _rows(self, events: Sequence[Event], first: RecordOrigin) -> list[OutboxRow]:
        return self._of(first).make(events)

    def _of(self, origin: RecordOrigin) -> Rows:
        place = origin.topic, origin.topic_id, origin.partition
        if place not in self._known_rows:
            facts: Any = AnyPartition()
            partition = Partition(self._app, self._agent.name, origin.topic, origin.partition)
            made = Rows(partition, self._agent, self._writes, facts, self._most)
            made.begin("", 0, origin.topic_id)
            self._known_rows[place] = made
        return self._known_rows[place]


def of_retry(made: OutboxMessage, run: str) -> OutboxMessage:
    """The message with an id derived from this retry, unless it is a dead letter."""
    return made if is_letter(made.headers) else replace(made, id=retried_id(made.id, run))
