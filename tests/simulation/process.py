"""One worker of a simulation, and the means by which it reaches the world."""

from typing import Any

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.testing.log import LogInput
from tests.simulation.kafka import Input, Producer
from tests.simulation.store import Reached
from tests.simulation.turned import HandlerThreads, Threads, Turned

APP = "app"


class Process(Turned):
    """One worker of one agent, as it would be a process of its own."""

    def __init__(self, world: Any, agent: Agent, number: int) -> None:
        super().__init__(world)
        self.agent, self.number, self.group = agent, number, world.groups[agent.name]
        self.next = agent  # what the file says when it is started again
        self.input: Any = Input(LogInput(world.log, f"{APP}.{agent.name}"), self)
        self.producer, self.store = Producer(self), Reached(world.store, self)
        store: Any = self.store
        parts = WorkerDependencies(
            store,
            self.input,
            self.producer,
            world.clock,
            Meter(),
            world.chance.random,
            world.token,
            lambda report: None,
            pool=self._pool,
            time=world.clock.time,
            mac=Mac(APP, (b"k" * 32,)),
        )
        self.deployed = world.deployed  # what it read when it was started
        rule = self.deployed.agent(self.deployed.number) or agent
        choice = "flush" if world.plan.kind == "changed" else "refuse"
        app = App(APP, "memory://", (rule,))
        self.worker: Worker = build(app, rule, number, self.name, choice, parts, self.deployed)

    def _pool(self, size: int) -> Pool:
        self.threads.append(Threads(self.world) if self.agent.scope == "shared" else HandlerThreads(self, size))
        return self.threads[-1]

    @property
    def marks_cleared(self) -> bool:
        return not self.worker._claims._clearing._waiting

    def turn(self) -> None:
        self.worker.turn()

    def stop(self) -> None:
        self.worker.run(lambda: True, drain=2.0)

    def let_go(self) -> None:
        for threads in self.threads:
            threads.finish()
        self.worker._processor.finish()
        self.worker._claims.let_go()

    def again(self) -> "Process":
        return Process(self.world, self.next, self.number)

    def believes(self, partition: Partition) -> bool:
        """Does it hold the partition, as far as it knows?"""
        return self.agent.name == partition.agent and (partition.topic, partition.number) in self.worker._owners
