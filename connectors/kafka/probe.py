"""Starts processes that fetch a partition in place of this one (sluicegate.connectors.kafka.apart), and interprets how
they end."""

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, NamedTuple

import msgspec

from sluicegate.connectors.kafka import settings
from sluicegate.connectors.kafka.apart import IDLE_SECONDS, ApartJob, ApartReport, ApartWork, SentRecord
from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import Fetchable

COMMAND = (sys.executable, "-P", "-m", "sluicegate.connectors.kafka.apart")
DEATHS = 3  # at one batch, which then cannot be fetched: one process may be killed for another reason
LONGEST = 600.0  # seconds of one process
WAITING = 16  # records that wait to be read


class ApartEnd(NamedTuple):
    """The end of a process: it had fetched all records before `next`. `why` it fetched no more; empty: it lived to the
    end."""

    next: int
    why: str = ""


Run = Callable[[ApartWork, int], ApartEnd | str]
"""Runs a job from an offset on. A text says why the process could not even begin; that proves nothing about the
records."""


def fetchable(run: Run, offset: int) -> Fetchable:
    """Whether the records from `offset` on can be fetched, by processes that try it."""
    first = run("answer", offset)
    if isinstance(first, str):
        return Fetchable(failure=first)
    if not first.why:
        return Fetchable()
    at, deaths, why = offset, 0, ""
    while deaths < DEATHS:
        end = run("batches", at)
        if isinstance(end, str):
            return Fetchable(failure=end)
        if not end.why:
            return Fetchable(end.next) if end.next > offset else Fetchable()
        deaths = deaths + 1 if end.next == at else 1
        at, why = end.next, end.why
    return Fetchable(at, why)


def table_fetchable(run: Run, offset: int) -> Fetchable:
    """Whether all of a topic can be read, by a process that tries it. One death is enough: the table is read again
    after a while."""
    end = run("table", offset)
    return Fetchable(failure=end) if isinstance(end, str) else Fetchable(end.next, end.why) if end.why else Fetchable()


@dataclass(frozen=True, slots=True)
class ApartSource:
    """The partition of a job. For the job `table` the number is the topic's number of partitions."""

    kafka: settings.Settings
    group: str
    place: TopicPartition
    memory: int = 0

    def job(self, does: ApartWork, offset: int, until: int = -1) -> bytes:
        topic, number = self.place
        job = ApartJob(dict(self.kafka), self.group, topic, number, offset, does, until, self.memory)
        return msgspec.json.encode(job) + b"\n"


class ApartProcess:
    """A process that runs one job. It ends when this process ends or closes it."""

    def __init__(self, job: bytes) -> None:
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self.stdout: IO[bytes] = self._process.stdout
        with contextlib.suppress(OSError):
            self._stdin.write(job)
            self._stdin.flush()

    def kill(self) -> None:
        self._process.kill()

    def ended(self) -> int:
        """Waits for the end. Returns the exit code, or the negative signal number."""
        code = self._process.wait()
        for pipe in (self._stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        return code


JudgeProbe = Callable[[Run, int], Fetchable]


class KafkaProbe:
    """Satisfies sluicegate.streams.contracts.stores.Probe. A thread waits for the processes."""

    def __init__(self, source: ApartSource, offset: int, judge: JudgeProbe = fetchable) -> None:
        self._source, self._offset, self._judge = source, offset, judge
        self._outcome: Fetchable | None = None
        self._closed = False
        self._process: ApartProcess | None = None
        threading.Thread(target=self._run, name=f"probe-{source.place[0]}-{source.place[1]}", daemon=True).start()

    def result(self) -> Fetchable | None:
        return self._outcome

    def close(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        outcome = Fetchable(failure="an error of the probe itself, please report it")
        try:
            outcome = self._judge(self._attempt, self._offset)
        except OSError as error:
            outcome = Fetchable(failure=f"no process can be started: {error}")
        finally:
            self._outcome = outcome  # the owner waits for it, whatever happened

    def _attempt(self, does: ApartWork, offset: int) -> ApartEnd | str:
        if self._closed:
            return "it was ended"
        process = self._process = ApartProcess(self._source.job(does, offset))
        timer = threading.Timer(LONGEST, process.kill)
        timer.daemon = True
        timer.start()
        last: ApartReport | None = None
        for line in process.stdout:
            with contextlib.suppress(*UNREADABLE):
                last = msgspec.json.decode(line, type=ApartReport)
        code = process.ended()
        late = not timer.is_alive()
        timer.cancel()
        self._process = None
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if late or self._closed:
            return f"its process was not done within {LONGEST:g} s" if late else "it was ended"
        if last is None:
            return f"its process ended before it could fetch ({how})"
        if last.idle:
            return f"it did nothing for {IDLE_SECONDS:g} s"
        if last.done:
            return ApartEnd(last.next, last.error)
        return ApartEnd(last.next, f"the process that fetched it ended ({how})")


class ApartRecord:
    """A record that another process fetched. It satisfies Record."""

    __slots__ = ("_place", "_sent")

    def __init__(self, place: TopicPartition, sent: SentRecord) -> None:
        self._place, self._sent = place, sent

    def topic(self) -> str:
        return self._place[0]

    def set_topic(self, topic: str) -> None:
        self._place = topic, self._place[1]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._sent.offset

    def key(self) -> bytes | None:
        return self._sent.key

    def value(self) -> bytes | None:
        return self._sent.value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._sent.headers

    def timestamp(self) -> tuple[int, int]:
        return self._sent.at

    def leader_epoch(self) -> int | None:
        return None if self._sent.epoch < 0 else self._sent.epoch

    def error(self) -> None:
        return None


class ApartRecords:
    """The records of `source` from `offset` up to `until`, which another process fetches. It stops fetching while
    WAITING records are unread."""

    def __init__(self, source: ApartSource, offset: int, until: int) -> None:
        self.paused = False
        self._place = source.place
        self._queue: queue.Queue[ApartRecord | None] = queue.Queue(WAITING)
        self._ended = self._closed = False
        self._process = ApartProcess(source.job("records", offset, until))
        threading.Thread(target=self._read, name=f"apart-{source.place[0]}-{source.place[1]}", daemon=True).start()

    def take(self, most: int) -> list[ApartRecord]:
        records: list[ApartRecord] = []
        while not self._ended and not self.paused and len(records) < most:
            try:
                record = self._queue.get_nowait()
            except queue.Empty:
                break
            if record is None:
                self._ended = True
            else:
                records.append(record)
        return records

    @property
    def ended(self) -> bool:
        """Whether all records were taken."""
        return self._ended

    def close(self) -> None:
        self._closed = True
        self._process.kill()

    def _read(self) -> None:
        stdout = self._process.stdout
        while len(head := stdout.read(4)) == 4:
            data = stdout.read(int.from_bytes(head, "big"))
            try:
                self._put(ApartRecord(self._place, msgspec.msgpack.decode(data, type=SentRecord)))
            except UNREADABLE:
                break  # it ended within a record
        self._process.ended()
        self._put(None)

    def _put(self, record: ApartRecord | None) -> None:
        while not self._closed:
            with contextlib.suppress(queue.Full):
                self._queue.put(record, timeout=0.5)
                return
