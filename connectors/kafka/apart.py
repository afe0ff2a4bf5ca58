"""`python -m sluicegate.connectors.kafka.apart`: fetches one partition in place of a worker. It may be killed by doing
so.

The first line of stdin is the job. The process ends when stdin ends. When memory runs out, the kernel ends this process
first. It takes no more memory than is free, so no other process is ended. Reports are lines of JSON on stdout. The
records are msgpack, each with its length before it.
"""

import contextlib
import math
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import settings
from sluicegate.connectors.kafka.memory import free

MOST_SECONDS = 20.0  # of one job from its first record on
IDLE_SECONDS, IDLE_CPU = 30.0, 1.0
"""Seconds without a record, during which the process uses no more processor time than this: it unpacks nothing. To
unpack a gigabyte takes seconds of a processor, and minutes on a shared one."""
QUEUED = 100_000  # records of `queued.min.messages`, its default
LEAST = 64 << 20  # bytes beyond its own that the process may take, whatever is free
STACKS = 48 << 20  # bytes of the stacks of librdkafka's threads, which are hardly used
PAGE = 5_000  # records of a topic that are taken at once
WHOLE = 100_000  # records of a batch that are taken at once, at most
ONE_BATCH: settings.Settings = {"fetch.message.max.bytes": 1, "queued.min.messages": 1, "queued.max.messages.kbytes": 1}
REPLACED = frozenset(
    {"max.partition.fetch.bytes", "group.protocol", "group.remote.assignor", settings.INSTANCE, *ONE_BATCH}
)


ApartWork = Literal["answer", "batches", "records", "table"]


class ApartJob(msgspec.Struct, frozen=True):
    """A job. `answer` fetches as a worker does, and sends no records. `batches` fetches one batch at a time and reports
    its progress. `records` does the same, and sends the records below `until`. `table` fetches `number` partitions to
    their ends as a worker does, and reports the number of records. `memory`: the bytes that may be taken; 0: what
    is free."""

    kafka: dict[str, str | int | float | bool]
    group: str
    topic: str
    number: int
    offset: int
    does: ApartWork
    until: int = -1
    memory: int = 0


class ApartReport(msgspec.Struct, frozen=True):
    """All records before `next` were fetched. `error`: the records from `next` on cannot be unpacked. `done`: the job
    has ended. `idle`: the process did nothing for IDLE_SECONDS before the end of the partition."""

    next: int
    error: str = ""
    done: bool = False
    idle: bool = False


class SentRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    epoch: int
    at: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to this process, too
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ApartJob)
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), daemon=True).start()
    # the kernel chooses this process first when memory runs out (Linux)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    _bound(job.memory or free())
    (Reading(job) if job.does == "table" else Fetching(job)).run()
    sys.stdout.buffer.flush()
    os._exit(0)  # the client's own end may wait for brokers


class Fetching:
    """Fetches one partition for a job."""

    def __init__(self, job: ApartJob) -> None:
        self._job, self._next, self._error, self._ended = job, job.offset, "", False
        one_by_one = job.does != "answer"
        kafka = {name: value for name, value in job.kafka.items() if not one_by_one or name not in REPLACED}
        wanted = settings.consumer(kafka, job.group, "sluicegate-apart", lambda error: None, ends=True)
        if one_by_one:
            wanted.update(ONE_BATCH)
        else:
            wanted.update({"statistics.interval.ms": 100, "stats_cb": self._stats})
        self._most = int(wanted.get("queued.max.messages.kbytes", 0)) << 10
        self._consumer: Any = Consumer(wanted)

    def run(self) -> None:
        job = self._job
        if job.does != "records":
            _say(ApartReport(self._next))
        self._consumer.assign([Position(job.topic, job.number, job.offset)])
        deadline, patience = math.inf, Patience()
        kept: list[Any] = []
        while not (self._ended or self._error or patience.over or time.monotonic() >= deadline):
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            patience = Patience()
            deadline = min(deadline, time.monotonic() + MOST_SECONDS)
            if job.does == "answer":
                kept.append(message)
                self._is_record(message)
            else:
                self._batch([message, *self._consumer.consume(WHOLE, 0.0)])
        if job.does != "records":
            _say(ApartReport(self._next, self._error, True, patience.over))

    def _batch(self, messages: list[Any]) -> None:
        records = [message for message in messages if self._is_record(message)]
        until = self._job.until
        if self._job.does == "records":
            for record in records:
                if record.offset() < until:
                    _send(record)
            self._ended = self._ended or self._next >= until
            sys.stdout.buffer.flush()
        elif records:
            _say(ApartReport(self._next))

    def _is_record(self, message: Any) -> bool:
        """Whether the message is a record. Notes its offset, the end of the partition, or an error."""
        error = message.error()
        if error is None:
            self._next = message.offset() + 1
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._ended = True
        elif error.code() == KafkaError._BAD_COMPRESSION:
            self._error = error.str()
        return False

    def _stats(self, text: str) -> None:
        """Ends the job when the client's queue is full, or holds all records up to the end."""
        partitions = msgspec.json.decode(text)["topics"].get(self._job.topic, {}).get("partitions", {})
        facts = partitions.get(str(self._job.number))
        if facts is not None and facts["fetchq_cnt"]:
            end = min(offset for offset in (facts["hi_offset"], facts["ls_offset"]) if offset >= 0)
            full = facts["fetchq_cnt"] >= QUEUED or facts["fetchq_size"] >= self._most
            self._ended = self._ended or full or facts["next_offset"] >= end


class Reading:
    """Reads all partitions of a topic for the job `table`."""

    def __init__(self, job: ApartJob) -> None:
        wanted = settings.consumer(job.kafka, job.group, "sluicegate-apart", lambda error: None, ends=True)
        self._job, self._consumer, self._ended = job, Consumer(wanted), set[int]()

    def run(self) -> None:
        count, error, patience = 0, "", Patience()
        _say(ApartReport(count))
        numbers = range(self._job.number)
        self._consumer.assign([Position(self._job.topic, number, self._job.offset) for number in numbers])
        while len(self._ended) < len(numbers) and not (error or patience.over):
            page = self._consumer.consume(PAGE, 0.05)
            for message in page:
                error = error or self._why(message)
            if page:
                patience, count = Patience(), count + len(page)
                _say(ApartReport(count))
        _say(ApartReport(count, error, True, patience.over))

    def _why(self, message: Any) -> str:
        """The error that stops the topic; empty: there is none. Notes the end of a partition."""
        code = message.error() and message.error().code()
        if code == KafkaError._PARTITION_EOF:
            self._ended.add(message.partition())
        return str(message.error().str()) if code == KafkaError._BAD_COMPRESSION else ""


class Patience:
    """Recognizes a client that gives no records and does no work."""

    def __init__(self) -> None:
        self._at, self._cpu = time.monotonic(), time.process_time()

    @property
    def over(self) -> bool:
        """Whether the client did nothing for IDLE_SECONDS."""
        if time.monotonic() < self._at + IDLE_SECONDS:
            return False
        if time.process_time() - self._cpu <= IDLE_CPU:
            return True
        self._at, self._cpu = time.monotonic(), time.process_time()
        return False


def _bound(memory: int) -> None:
    """Limits the process to these bytes beyond what it has (Linux), and disables core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux" or not memory:
        return
    entry = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    most = (int(entry.split()[1]) << 10) + max(LEAST, memory * 9 // 10) + STACKS
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _watch(descriptor: int) -> None:
    """Ends the process when its parent has ended."""
    while os.read(descriptor, 4096):
        pass
    os._exit(1)


def _say(report: ApartReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def _send(record: Any) -> None:
    epoch = record.leader_epoch()
    sent = SentRecord(
        record.offset(),
        -1 if epoch is None else epoch,
        record.timestamp(),
        record.key(),
        record.value(),
        record.headers() or [],
    )
    data = msgspec.msgpack.encode(sent)
    sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)


if __name__ == "__main__":
    main()
