"""Turns a sealed batch of the shared buffer into outbox messages: its result, or the outputs of its handler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    BadItem,
    Cancelled,
    Event,
    Fire,
    Refused,
    Scheduled,
    Unhandled,
)
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import LAST, OF_ROW
from sluicegate.streams.contracts.leased_values import SealedBatch
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import ConfigurationError, HandlerStopped, SluicegateError
from sluicegate.streams.handlers.failures import Failures, ProcessEnded
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.values import IsCancelled
from sluicegate.streams.outbox.rows import AnyPartition, Rows
from sluicegate.streams.shared.shared_records import SharedRecord, unpacked

ENDLESS = 1 << 62
_taken_at = attrgetter("common.taken_at")


def aggregation_of(agent: Agent) -> Aggregation:
    """The agent's aggregation. Raises ConfigurationError when it has none."""
    if agent.aggregation is None:
        raise ConfigurationError(f"agent {agent.name}: scope shared needs an aggregation")
    return agent.aggregation


def endless(agent: Agent) -> Agent:
    """The agent with a rule that ends no group, because the buffer ends groups."""
    rule = replace(
        aggregation_of(agent), count=None, since_first=None, since_last=None, max_items=ENDLESS, on_full="fire-oldest"
    )
    return replace(agent, aggregation=rule)


class HandlerError(Exception):
    """An error of the handler for one group of a batch."""

    def __init__(self, fire: Fire, identity: str, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.fire, self.identity, self.error = fire, identity, error


@dataclass(frozen=True, slots=True)
class Made:
    """The messages to commit with the end of a batch, and the numbers for the metrics: events, answers of expressions,
    and records that are left out without a dead letter."""

    messages: Sequence[OutboxMessage]
    events: Sequence[Event]
    answers: Mapping[tuple[str, str], int]
    skipped: int


class SharedFiring:
    """Pure, except for the handler. Any thread may call. A message may have at most `most` bytes."""

    def __init__(
        self, app: str, agent: Agent, reads: Codec, writes: Codec, most: int, handling: Handling | None
    ) -> None:
        self._count = aggregation_of(agent).count or inf
        self._rule = Rule(endless(agent), reads)
        self._app, self._agent, self._writes, self._most, self._handling = app, agent, writes, most, handling
        self._one_at_a_time = Lock()  # an expression may be used by one thread at a time
        self._rows: dict[tuple[str, str, int], Rows] = {}

    def made(self, batch: SealedBatch, now: float, known: Failures, cancelled: IsCancelled) -> Made:
        """The messages of a batch at the time `now`, in seconds since 1970. Raises HandlerError and ProduceStopped."""
        records = unpacked(batch.entries)
        messages: list[OutboxMessage] = []
        counted: list[Event] = []
        groups = self._groups(batch, records, now)
        for event in groups.drain():
            if isinstance(event, Refused):
                record = records[event.record.offset()]
                real = replace(event, record=record.real)
                messages += self._messages([real], record, record)
                counted.append(real)
                continue
            group = event if isinstance(event, Fire) else event.fire
            first, last = records[group.first], records[group.last]
            fire = structs.replace(group, first=first.origin.offset, last=last.origin.offset)
            if isinstance(event, Unhandled):
                unanswered = replace(event, fire=fire)
                messages += self._messages([unanswered], first, last)
                counted.append(unanswered)
                continue
            events = self._handled(fire, first, known, cancelled)
            messages += self._messages(events, first, last)
            counted += [fire, *(each for each in events if isinstance(each, Unhandled | BadItem))]
        return Made(messages, counted, groups.outcomes, groups.counts["skipped"])

    def given_up(self, batch: SealedBatch, error: str) -> Made:
        """The messages of a batch at which the engine failed three times: each record as a dead letter."""
        why = f"the engine failed three times at the group of this record; please report it: {error}"
        records = unpacked(batch.entries)
        events = [Refused(record.real, "crash", "crash", why) for record in records]
        pairs = zip(events, records, strict=True)
        messages = [message for event, record in pairs for message in self._messages([event], record, record)]
        return Made(messages, events, {}, 0)

    def _groups(self, batch: SealedBatch, records: Sequence[SharedRecord], now: float) -> Groups:
        """Their events are one fire, unless the rule has changed since, or the group exceeds `max_bytes`."""
        reason = batch.reason
        if reason == "count" and len(records) != self._count:
            reason = "limit" if len(records) < self._count else COUNT_LOWERED
        groups = Groups(self._rule)
        with self._one_at_a_time:
            accept(groups, records, min(map(_taken_at, records), default=now))
            for key in list(groups.states):
                groups.fire(key, reason, now)
            return groups

    def _handled(self, fire: Fire, first: SharedRecord, known: Failures, cancelled: IsCancelled) -> Sequence[Event]:
        handling = self._handling
        if handling is None:
            return [fire]
        identity = self._of(first).fire_id(fire.first)
        letters, rest = handling.left(fire, identity, known)
        if not isinstance(rest, Fire):
            return letters
        if known.ended:
            raise HandlerError(rest, identity, ProcessEnded())
        attempt = known.attempt(identity)
        try:
            sent = handling.call(rest, identity, attempt, cancelled)
        except SluicegateError:
            raise
        except Exception as error:
            raise HandlerError(rest, identity, handling.isolated(rest, error, identity, attempt, cancelled)) from error
        if any(isinstance(event, Scheduled | Cancelled) for event in sent):
            raise HandlerStopped(
                f"{handling.where(fire)}: schedule() and cancel() need scope partition; leave them out, and restart"
            )
        return [*letters, *sent]

    def _messages(self, events: Sequence[Event], first: SharedRecord, last: SharedRecord) -> list[OutboxMessage]:
        return [_message(row, last) for row in self._of(first).make(events, self._rule.aggregation.on_timeout)]

    def _of(self, record: SharedRecord) -> Rows:
        origin = record.origin
        place = origin.topic, origin.topic_id, origin.partition
        if place not in self._rows:
            facts: Any = AnyPartition()
            partition = Partition(self._app, self._agent.name, origin.topic, origin.partition)
            made = Rows(partition, self._agent, self._writes, facts, self._most)
            made.begin("", 0, origin.topic_id)
            self._rows[place] = made
        return self._rows[place]


def _message(row: OutboxRow, last: SharedRecord) -> OutboxMessage:
    """The message of a row. The relay adds its own id, shard and number headers. The last record may come from another
    partition than the first."""
    origin = last.origin
    end = f"{origin.topic}/{origin.partition}/{origin.offset}".encode()
    headers = [(name, end if name == LAST else value) for name, value in row.headers if name not in OF_ROW]
    return OutboxMessage(row.topic, row.key, row.value, headers, row.id)
