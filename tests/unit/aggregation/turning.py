"""A partition's aggregation turned by hand: batches, commits into a log in memory, crashes and restores from it."""

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from tests.unit.engine.driver import LogRecord

PLACE = Partition("app", "sums", "in", 3)
TOPIC_ID = str(uuid.UUID(int=7))


def an_agent(aggregation: Aggregation, form: str = "json", **more: Any) -> Agent:
    return Agent("sums", ("in",), aggregation, Destination("out"), "dead", format=form, **more)


def record(offset: int, key: bytes | None, value: bytes | None, headers: Any = None) -> LogRecord:
    return LogRecord("in", 3, offset, key, value, headers)


class Turned:
    """One partition. `fires[key]` as the oracle keeps them, with the fire's id before them; only what was committed."""

    def __init__(self, agent: Agent) -> None:
        self.rule = Rule(agent, codec(agent.format))
        self.ids = IdRule(agent, codec(agent.format)) if agent.dedupe else None
        self.log: dict[int, bytes] = {}
        self.first, self.last = 1, 0
        self.fires: dict[bytes, list[tuple[Any, ...]]] = {}
        self.refused: list[tuple[int, str]] = []
        self.dropped = self.split = 0
        self.restore()

    def restore(self) -> None:
        """As after a crash: what was not committed is gone."""
        self.groups, self.senders = Groups(self.rule), ReceivedShards("in")
        self.dedupe = DuplicateFilter(self.ids) if self.ids else None
        self.changelog = Changelog(self.groups, self.first, self.dedupe.seen if self.dedupe else None)
        kept = [self.log[n] for n in sorted(self.log) if self.first <= n <= self.last]
        self.changelog.replay(kept, self.first, self.last, self.senders)
        for key, reason in self.groups.judge():
            self.groups.fire(key, reason, 0.0)

    def expire(self, now: float, most: int = 3) -> None:
        while self.groups.expire(now, most) and self.groups.behind:
            pass

    def accept(self, records: Sequence[Any], now: float) -> None:
        self.expire(now)
        records = taken(self.groups, records)
        for run in self.dedupe.runs(records, now, self.groups) if self.dedupe else (records,):
            accept(self.groups, run, now)

    def commit(self, now: float) -> None:
        for event in self.groups.drain():
            if isinstance(event, Fire):
                self.fires.setdefault(event.key, []).append(told(event))
            else:
                self.refused.append((event.record.offset(), event.reason))
        entries, keep_from = self.changelog.entries(self.senders.changes(), lambda: self.senders.whole(now), now)
        self.split += max(0, len(entries) - 1)
        for entry in entries:
            self.last += 1
            self.log[self.last] = entry
        if keep_from is not None:
            self.dropped += sum(n < keep_from for n in self.log)
            self.log = {n: entry for n, entry in self.log.items() if n >= keep_from}
            self.first = keep_from


def told(fire: Fire) -> tuple[Any, ...]:
    """A fire as the oracle says it, with its values as a reader of the result finds them."""
    values = msgspec.json.decode(msgspec.json.encode(fire.values))
    identity = fire_ids(PLACE, TOPIC_ID)(fire.first)
    return (identity, fire.reason, fire.count, fire.first, fire.last, fire.opened, fire.closed, values)
