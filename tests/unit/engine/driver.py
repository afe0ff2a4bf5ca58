"""The real engine without Kafka and without time, one worker at a time (sluicegate.streams.testing has the log, the
clock and the clients)."""

from functools import partial
from itertools import count
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.rules.versions import UNVERSIONED, Deployed
from sluicegate.streams.testing.log import Log, LogInput, LogProducer, LogRecord, LogTable, ManualClock
from sluicegate.streams.testing.transactions import LogTransactions


class Driver:
    """One worker of one agent over a Log; several drivers over one log and store are several workers."""

    names = count()

    def __init__(
        self,
        agent: Agent,
        store: Store,
        log: Log,
        clock: ManualClock | None = None,
        on_rule_change: str = "refuse",
        pool: Any = InlinePool,
        app: str = "app",
        spans: Spans | None = None,
        deployed: Deployed = UNVERSIONED,
        mac: Mac | None = None,
        member: str = "member",
        probes_first: bool = False,
    ) -> None:
        self.agent, self.store, self.log, self.clock = agent, store, log, clock or ManualClock()
        self.app = App(app, "memory://", (agent,))
        self.input = LogInput(log, f"app.{agent.name}")
        self.producer = LogProducer(log)
        self.reports: list[Any] = []
        tokens = (f"token-{next(self.names)}" for _ in count())
        self.transactions: dict[Partition, LogTransactions] = {}
        parts = WorkerDependencies(
            store,
            self.input,
            self.producer,
            self.clock,
            Meter(),
            lambda: 0.5,
            lambda: next(tokens),
            self.reports.append,
            pool,
            spans,
            transactions=self.shard,
            table=partial(LogTable, log),
            mac=mac,
            probes_first=probes_first,
        )
        self.worker: Worker = build(self.app, agent, 0, member, on_rule_change, parts, deployed)

    def give(self, *numbers: int, topic: str | None = None) -> "Driver":
        self.input.give(*((topic or self.agent.topics[0], number) for number in numbers))
        return self

    def shard(self, partition: Partition) -> LogTransactions:
        """The transactions of its outbox."""
        return self.transactions.setdefault(partition, LogTransactions(self.log, partition))

    def turns(self, times: int = 6) -> "Driver":
        for _ in range(times):
            self.worker.turn()
        return self

    def later(self, seconds: float) -> "Driver":
        """Time passes, for the store as well."""
        self.clock.now += seconds
        return self


def memory(clock: ManualClock) -> MemoryStore:
    """A store whose time is the test's."""
    return MemoryStore(clock=lambda: clock.now + 1_700_000_000)


def header(message: LogRecord, name: str) -> str | None:
    return next((value.decode() for key, value in message.h or () if key == name and value is not None), None)


def distinct(log: Log, topic: str) -> list[LogRecord]:
    """What a receiver that drops repeats by id keeps."""
    seen: dict[str | None, LogRecord] = {}
    for partition in log.topics[topic]:
        for message in partition:
            seen.setdefault(header(message, "sluicegate-id"), message)
    return list(seen.values())


__all__ = ["Driver", "Log", "LogRecord", "ManualClock", "distinct", "header", "memory"]
