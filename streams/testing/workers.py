"""The workers of an app over a log in memory: the real engine, turned by hand until nothing moves."""

import sys
from functools import partial
from itertools import count

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.testing.deaths import Death, Deaths, mortal_producer, mortal_store
from sluicegate.streams.testing.dispatch import Dispatch
from sluicegate.streams.testing.log import TICK, Log, LogInput, LogProducer, ManualClock
from sluicegate.streams.testing.transactions import LogTransactions

MOST_ROUNDS = 100_000  # until an app must be quiet


class Workers:
    """All workers of all agents as one process, on a store that outlives them. The clock moves only by `advance`."""

    def __init__(self, app: App, workers: int, log: Log, store: Store, clock: ManualClock, deaths: Deaths) -> None:
        self._app, self._workers, self._log, self._clock, self._deaths = app, workers, log, clock, deaths
        self._store, self._watched = mortal_store(store, deaths, clock)
        self._names = count(1)
        self._inputs: list[LogInput] = []
        self._producers: list[LogProducer] = []
        self._running: list[Worker] = []
        # who else would schedule, or use the outbox?
        leased = any(agent.handler or agent.scope == "shared" for agent in app.agents)
        self._dispatch = Dispatch(self._store, LogProducer(log, clock.time), clock, deaths) if leased else None

    def settle(self) -> None:
        """Turn until nothing moves; who dies on the way is started anew."""
        while True:
            try:
                if not self._running:
                    self._start()
                with failpoints.watched(self._deaths.reach):
                    self._until_quiet()
                return
            except Death:
                self.die()
            except BaseException:
                self.die()
                raise

    def die(self) -> None:
        """As kill -9 of the process: what is not in the store or in the log is gone."""
        self._running, self._inputs, self._producers = [], [], []
        if self._dispatch is not None:
            self._dispatch.die()

    def advance(self, seconds: float) -> None:
        """From one deadline or other try to the next, each with all that follows from it."""
        clock, end = self._clock, ManualClock()
        end.now = clock.now
        end.forward(seconds)
        while clock.now < end.now:
            due = min((worker.due_in(clock.now) for worker in self._running), default=0.0)
            if self._dispatch is not None:
                due = min(due, self._dispatch.due_in())
            clock.forward(min(max(due, TICK), end.now - clock.now))
            self.settle()

    def reports(self) -> list[WorkerReport]:
        return [worker.describe(self._clock.now) for worker in self._running]

    def _start(self) -> None:
        for agent in self._app.agents:
            for number in range(self._workers):
                self._running.append(self._worker(agent, number))

    def _worker(self, agent: Agent, number: int) -> Worker:
        app, log, clock = self._app, self._log, self._clock
        source, producer = LogInput(log, f"{app.name}.{agent.name}"), LogProducer(log, clock.time)
        source.give(
            *((topic, n) for topic in agent.topics for n in range(log.count(topic)) if n % self._workers == number)
        )
        self._inputs.append(source)
        self._producers.append(producer)
        mortal, deaths = mortal_producer(producer, self._deaths), self._deaths
        transactions = partial(LogTransactions, log, time=clock.time)
        parts = WorkerDependencies(
            self._store,
            source,
            mortal,
            clock,
            Meter(),
            deaths.jitter,
            self._name,
            lambda report: None,
            time=clock.time,
            transactions=transactions,
        )
        return build(app, agent, number, "test", "refuse", parts)

    def _name(self) -> str:
        return f"name-{next(self._names)}"

    def _until_quiet(self) -> None:
        still = rounds = 0
        while still < 2:
            before = self._moved()
            for worker in self._running:
                worker.turn()
            if self._dispatch is not None:
                self._dispatch.turn()
            still = still + 1 if self._moved() == before else 0
            rounds += 1
            if rounds > MOST_ROUNDS:
                raise SystemNotReady(
                    f"still working after {MOST_ROUNDS:,} rounds: do agents feed one another in a circle?"
                )

    def _moved(self) -> tuple[int, int, int, int]:
        positions = sum(position for source in self._inputs for position in source.positions.values())
        under_way = sum(len(producer.waiting) for producer in self._producers)
        return sum(map(len, self._log.order.values())), self._watched.writes, positions, under_way


def on_path(folder: str) -> bool:
    """Let the file's `module:function` names be looked up in its folder, after what is installed; was it new?"""
    new = folder not in sys.path
    if new:
        sys.path.append(folder)
    return new
