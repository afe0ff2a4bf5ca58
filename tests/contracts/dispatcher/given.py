"""A dispatcher that is turned by hand: a real store, a log in memory in Kafka's place, a clock that is set."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sluicegate.streams.agent import App, Outbox, Timeouts
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.dispatcher import Dispatcher, DispatcherDependencies
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.log import Log, LogProducer, LogRecord, ManualClock
from tests.waiting import wait_until

OUTBOX = Outbox(attempts=3, backoff_first=0.05, backoff_most=0.1)
TIMEOUTS = Timeouts()


class Turned:
    """One dispatcher; several over one store and log are several processes. `outbox` and `timeouts` None: off."""

    def __init__(
        self,
        store: Any,
        log: Log | None = None,
        outbox: Outbox | None = OUTBOX,
        timeouts: Timeouts | None = TIMEOUTS,
        spans: Spans | None = None,
    ) -> None:
        self.store, self.log, self.clock, self.meter = store, log or Log(partitions=2), ManualClock(), Meter()
        self.producer = LogProducer(self.log)
        self.reports: list[WorkerReport] = []
        app = App("app", "memory://", (), outbox=outbox, timeouts=timeouts)
        parts = DispatcherDependencies(
            store,
            lambda: None,
            store.incarnation,
            self.producer,
            self.clock,
            time.time,
            self.meter,
            lambda: 0.5,
            lambda: uuid.uuid4().hex,
            self.reports.append,
            InlinePool(1),
            spans,
        )
        self.dispatcher = Dispatcher(app, parts)

    def turns(self, times: int = 8) -> "Turned":
        for _ in range(times):
            self.dispatcher.turn()
        return self

    def later(self, seconds: float = 1.0) -> "Turned":
        self.clock.now += seconds
        return self.turns()

    def until(self, done: Callable[[], object], what: str) -> None:
        """Turn, with half a second passing each time for the loop, until that is so."""

        def turned() -> object:
            self.later(0.5)
            return done()

        wait_until(turned, 20, what, pause=0.005)

    def sent_all(self) -> "Turned":
        self.until(lambda: self.store.outbox.count("pending") == 0, "an empty outbox")
        return self

    def count(self, name: str, *labels: str) -> float:
        return sum(
            value for item, having, value in self.meter.snapshot() if item == name and (not labels or having == labels)
        )

    def report(self) -> WorkerReport:
        return self.dispatcher.describe(self.clock.now)

    def stop(self) -> int:
        """As SIGTERM does: it ends well, and gives its lanes back."""
        return self.dispatcher.run(lambda: True, 5.0)


def message(number: int, key: bytes | None = b"k", topic: str = "t", **fields: Any) -> OutboxMessage:
    return OutboxMessage(topic=topic, key=key, value=b"v%d" % number, id=f"m{number}", **fields)


def add(store: Any, *messages: OutboxMessage) -> None:
    store.outbox.add(None, messages, require_transaction=False)


def add_numbers(store: Any, *numbers: int, **fields: Any) -> None:
    add(store, *(message(number, **fields) for number in numbers))


def values(log: Log, topic: str = "t") -> list[bytes | None]:
    """In the order in which they came."""
    return [message.v for message in log.order.get(topic, ())]


def received(log: Log, topic: str = "t") -> list[bytes | None]:
    """What one of our agents takes of the topic: its partitions one after the other."""
    kept: list[LogRecord] = []
    for partition in log.topics.get(topic, ()):
        kept += ReceivedShards(topic).drop_repeats(partition, 0.0)  # type: ignore[arg-type]
    return [message.v for message in kept]


def numbered(count: int, first: int = 1) -> list[bytes]:
    return [b"v%d" % number for number in range(first, first + count)]


def headers(log_record: LogRecord) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in log_record.h or ()}


def lanes(count: int, settings: Outbox = OUTBOX) -> Outbox:
    return replace(settings, lanes=count)


__all__ = [
    "OUTBOX",
    "TIMEOUTS",
    "Turned",
    "add",
    "add_numbers",
    "headers",
    "lanes",
    "message",
    "numbered",
    "received",
    "values",
]
