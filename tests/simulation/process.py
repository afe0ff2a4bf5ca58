"""One worker of a simulation, and the means by which it reaches the world."""

from typing import Any

from streams.agent import Agent, App
from streams.engine.build import build
from streams.engine.pool import Inline, Pool
from streams.engine.worker import Parts, Worker
from streams.observe.metrics import Meter
from streams.testing.log import LogInput
from streams.values import Partition
from tests.simulation.dispatch.threads import Threads
from tests.simulation.kafka import Input, Producer
from tests.simulation.store import Reached

APP = "app"


class Process:
    """One worker of one agent, as it would be a process of its own."""

    def __init__(self, world: Any, agent: Agent, number: int) -> None:
        self.world, self.agent, self.number = world, agent, number
        self.group = world.groups[agent.name]
        self.name = world.token()
        self.alive, self.paused, self.doomed, self.locked = True, False, False, False
        self.input: Any = Input(LogInput(world.log, f"{APP}.{agent.name}"), self)
        self.producer, self.store = Producer(self), Reached(world.store, self)
        self.threads: list[Threads] = []
        store: Any = self.store
        parts = Parts(
            store, self.input, self.producer, world.clock, Meter(), world.chance.random, world.token, lambda report: None,
            pool=self._pool, time=world.clock.time,
        )  # fmt: skip
        self.worker: Worker = build(App(APP, "memory://", (agent,)), agent, number, self.name, "refuse", parts)

    def _pool(self, size: int) -> Pool:
        """Slow handlers are called inline."""
        if self.agent.scope != "shared":
            return Inline(size)
        self.threads.append(Threads(self.world))
        return self.threads[-1]

    @property
    def able(self) -> bool:
        return self.alive and not self.paused

    @property
    def acquitted(self) -> bool:
        """Has the store taken back all names that it was asked to?"""
        return not self.worker._claims._acquittals._waiting

    def believes(self, partition: Partition) -> bool:
        """Does it hold the partition, as far as it knows?"""
        return self.agent.name == partition.agent and (partition.topic, partition.number) in self.worker._owners
