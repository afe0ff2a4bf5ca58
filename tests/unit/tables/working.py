"""An agent over a table that works: both halves over a log and a store, and their replays."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App, Emit
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.rebuilding.rebuild_plan import Planned, Plans, RebuildRange
from sluicegate.streams.operations.replaying.shadowing import Shadowing, ShadowRange
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.testing.hashing import partition_of
from sluicegate.streams.testing.log import LogProducer
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, distinct, memory
from tests.unit.engine.rebuilding import ANNE, EPOCH, PLAIN, LogHistory
from tests.unit.shadow.scene import ALL, NoWatch
from tests.unit.tables.database import Database, Event, in_order
from tests.unit.tables.scene import PARTITIONS, an_agent, both

LATER = 0.6  # seconds: delivery reports are recorded


class Working:
    """`halves` are the agent that keeps the rows, and the one that has the groups. Workers die at random."""

    def __init__(self, seed: int, emit: Emit, having: str = "") -> None:
        agent = replace(an_agent(), having=having)
        assert agent.aggregation is not None
        agent = replace(agent, aggregation=replace(agent.aggregation, emit=emit))
        self.halves, self.chance = both(agent), Random(seed)
        self.app = App("app", "memory://", self.halves)
        self.database, self.clock, self.log = Database(seed), ManualClock(), Log()
        for topic in ("orders", "by-customer", "totals", "dead"):
            self.log.create(topic, PARTITIONS)
        self.store: MemoryStore = memory(self.clock)
        self.start()

    def start(self) -> None:
        """Two workers begin; those that ran before are gone, as after kill -9."""
        self.drivers = [
            Driver(half, self.store, self.log, self.clock).give(*range(PARTITIONS)).turns() for half in self.halves
        ]

    def play(self, steps: int = 45) -> None:
        """What the database does, in portions."""
        begin = len(self.database.events)
        self.database.play(steps)
        events = self.database.events[begin:]
        while events:
            many = self.chance.randint(1, 9)
            self.feed(events[:many])
            events = events[many:]
            self.turn()
            self.later(round(self.chance.uniform(0.05, 2.0), 3))
            if self.chance.random() < 0.1:
                self.start()
        for _ in range(4):
            self.later(LATER)

    def feed(self, events: Sequence[Event]) -> None:
        for key, value in events:
            number = partition_of(key.encode(), PARTITIONS)
            self.log.append("orders", number, key.encode(), value, None, int((self.clock.now + EPOCH) * 1000))

    def turn(self) -> None:
        for driver in self.drivers:
            driver.turns(3)

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.turn()

    def lose_rows(self, number: int) -> None:
        """From now on, the outbox of the half keeps what it has to send. It is lost with the store."""
        self.drivers[number].producer.fate = lambda row: "lost"

    def lose(self) -> None:
        """The store is gone, and its workers."""
        self.store = memory(self.clock)

    def rows(self) -> set[str]:
        """The primary keys that the first half knows."""
        first, known = self.halves[0], set[str]()
        for number in range(PARTITIONS):
            partition = Partition("app", first.name, "orders", number)
            view = self.store.read(partition)
            assert view is not None
            known |= {key.decode() for key in contents_of(first, partition, view).groups.states}
        return known

    def sent(self) -> list[LogRecord]:
        """The changes and the results."""
        return [m for topic in ("by-customer", "totals") for part in self.log.topics[topic] for m in part]

    def newest(self) -> dict[str, dict[str, Any]]:
        """The newest results of the keys that have rows."""
        names = {field.name for field in self.halves[1].aggregation.compute}  # type: ignore[union-attr]
        last = {message.k: msgspec.json.decode(message.v or b"") for message in distinct(self.log, "totals")}
        return {
            key.decode(): in_order({name: result[name] for name in names})
            for key, result in last.items()
            if key is not None and not result["final"]
        }

    def shadow(self, half: Agent, rule: Agent | None = None, wanted: ShadowRange = ALL) -> Shadowed:
        history = LogHistory(self.log, f"app.{half.name}")
        return Shadowing(self.app, half, self.store, history, wanted, NoWatch()).compare(rule or half)

    def rebuild(self, half: Agent, wanted: RebuildRange = PLAIN) -> list[Planned]:
        """As the command does it."""
        history, producer = LogHistory(self.log, f"app.{half.name}"), LogProducer(self.log)
        plans = Plans(self.app, half, self.store, history, producer, wanted)
        planned = plans.plan(self.clock.now + EPOCH, lambda text: None)
        for plan in planned:
            plans.carry_out(plan, ANNE)
        return planned
