"""The real engine without Kafka and without time: a log in memory, a clock that is set, and everything else as in production."""

import zlib
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from connectors.memory.state import MemoryStore
from streams.agent import Agent, App
from streams.contracts import Store
from streams.engine.build import build
from streams.engine.calls import Inline
from streams.engine.worker import Parts, Worker
from streams.errors import SystemNotReady
from streams.observe.metrics import Meter
from streams.values import OutboxRow, TopicFacts


@dataclass(frozen=True)
class Message:
    """Satisfies streams.contracts.Record."""

    t: str
    p: int
    o: int
    k: bytes | None
    v: bytes | None
    h: list[tuple[str, bytes | None]] | None = None
    at: int = 0
    epoch: int = 0

    def topic(self) -> str:
        return self.t

    def partition(self) -> int:
        return self.p

    def offset(self) -> int:
        return self.o

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> Any:
        return self.h

    def timestamp(self) -> tuple[int, int]:
        return (1, self.at)

    def leader_epoch(self) -> int:
        return self.epoch

    def error(self) -> None:
        return None


@dataclass
class Log:
    """Topics in memory, shared by all workers of a test: a broker that forgets nothing by itself."""

    topics: dict[str, list[list[Message]]] = field(default_factory=dict)
    low: dict[tuple[str, int], int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.topics[topic] = [[] for _ in range(partitions)]
        self.ids[topic] = f"id-{topic}-{len(self.ids)}"

    def append(self, topic: str, number: int, key: bytes | None, value: bytes | None, headers: Any = None) -> Message:
        records = self.topics[topic][number]
        message = Message(topic, number, records[-1].o + 1 if records else 0, key, value, headers)
        records.append(message)
        return message

    def high(self, topic: str, number: int) -> int:
        records = self.topics[topic][number]
        return records[-1].o + 1 if records else self.low.get((topic, number), 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class FakeInput:
    """Satisfies streams.contracts.Input over a Log. `give` and `take` are the group coordinator."""

    def __init__(self, log: Log, group: str) -> None:
        self.log, self.group = log, group
        self.positions: dict[tuple[str, int], int] = {}
        self.paused: set[tuple[str, int]] = set()
        self.given: list[tuple[str, int]] = []
        self.taken: list[tuple[str, int]] = []
        self.failed: list[tuple[tuple[str, int], str, str]] = []
        self.closed = False
        self.member = True

    def give(self, *places: tuple[str, int]) -> None:
        self.given += places

    def take(self, *places: tuple[str, int]) -> None:
        self.taken += places
        for place in places:
            self.positions.pop(place, None)

    def poll(self, timeout: float) -> Message | None:
        found = self.consume(1)
        return found[0] if found else None

    def consume(self, most: int, timeout: float = 0.0) -> list[Message]:
        found: list[Message] = []
        for place, position in self.positions.items():
            if place in self.paused:
                continue
            records = [m for m in self.log.topics[place[0]][place[1]] if m.o >= position][: most - len(found)]
            if records:
                self.positions[place] = records[-1].o + 1
                found += records
        return found

    def close(self) -> None:
        self.closed = True

    def assigned(self) -> list[tuple[str, int]]:
        given, self.given = self.given, []
        return given

    def revoked(self) -> list[tuple[str, int]]:
        taken, self.taken = self.taken, []
        return taken

    def failures(self) -> list[tuple[tuple[str, int], str, str]]:
        failed, self.failed = self.failed, []
        return failed

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self.positions[topic, number] = offset
        self.paused.discard((topic, number))

    def pause(self, partitions: Any) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Any) -> None:
        self.paused.difference_update(partitions)

    def facts(self, topic: str, number: int) -> TopicFacts:
        committed, metadata = self.log.committed.get((self.group, topic, number), (-1, ""))
        low = self.log.low.get((topic, number), 0)
        return TopicFacts(self.log.ids[topic], len(self.log.topics[topic]), low, self.log.high(topic, number), committed, metadata)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return next((m.o for m in self.log.topics[topic][number] if m.at >= start * 1000), self.log.high(topic, number))

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        self.log.committed[self.group, topic, number] = (offset, metadata)

    def high(self, topic: str, number: int) -> int:
        return self.log.high(topic, number)

    def joined(self) -> bool:
        return self.member


class FakeProducer:
    """Satisfies streams.contracts.Producer over a Log. `hold` keeps reports back; `fate` decides the outcome of a row."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.waiting: list[tuple[OutboxRow, Any]] = []
        self.hold = False
        self.room = 1 << 30
        self.replaced = 0
        self.fate = lambda row: "delivered"

    def produce(self, row: OutboxRow, report: Any) -> bool:
        if len(self.waiting) >= self.room:
            return False
        self.waiting.append((row, report))
        if self.fate(row) in ("delivered", "ack-lost"):
            self.log.append(row.topic, row.partition, row.key, row.value, list(row.headers))
        return True

    def poll(self) -> int:
        if not self.hold:
            waiting, self.waiting = self.waiting, []
            for row, report in waiting:
                outcome = self.fate(row)
                if outcome == "delivered":
                    report("delivered", "")
                elif outcome in ("rejected", "failed"):
                    report(outcome, f"{outcome}: by the test")
                else:
                    self.waiting.append((row, report))
        return len(self.waiting)

    def replace(self) -> None:
        self.waiting = []
        self.replaced += 1

    def partitions(self, topic: str) -> int:
        if topic not in self.log.topics:
            raise SystemNotReady(f"no topic {topic}")
        return len(self.log.topics[topic])

    def partition_of(self, key: bytes, count: int) -> int:
        return zlib.crc32(key) % count

    def flush(self, timeout: float) -> int:
        return self.poll()

    def close(self) -> None: ...


class Driver:
    """One worker of one agent over a Log; several drivers over one log and store are several workers."""

    names = count()

    def __init__(
        self, agent: Agent, store: Store, log: Log, clock: Clock | None = None, on_rule_change: str = "refuse", pool: Any = Inline
    ) -> None:
        self.agent, self.store, self.log, self.clock = agent, store, log, clock or Clock()
        self.app = App("app", "memory://", (agent,))
        self.input = FakeInput(log, f"app.{agent.name}")
        self.producer = FakeProducer(log)
        self.reports: list[Any] = []
        tokens = (f"token-{next(self.names)}" for _ in count())
        parts = Parts(
            store, self.input, self.producer, self.clock, Meter(), lambda: 0.5, lambda: next(tokens), self.reports.append, pool
        )
        self.worker: Worker = build(self.app, agent, 0, "member", on_rule_change, parts)

    def give(self, *numbers: int, topic: str | None = None) -> "Driver":
        self.input.give(*((topic or self.agent.topics[0], number) for number in numbers))
        return self

    def turns(self, times: int = 6) -> "Driver":
        for _ in range(times):
            self.worker.turn()
        return self

    def later(self, seconds: float) -> "Driver":
        """Time passes, for the store as well."""
        self.clock.now += seconds
        return self


def memory(clock: Clock) -> MemoryStore:
    """A store whose time is the test's."""
    return MemoryStore(clock=lambda: clock.now + 1_700_000_000)


def header(message: Message, name: str) -> str | None:
    return next((value.decode() for key, value in message.h or () if key == name and value is not None), None)


def distinct(log: Log, topic: str) -> list[Message]:
    """What a receiver that drops repeats by id keeps."""
    seen: dict[str | None, Message] = {}
    for partition in log.topics[topic]:
        for message in partition:
            seen.setdefault(header(message, "sluicegate-id"), message)
    return list(seen.values())
