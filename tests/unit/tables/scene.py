"""Both halves of an agent over a table, turned by hand: cut anywhere, with crashes between commits."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Reducer
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.events import Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import fill, taken
from sluicegate.streams.config.checking.tables import halves
from sluicegate.streams.handlers.tables import KeepingRows
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.hashing import partition_of
from tests.unit.engine.driver import LogRecord
from tests.unit.tables.database import Event

COMPUTE = (
    Reducer("orders", "count"),
    Reducer("spent", "sum", "amount"),
    Reducer("average", "mean", "amount"),
    Reducer("least", "min", "amount"),
    Reducer("most", "max", "amount"),
    Reducer("spread", "variance", "amount"),
    Reducer("deviation", "stddev", "amount"),
    Reducer("by_status", "count_by", "status"),
    Reducer("states", "distinct", "status"),
    Reducer("amounts", "collect", "amount"),
    Reducer("ids", "collect", "id"),
    Reducer("rows", "collect"),
)
PARTITIONS = 2


def an_agent(compute: Sequence[Reducer] = COMPUTE, where: str = 'status != "cancelled"', **more: Any) -> Agent:
    rule = Aggregation(compute=tuple(compute), emit=Emit(on="change"), **more)
    return Agent("totals", ("orders",), rule, Destination("totals"), "dead", where=where, changes=("orders",))


def both(agent: Agent, key: str = "customer") -> tuple[Agent, Agent]:
    first, second = halves(agent, "totals.repartition", "by-customer", key)
    return first, second


class Half:
    """One partition of a half: what is committed of it."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.log, self.first, self.last = rule, dict[int, bytes](), 1, 0
        self.offset = 0
        self.restore()

    def restore(self) -> None:
        self.groups, self.senders = Groups(self.rule), ReceivedShards("in")
        self.changelog = Changelog(self.groups, self.first)
        kept = [self.log[n] for n in sorted(self.log) if self.first <= n <= self.last]
        self.changelog.replay(kept, self.first, self.last, self.senders)

    def commit(self, offset: int) -> None:
        entries, keep_from = self.changelog.entries(self.senders.changes(), lambda: self.senders.whole(0.0), 0.0)
        for entry in entries:
            self.last += 1
            self.log[self.last] = entry
        if keep_from is not None:
            self.log, self.first = {n: record for n, record in self.log.items() if n >= keep_from}, keep_from
        self.offset = offset


class Scene:
    """`told` are the results of each key in order, `refused` the reasons of dead letters."""

    def __init__(self, agent: Agent, rules: tuple[Rule, KeepingRows, Rule] | None = None) -> None:
        rule, self.keeping, second = rules or compiled(agent)
        self.tables = [Half(rule) for _ in range(PARTITIONS)]
        self.totals = [Half(second) for _ in range(PARTITIONS)]
        self.inputs: list[list[LogRecord]] = [[] for _ in range(PARTITIONS)]
        self.between: list[list[LogRecord]] = [[] for _ in range(PARTITIONS)]
        self.told: dict[str, list[Fire]] = {}
        self.refused: list[str] = []

    def send(self, events: Sequence[Event]) -> None:
        for key, value in events:
            number = partition_of(key.encode(), PARTITIONS)
            log = self.inputs[number]
            log.append(LogRecord("orders", number, len(log), key.encode(), value, None))

    def play(self, random: Random) -> None:
        """Until all is read: batches of any size of any partition, each committed, or lost with a crash."""
        while True:
            open_ = [
                *((self._keep, half, number) for number, half in enumerate(self.tables)),
                *((self._add, half, number) for number, half in enumerate(self.totals)),
            ]
            waiting = [group for group in open_ if group[1].offset < len(self._log(group[0], group[2]))]
            if not waiting:
                return
            step, half, number = random.choice(waiting)
            log = self._log(step, number)
            end = min(len(log), half.offset + random.randint(1, 9))
            step(half, number, log[half.offset : end], random.random() < 0.15)

    def _log(self, step: Any, number: int) -> list[LogRecord]:
        return (self.inputs if step == self._keep else self.between)[number]

    def _keep(self, half: Half, number: int, records: list[LogRecord], crashes: bool) -> None:
        items = self.keeping.read(half.groups, taken(half.groups, records))
        items += list(half.groups.drain())
        if crashes:
            half.restore()
            return
        half.commit(records[-1].offset() + 1)
        events = self.keeping.run(items, lambda offset: f"{number}/{offset}", None, ("orders", number))
        for event in events:
            if isinstance(event, Refused):
                self.refused.append(event.reason)
            else:
                to = partition_of(event.key, PARTITIONS)  # type: ignore[union-attr]
                log = self.between[to]
                log.append(LogRecord("by-customer", to, len(log), event.key, event.value, None))  # type: ignore[union-attr]

    def _add(self, half: Half, number: int, records: list[LogRecord], crashes: bool) -> None:
        fill(half.groups, records, 0.0)
        if crashes:
            half.restore()
            return
        for event in half.groups.drain():
            if isinstance(event, Fire):
                self.told.setdefault(event.key.decode(), []).append(event)
            else:
                self.refused.append(event.reason)  # type: ignore[union-attr]
        half.commit(records[-1].offset() + 1)

    def groups(self) -> dict[str, dict[str, Any]]:
        """The computed fields of each open group."""
        return {
            key.decode(): plain(half.rule.values(state, half.groups.bags.get(key, [])))
            for half in self.totals
            for key, state in half.groups.states.items()
        }

    def newest(self) -> dict[str, dict[str, Any]]:
        """The newest results of the keys that have rows."""
        return {key: plain(fires[-1].values) for key, fires in self.told.items() if not fires[-1].final}


def plain(values: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(values))
    return made


def compiled(agent: Agent, key: str = "customer") -> tuple[Rule, KeepingRows, Rule]:
    first, second = both(agent, key)
    return (
        Rule(first, formats.reads(first)),
        KeepingRows(first, formats.reads(first), 1_000_000),
        Rule(second, formats.reads(second)),
    )
