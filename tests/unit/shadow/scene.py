"""What the tests of a shadow share: an engine that works over a log, and its shadow."""

import json
import random
from collections.abc import Sequence
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.operations.replaying.shadowing import Shadowing, ShadowRange
from sluicegate.streams.shadow.verdicts import Shadowed
from tests.unit.engine.driver import Driver, Log, ManualClock, memory
from tests.unit.engine.rebuilding import LogHistory, feed_at

ALL = ShadowRange(since=0)


class NoWatch:
    """Satisfies sluicegate.streams.operations.replaying.shadowing.Watch, and counts."""

    def __init__(self) -> None:
        self.expected = self.seen = 0

    def expect(self, records: int) -> None:
        self.expected += records

    def read(self, records: int) -> None:
        self.seen += records


class Scene:
    """One agent that works: `takes` notes for each record the time at which its owner took it."""

    def __init__(self, agent: Agent, partitions: int = 1, seed: int = 0) -> None:
        self.agent, self.clock, self.log = agent, ManualClock(), Log()
        for topic in filter(None, ("in", "out", "dead", agent.history, *(to.topic for to in agent.routes))):
            self.log.create(topic, partitions)
        self.store: MemoryStore = memory(self.clock)
        self.random = random.Random(seed)
        self.partitions, self.taken = partitions, dict[tuple[int, int], float]()
        self.start()

    def start(self) -> None:
        """A worker begins; one that ran before is gone, as after kill -9."""
        self.driver = Driver(self.agent, self.store, self.log, self.clock).give(*range(self.partitions)).turns()

    def feed(self, key: str, value: Any, number: int = 0) -> None:
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        feed_at(self.log, self.clock, key, text, number)

    def turn(self, times: int = 3) -> None:
        """The worker takes all that is there, at one moment."""
        for number in range(self.partitions):
            for record in self.log.topics["in"][number]:
                self.taken.setdefault((number, record.o), self.clock.now + 1_700_000_000)
        self.driver.turns(times)

    def play(self, records: int, keys: str = "abcdef", kill: float = 0.0, most: float = 3.0, lag: float = 0.0) -> None:
        """Feeds amounts of random keys, in portions with pauses of up to `most` seconds; kills the worker at random.
        The worker takes a portion up to `lag` seconds after it was written."""
        fed = 0
        while fed < records:
            for _ in range(self.random.randint(1, 9)):
                key, amount = self.random.choice(keys), self.random.choice([1, 2, 3.5, 10, None])
                self.feed(key, {"amount": amount}, self.random.randrange(self.partitions))
                fed += 1
            self.clock.now += round(self.random.uniform(0, lag), 3) if lag else 0
            self.turn()
            self.driver.later(round(self.random.uniform(0.05, most), 3))
            self.turn()
            if self.random.random() < kill:
                self.start()
                self.turn(6)
        self.settle()

    def correlate(self, records: int, legs: Sequence[str]) -> None:
        """Feeds numbers of random keys to random legs, with pauses; kills the worker at random."""
        for number in range(records):
            key = str(self.random.randrange(number // 4 + 5))
            self.feed(key, {self.random.choice(legs): number})
            if self.random.random() < 0.4:
                self.turn()
                self.driver.later(round(self.random.uniform(0.1, 3.0), 3))
                self.turn()
            if self.random.random() < 0.05:
                self.start()
                self.turn(6)
        self.settle()

    def settle(self) -> None:
        """All reports are recorded."""
        for _ in range(4):
            self.turn()
            self.driver.later(0.6)
        self.turn()

    def shadow(
        self, rule: Agent | None = None, wanted: ShadowRange = ALL, only: bytes | None = None, live: Agent | None = None
    ) -> Shadowed:
        live = live or self.agent
        history = LogHistory(self.log, f"app.{live.name}")
        app = App("app", "memory://", (live,))
        return Shadowing(app, live, self.store, history, wanted, NoWatch()).compare(rule or live, only)


def figures(shadowed: Shadowed) -> dict[str, int]:
    """Verdicts on results that are not 0."""
    return {name: number for name, number in shadowed.results.counts.items() if number}


def all_identical(shadowed: Shadowed) -> bool:
    parts: Sequence[Any] = (shadowed.results, shadowed.dead, shadowed.open)
    return all(number == 0 for part in parts for name, number in part.counts.items() if name != "identical")
