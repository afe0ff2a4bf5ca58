"""Kafka in memory: a log of topics, a consumer, a producer, and a clock that is moved by hand."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil

from sluicegate.streams.contracts.record import Headers, Record, RecordContent
from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport, TopicPartition
from sluicegate.streams.contracts.values import Fetchable, OutboxRow, Partition, TopicFacts
from sluicegate.streams.errors import TopicMissing
from sluicegate.streams.testing import hashing

TICK = 2**-20  # seconds; sums with a time of this century are exact, so that a deadline is met when it is due
START = 1_767_225_600.0  # 2026-01-01T00:00:00Z in seconds since 1970


@dataclass(frozen=True)
class LogRecord(RecordContent):
    """Topic, partition, offset, key, value, headers, time in ms, leader epoch."""

    t: str
    p: int
    o: int
    k: bytes | None
    v: bytes | None
    h: Headers | None = None
    at: int = 0
    epoch: int = 0

    def topic(self) -> str:
        return self.t

    def partition(self) -> int:
        return self.p

    def offset(self) -> int:
        return self.o

    def timestamp(self) -> tuple[int, int]:
        return (1, self.at)

    def leader_epoch(self) -> int:
        return self.epoch


class ManualClock:
    """Satisfies sluicegate.streams.contracts.stores.Clock. It stands still until `forward`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        """Seconds since 1970."""
        return START + self.now - 1000.0

    def forward(self, seconds: float) -> None:
        """Move the clock forward by `seconds`, rounded up to a multiple of TICK."""
        self.now += ceil(seconds / TICK) * TICK


@dataclass
class Log:
    """Topics in memory, shared by all workers, without retention. `order` has the messages of each topic as they came.
    With `partitions` a topic is created when it is first used, else by `create`. `epochs` and `cursors` are of
    transactions (sluicegate.streams.testing.transactions)."""

    topics: dict[str, list[list[LogRecord]]] = field(default_factory=dict)
    low: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)
    order: dict[str, list[LogRecord]] = field(default_factory=dict)
    partitions: int = 0
    epochs: dict[Partition, int] = field(default_factory=dict)
    cursors: dict[Partition, dict[str, int]] = field(default_factory=dict)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.topics[topic] = [[] for _ in range(partitions)]
        self.ids[topic] = f"id-{topic}-{len(self.ids)}"

    def count(self, topic: str) -> int:
        """The number of partitions of the topic. Raises TopicMissing."""
        if topic not in self.topics:
            if not self.partitions:
                raise TopicMissing(f"no topic {topic}")
            self.create(topic, self.partitions)
        return len(self.topics[topic])

    def append(
        self,
        topic: str,
        number: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
        at: int = 0,
    ) -> LogRecord:
        """`at` is the time of the message, in milliseconds since 1970."""
        records = self.topics[topic][number]
        message = LogRecord(topic, number, self.high(topic, number), key, value, headers, at)
        records.append(message)
        self.order.setdefault(topic, []).append(message)
        return message

    def after(self, topic: str, number: int, offset: int, most: int) -> list[LogRecord]:
        """Up to `most` messages from `offset` on."""
        records = self.topics[topic][number]
        begin = bisect_left(records, offset, key=LogRecord.offset)
        return records[begin : begin + most]

    def high(self, topic: str, number: int) -> int:
        records = self.topics[topic][number]
        return records[-1].o + 1 if records else self.low.get((topic, number), 0)


class LogHistory:
    """Satisfies sluicegate.streams.operations.replaying.rewind_check.InputHistory over a Log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def facts(self, topic: str, number: int) -> TopicFacts:
        return LogInput(self._log, "").facts(topic, number)

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        if records := self._log.after(topic, number, first, max(0, end - first)):
            yield [record for record in records if record.offset() < end]

    def compacted(self, topics: Sequence[str]) -> list[str]:
        return []


class LogTable:
    """Satisfies sluicegate.streams.contracts.stores.TableFeed over a Log."""

    def __init__(self, log: Log, topic: str) -> None:
        self.log, self.topic = log, topic
        self.positions = [0] * log.count(topic)
        self._wanted = [log.high(topic, number) for number in range(log.count(topic))]

    @property
    def complete(self) -> bool:
        return all(position >= wanted for position, wanted in zip(self.positions, self._wanted, strict=True))

    def take(self) -> list[Record]:
        taken: list[Record] = []
        for number, position in enumerate(self.positions):
            records = self.log.after(self.topic, number, position, self.log.high(self.topic, number))
            if records:
                self.positions[number] = records[-1].o + 1
                taken += records
        return taken

    def lag(self) -> int:
        return sum(self.log.high(self.topic, number) - position for number, position in enumerate(self.positions))

    def close(self) -> None: ...


class LogProbe:
    """Satisfies sluicegate.streams.contracts.stores.Probe."""

    def __init__(self, outcome: Fetchable) -> None:
        self._outcome = outcome

    def result(self) -> Fetchable:
        return self._outcome

    def close(self) -> None:
        pass


class LogInput:
    """Satisfies sluicegate.streams.contracts.stores.Input over a Log. `give` and `take` are the coordinator."""

    def __init__(self, log: Log, group: str) -> None:
        self.log, self.group = log, group
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.newly_assigned: list[TopicPartition] = []
        self.mine: set[TopicPartition] = set()
        self.newly_revoked: list[TopicPartition] = []
        self.failed: list[tuple[TopicPartition, str, str]] = []
        self.closed = False
        self.member = True
        self.finish: Callable[[Sequence[TopicPartition]], object] = lambda places: None

    def give(self, *places: TopicPartition) -> None:
        self.newly_assigned += places
        self.mine.update(places)

    def take(self, *places: TopicPartition) -> None:
        self.finish(places)
        self.newly_revoked += places
        self.mine.difference_update(places)
        for place in places:
            self.positions.pop(place, None)

    def poll(self, timeout: float) -> Record | None:
        return next(iter(self.consume(1)), None)

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        batch: list[Record] = []
        for place, position in self.positions.items():
            if place in self.paused:
                continue
            records = self.log.after(*place, position, most - len(batch))
            if records:
                self.positions[place] = records[-1].o + 1
                batch += records
        return batch

    def close(self) -> None:
        self.closed = True

    def assigned(self) -> list[TopicPartition]:
        partitions, self.newly_assigned = self.newly_assigned, []
        return partitions

    def revoked(self) -> list[TopicPartition]:
        partitions, self.newly_revoked = self.newly_revoked, []
        return partitions

    def before_revoke(self, finish: Callable[[Sequence[TopicPartition]], object]) -> None:
        self.finish = finish

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.mine})

    def failures(self) -> list[tuple[TopicPartition, str, str]]:
        failed, self.failed = self.failed, []
        return failed

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self.positions[topic, number] = offset
        self.paused.discard((topic, number))

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused.difference_update(partitions)

    def resume_alone(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self.resume([(topic, number)])

    def spare(self) -> bool:
        return True

    def alone(self, topic: str, number: int) -> bool:
        return False

    def facts(self, topic: str, number: int) -> TopicFacts:
        committed, metadata = self.log.committed.get((self.group, topic, number), (-1, ""))
        low = self.log.low.get((topic, number), 0)
        return TopicFacts(
            self.log.ids[topic], len(self.log.topics[topic]), low, self.log.high(topic, number), committed, metadata
        )

    def existing(self) -> list[str]:
        return sorted(self.log.topics)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return next((m.o for m in self.log.topics[topic][number] if m.at >= start * 1000), self.log.high(topic, number))

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        self.log.committed[self.group, topic, number] = (offset, metadata)

    def high(self, topic: str, number: int) -> int:
        return self.log.high(topic, number)

    def ended(self, topic: str, number: int) -> int:
        place = topic, number
        position = -1 if place in self.paused else self.positions.get(place, -1)
        return position if position >= self.log.high(topic, number) else -1

    def probe(self, topic: str, number: int, offset: int) -> LogProbe:
        return LogProbe(Fetchable())

    def bound(self, topic: str, number: int, until: int) -> None:
        pass

    def bound_reached(self, topic: str, number: int) -> bool:
        return False

    def look_again(self, topic: str, number: int) -> None:
        """Nothing to do: `ended` looks at the log itself."""

    def joined(self) -> bool:
        return self.member


def one_by_one(
    produce: Callable[[OutboxRow, DeliveryReport], bool], rows: Sequence[OutboxRow], reports: BatchReports
) -> int:
    """Implements `produce_all` for a producer that takes one row at a time."""
    for taken, row in enumerate(rows):
        if not produce(row, partial(_reported, reports, row.number)):
            return taken
    return len(rows)


def _reported(reports: BatchReports, number: int, outcome: str, text: str) -> None:
    if outcome == "delivered":
        reports.delivered((number,))
    else:
        reports.refused(number, outcome, text)


class LogProducer:
    """Satisfies sluicegate.streams.contracts.stores.Producer over a Log. `hold` keeps reports back. `fate` decides the
    outcome of a row: delivered, rejected, denied, failed, ack-lost (it arrives without a report) or lost. `time` gives
    seconds since 1970."""

    def __init__(self, log: Log, time: Callable[[], float] = lambda: 0.0) -> None:
        self.log, self._time = log, time
        self.waiting: list[tuple[OutboxRow, DeliveryReport]] = []
        self.hold = False
        self.room = 1 << 30
        self.replaced = 0
        self.fate: Callable[[OutboxRow], str] = lambda row: "delivered"

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        if len(self.waiting) >= self.room:
            return False
        self.waiting.append((row, report))
        if self.fate(row) in ("delivered", "ack-lost"):
            self.log.append(row.topic, row.partition, row.key, row.value, list(row.headers), int(self._time() * 1000))
        return True

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return one_by_one(self.produce, rows, reports)

    def send_now(self) -> None: ...

    def poll(self) -> int:
        if not self.hold:
            waiting, self.waiting = self.waiting, []
            for row, report in waiting:
                outcome = self.fate(row)
                if outcome == "delivered":
                    report("delivered", "")
                elif outcome in ("rejected", "denied", "failed"):
                    report(outcome, f"{outcome}: by the test")
                else:
                    self.waiting.append((row, report))
        return len(self.waiting)

    def replace(self) -> None:
        self.waiting = []
        self.replaced += 1

    def partitions(self, topic: str) -> int:
        return self.log.count(topic)

    def partition_of(self, key: bytes, count: int) -> int:
        return hashing.partition_of(key, count)

    def flush(self, timeout: float) -> int:
        return self.poll()

    def close(self) -> None: ...
