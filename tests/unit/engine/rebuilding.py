"""What the tests of `replay --rebuild` share: Kafka's past over a Log, losing a store, and rebuilding it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition, TopicFacts
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.cold_groups import whole
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.rebuilding.rebuild_plan import Planned, Plans, RebuildRange
from sluicegate.streams.testing.log import LogInput, LogProducer
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, header

ANNE = Person("anne@here", "the store was lost", "rebuild-token")
EPOCH = 1_700_000_000
PLAIN = RebuildRange()


class LogHistory:
    """Satisfies sluicegate.streams.operations.rebuilding.rebuild_plan.History."""

    def __init__(self, log: Log, group: str) -> None:
        self.log, self._input = log, LogInput(log, group)
        self.running = 0
        self.compact: list[str] = []

    def facts(self, topic: str, number: int) -> TopicFacts:
        return self._input.facts(topic, number)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return self._input.offset_at(topic, number, start)

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        low = self.log.low.get((topic, number), 0)
        while records := [m for m in self.log.after(topic, number, max(first, low), 7) if m.o < end]:
            first = records[-1].o + 1
            yield records

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        return [(self.log.low.get((topic, n), 0), self.log.high(topic, n)) for n in range(self.log.count(topic))]

    def compacted(self, topics: Sequence[str]) -> list[str]:
        return [topic for topic in topics if topic in self.compact]

    def members(self) -> int:
        return self.running

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        self._input.inform(topic, number, offset, metadata)


def plans(
    agent: Agent, store: Store, log: Log, wanted: RebuildRange = PLAIN, history: LogHistory | None = None
) -> Plans:
    app = App("app", "memory://", (agent,))
    return Plans(app, agent, store, history or LogHistory(log, f"app.{agent.name}"), LogProducer(log), wanted)


def rebuild(agent: Agent, store: Store, log: Log, clock: ManualClock, wanted: RebuildRange = PLAIN) -> list[Planned]:
    """As the command does it."""
    rebuilds = plans(agent, store, log, wanted)
    rebuilds.inform_again()
    planned = rebuilds.plan(clock.now + EPOCH, lambda text: None)
    for plan in planned:
        rebuilds.carry_out(plan, ANNE)
    return planned


def feed_at(log: Log, clock: ManualClock, key: str, value: bytes, number: int = 0) -> None:
    log.append("in", number, key.encode(), value, None, int((clock.now + EPOCH) * 1000))


def state(agent: Agent, store: Store, number: int = 0) -> tuple[int, dict[bytes, Any]]:
    """Offset, and of each open group count, first and last offset, and what it has computed."""
    partition = Partition("app", agent.name, "in", number)
    view = store.read(partition)
    assert view is not None
    open_groups = whole(contents_of(agent, partition, view), store)
    groups = open_groups.groups
    return open_groups.claim.offset, {
        key: (s[0], s[1], s[2], open_groups.rule.values(s, groups.bags.get(key, [])))
        for key, s in groups.states.items()
    }


def emitted_twice(messages: Sequence[LogRecord]) -> list[str]:
    """Ids that were sent as more than one row."""
    rows: dict[str, set[tuple[Any, Any]]] = {}
    for m in messages:
        rows.setdefault(cast(str, header(m, "sluicegate-id")), set()).add(
            (header(m, "sluicegate-shard"), header(m, "sluicegate-seq"))
        )
    return [name for name, copies in rows.items() if len(copies) > 1]


def amounts(log: Log, clock: ManualClock, keys: str, number: int = 0, first: int = 0) -> None:
    for n, key in enumerate(keys, first):
        feed_at(log, clock, key, json.dumps({"amount": n}).encode(), number)


def worked(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock) -> Driver:
    """A worker that did all that there is, and told Kafka so."""
    driver = Driver(agent, store, log, clock).give(*range(log.count("in"))).turns()
    return driver.later(0.5).turns()
