"""One dispatcher of a simulation, and the means by which it reaches store and Kafka."""

from collections.abc import Callable
from typing import Any

from sluicegate.streams.agent import App, Outbox, Timeouts
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.dispatcher import Dispatcher, DispatcherDependencies
from tests.simulation.dispatch.plan import Plan
from tests.simulation.kafka import Producer
from tests.simulation.turned import Threads, Turned

LEASE = 2.0
ROOM = 12  # rows in the producer's queue
ACTS = frozenset({"claim", "claim_any", "mark", "release", "get_batch", "emit"})


class Via:
    """A contract of the store as one process reaches it."""

    def __init__(self, inner: Any, process: "Process") -> None:
        self._inner, self._process = inner, process

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return lambda *parts, **named: self._process.call(name, lambda: method(*parts, **named), parts)


class Process(Turned):
    """`lost`: the reply of the next call that acts is."""

    def __init__(self, world: Any, plan: Plan) -> None:
        super().__init__(world)
        self.plan, self.lost = plan, False
        self._last = True  # a process that is gone has one call on its way
        self.producer, self.threads = Producer(self), [Threads(world)]
        self.producer.room = ROOM
        self.outbox, self.timeouts = Via(world.store.outbox, self), Via(world.store.timeouts, self)
        outbox = Outbox(
            order="none" if plan.kind == "unordered" else "key",
            attempts=3,
            backoff_first=0.2,
            backoff_most=1.0,
            retention=1e6,
            poll=0.2,
            lease=LEASE,
        )
        timeouts = Timeouts(lease=LEASE, batch=20, poll=0.2) if plan.kind == "timeouts" else None
        store: Any = self
        parts = DispatcherDependencies(
            store,
            lambda: None,
            "the only one",
            self.producer,
            world.clock,
            world.clock.time,
            Meter(),
            world.chance.random,
            world.token,
            lambda report: None,
            self.threads[0],
        )
        self.dispatcher = Dispatcher(App("app", "memory://", (), outbox=outbox, timeouts=timeouts), parts)

    def turn(self) -> None:
        self.dispatcher.turn()

    def stop(self) -> None:
        self.dispatcher._drain(self.world.clock.now + 2.0)

    def again(self) -> "Process":
        return Process(self.world, self.plan)

    def call(self, name: str, act: Callable[[], Any], parts: tuple[Any, ...]) -> Any:
        world = self.world
        if not self.alive and not self._last:
            raise PersistenceError("this process is gone")
        self._last = self.alive
        if world.number < self.away:
            raise PersistenceError("the store does not answer: by the simulation")
        if name in ACTS and self.late:
            later, self.late = world.number + self.late, 0
            world.calls.append((later, name, act))
            raise PersistenceError("no answer, the bytes are under way: by the simulation")
        before = world.holder(parts[0]) if name == "claim" else None
        result = act()
        if name == "get_batch":
            world.looked(result)
        if before is not None and result is not None:
            world.took(self, parts[0], before)
        if name in ACTS and self.twice:
            later, self.twice = world.number + self.twice, 0
            world.calls.append((later, name, act))
        if name in ACTS and self.lost:
            self.lost = False
            world.note("reply lost", name)
            raise PersistenceError("no answer, and it acted: by the simulation")
        return result
