"""The workers of an app over a log in memory: the real engine, run step by step until nothing changes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from typing import cast

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Producer, Store
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.following import running
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.errors import PersistenceError, SystemNotReady
from sluicegate.streams.importing import define
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.observe.metrics import Labels, Meter
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.operations.deploying import DeployOptions, deploy
from sluicegate.streams.operations.replaying.rewind_check import RewindCheck
from sluicegate.streams.rules.versions import UNVERSIONED
from sluicegate.streams.testing.deaths import Death, Deaths, MortalProducer, MortalStore
from sluicegate.streams.testing.dispatch import Dispatch
from sluicegate.streams.testing.log import TICK, Log, LogHistory, LogInput, LogProducer, LogTable, ManualClock
from sluicegate.streams.testing.shared_dues import shared_due_in
from sluicegate.streams.testing.transactions import LogTransactions
from sluicegate.streams.topic_names import matching, patterns, topics
from sluicegate.streams.versions import catalogue

MOST_ROUNDS = 100_000  # after which an app must be quiet


class Workers:
    """All workers of all agents as one process, on a store that outlives them. Only `advance` moves the clock."""

    def __init__(self, app: App, workers: int, log: Log, store: Store, clock: ManualClock, deaths: Deaths) -> None:
        self._app, self._workers, self._log, self._clock, self._deaths = app, workers, log, clock, deaths
        self._watched = MortalStore(store, deaths, clock)
        self._store = cast(Store, self._watched)  # mypy does not see through `__getattr__`
        self._names = count(1)
        self._inputs: dict[LogInput, tuple[Agent, int]] = {}
        self._producers: list[LogProducer] = []
        self._running: list[Worker] = []
        self._replaced: dict[str, tuple[str, ...]] = {}
        self._meters = {agent.name: Meter() for agent in app.agents}
        # only these schedule messages or use the outbox
        leased = bool(app.schedules) or any(agent.handler or agent.scope == "shared" for agent in app.agents)
        self._dispatch = Dispatch(self._store, LogProducer(log, clock.time), clock, deaths, app) if leased else None

    def settle(self) -> None:
        """Runs all workers until nothing changes. A process that dies is started again."""
        while True:
            try:
                if not self._running:
                    numbers = range(self._workers)
                    self._running = [self._worker(agent, number) for agent in self._app.agents for number in numbers]
                with failpoints.watched(self._deaths.reach):
                    self._until_quiet()
                return
            except Death:
                self.die()
            except BaseException:
                self.die()
                raise

    def die(self) -> None:
        """Ends the process as kill -9 does: only the store and the log remain."""
        self._running, self._inputs, self._producers = [], {}, []
        if self._dispatch is not None:
            self._dispatch.die()

    def replace_handlers(self, functions: Mapping[str, tuple[str, ...]]) -> None:
        """Calls these functions in place of the handlers of these agents, also under rules that are deployed later."""
        self._replaced |= functions
        self.die()

    def counts(self, agent: str) -> Mapping[tuple[str, Labels], float]:
        """What the agent has counted since the begin of the test, by the metric and its labels."""
        samples = self._meters[agent].snapshot() if agent in self._meters else []
        return {(name, labels): value for name, labels, value in samples if isinstance(value, float | int)}

    def deploy(self, app: App, policy: str | None) -> None:
        """Makes the rules of `app` the ones that run. The command is repeated when it dies or gets no answer. Raises
        ConfigurationError for a deployment that is refused."""
        if not catalogue.read(self._store, app.name):
            self._deployed(self._app, DeployOptions())  # what has run so far is version 1
            self.die()
            self.settle()
        self._deployed(app, DeployOptions(policy, rewinds=RewindCheck(self._store, app.name, LogHistory(self._log))))
        self.die()
        self._app = app

    def _deployed(self, app: App, options: DeployOptions) -> None:
        names = [agent.name for agent in app.agents]
        while True:
            try:
                with failpoints.watched(self._deaths.reach):
                    deploy(self._store, app, names, options, Person("test", "", f"name-{next(self._names)}"))
                return
            except (Death, PersistenceError):
                continue

    def advance(self, seconds: float) -> None:
        """Moves the clock from one deadline or retry to the next, and settles after each."""
        clock, end = self._clock, ManualClock()
        end.now = clock.now
        end.forward(seconds)
        while clock.now < end.now:
            due = min((worker.due_in(clock.now) for worker in self._running), default=0.0)
            due = min(due, self._shared_due_in())
            if self._dispatch is not None:
                due = min(due, self._dispatch.due_in())
            clock.forward(min(max(due, TICK), end.now - clock.now))
            self.settle()

    def _shared_due_in(self) -> float:
        buffer, name, now = self._store.buffer, self._app.name, self._clock.time()
        shared = (agent for agent in self._app.agents if agent.scope == "shared")
        return min((shared_due_in(buffer, name, agent, now) for agent in shared), default=inf)

    def reports(self) -> list[WorkerReport]:
        return [worker.reports.of(self._clock.now) for worker in self._running]

    def _worker(self, agent: Agent, number: int) -> Worker:
        app, log, clock = self._app, self._log, self._clock
        source, producer = LogInput(log, f"{app.name}.{agent.name}"), LogProducer(log, clock.time)
        self._inputs[source] = agent, number
        self._assign(source, topics(agent.topics))
        self._producers.append(producer)
        parts = WorkerDependencies(
            store=self._store,
            input=source,
            producer=cast(Producer, MortalProducer(producer, self._deaths)),
            clock=clock,
            meter=self._meters.setdefault(agent.name, Meter()),
            random=self._deaths.jitter,
            token=lambda: f"name-{next(self._names)}",
            report=lambda report: None,
            time=clock.time,
            transactions=partial(LogTransactions, log, time=clock.time),
            table=partial(LogTable, log),
        )
        deployed = catalogue.read(self._store, app.name).get(agent.name, UNVERSIONED)
        return build(app, self._calling(running(agent, deployed)), number, "test", "refuse", parts, deployed)

    def _assign(self, source: LogInput, names: Sequence[str]) -> None:
        """Gives a worker its part of the partitions of these topics."""
        _, number = self._inputs[source]
        mine = [(topic, n) for topic in names for n in range(self._log.count(topic)) if n % self._workers == number]
        source.give(*(place for place in mine if place not in source.mine))

    def _calling(self, agent: Agent) -> Agent:
        """The agent with the replaced functions of this test."""
        if agent.handler is None or agent.name not in self._replaced:
            return agent
        return replace(agent, handler=replace(agent.handler, functions=self._replaced[agent.name]))

    def _until_quiet(self) -> None:
        still = rounds = 0
        while still < 2:
            before = self._moved()
            for source, (agent, _) in self._inputs.items():
                if patterns(agent.topics):
                    self._assign(source, matching(agent.topics, self._log.topics))
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
    """Makes the file's `module:function` names importable from its folder, after installed modules. False: the folder
    was on the path already."""
    new = folder not in sys.path
    if new:
        sys.path.append(folder)
    return new


def path_of(function: str | Callable[..., object]) -> str:
    """The path under which this process finds the function."""
    if isinstance(function, str):
        return function
    path = f"{function.__module__}:{function.__qualname__}"
    define(path, function)
    return path
