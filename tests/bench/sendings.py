"""`outbox`: rows that lie in the store until all are in the topic. `timeouts`: as many due at once, and how late armed
ones are.

The clock starts when the dispatcher says that it runs and stops when the brokers have the last row. CPU time is given
per row of each process that shares the machine: on n quiet cores the rate is at most n / (their sum), whatever a loaded
clock says.
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from tests.bench.load import PARTITIONS, create, delete
from tests.bench.processes import cpu_seconds, others_seconds, tree_seconds
from tests.bench.systems import SERVERS
from tests.chaos.worker import Worker
from tests.servers.shared import open_server
from tests.waiting import wait_until


class Kind(NamedTuple):
    """`part`: which part of the bench's records is so many rows."""

    title: str
    part: int


JOBS = {"outbox": Kind("rows of 200 bytes", 5), "timeouts": Kind("timeouts that are due at once", 10)}
STORES = ("sqlite", *SERVERS)
FILE = """\
app: {app}
kafka: {{bootstrap.servers: "{bootstrap}"}}
store: {store}
http: {{port: 0}}
accept_level: volatile
outbox: {{poll: 200ms}}
agents:
  idle: {{from: {app}.in, aggregate: {{count: 10}}, to: {{topic: {app}.t}}}}
"""
AT_ONCE = 1000
KEYS = 1000


class Spent(NamedTuple):
    """CPU seconds; 0 of a server in a container, and of a file's store, whose work is the dispatcher's."""

    dispatcher: float
    store: float
    broker: float


class Sent(NamedTuple):
    """Seconds of wall time; the share of the machine that others used; what was wrong."""

    seconds: float
    cpu: Spent
    others: float
    problems: list[str]


class Prepared(NamedTuple):
    """`server` is the store's pid, 0 when it has none that is seen here."""

    app: str
    store: Any
    server: int
    worker: Callable[[], Worker]


def once(job: str, broker: tuple[str, int], kind: str, rows: int) -> Sent:
    """One run on a store that is nobody else's. `broker` is its address and process, 0 for one that is not seen."""
    bootstrap, broker_pid = broker
    with _prepared(bootstrap, kind) as (app, store, server, worker):
        _fill(job, store, f"{app}.t", rows)
        run = worker()
        run.wait("dispatcher.running", timeout=60)
        begin, others = time.monotonic(), others_seconds()
        pids = int(run.events("dispatcher.started")[-1]["pid"]), server, broker_pid
        before = _spent(*pids)
        ends = _ends(bootstrap, f"{app}.t")
        wait_until(lambda: ends() >= rows, 600, f"{rows} messages", pause=0.05)
        seconds = time.monotonic() - begin
        cpu = Spent(*(now - then for now, then in zip(_spent(*pids), before, strict=True)))
        share = (others_seconds() - others) / seconds / (os.cpu_count() or 1)
        wait_until(lambda: store.outbox.count("pending") == 0, 60, "all marked")
        problems = [] if ends() == rows else [f"{ends()} messages, not {rows}"]
        return Sent(seconds, cpu, max(0.0, share), problems)


def _spent(dispatcher: int, store: int, broker: int) -> Spent:
    return Spent(cpu_seconds(dispatcher), *(tree_seconds(pid) if pid else 0.0 for pid in (store, broker)))


def _pid(server: Any) -> int:
    return int(getattr(server, "pid", 0))


def late(bootstrap: str, kind: str, armed: int, seconds: float = 20.0) -> list[float]:
    """Of timeouts that become due all along `seconds`, with `armed` in the store: from when each was due until the
    broker had it."""
    with _prepared(bootstrap, kind) as (app, store, _, worker):
        run = worker()
        run.wait("dispatcher.running", timeout=60)
        far, soon = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) + timedelta(seconds=60)
        count = int(seconds * 50)
        _insert(store, [_timeout(f"{app}.t", far) for _ in range(armed - count)])
        soon = max(soon, datetime.now(UTC) + timedelta(seconds=5))
        _insert(
            store, [_timeout(f"{app}.t", soon + timedelta(seconds=number * seconds / count)) for number in range(count)]
        )
        consumer = _reader(bootstrap, f"{app}.t")
        timestamps: list[float] = []
        while len(timestamps) < count:
            for record in consumer.consume(1000, 0.5):
                if record.error() is None:
                    timestamps.append(record.timestamp()[1] / 1000 - float(record.value().split(b" ")[0]))
        consumer.close()
        return sorted(timestamps)


@contextmanager
def _prepared(bootstrap: str, kind: str) -> Iterator[Prepared]:
    app = f"bench-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-"))
        cleaning.callback(shutil.rmtree, folder, ignore_errors=True)
        topics = [f"{app}.{name}" for name in ("in", "t", "dead")]
        create(bootstrap, *topics)
        cleaning.callback(delete, bootstrap, *topics)
        url, server = _opened(kind, folder, cleaning)
        store: Any = open_store(url)
        store.migrate()
        cleaning.callback(store.close)
        file = folder / "bench.yaml"
        file.write_text(FILE.format(app=app, bootstrap=bootstrap, store=url))

        def start() -> Worker:
            worker = Worker(file, "idle", "bench")
            cleaning.callback(worker.close)
            return worker

        yield Prepared(app, store, server, start)


def _opened(kind: str, folder: Path, cleaning: ExitStack) -> tuple[str, int]:
    """Its URL and its pid."""
    if kind not in SERVERS:
        return f"sqlite:///{folder}/bench.db", 0
    server = open_server(SERVERS[kind]())
    cleaning.callback(server.destroy)
    return str(server.url), _pid(server)


def _fill(job: str, store: Any, topic: str, rows: int) -> None:
    if job == "timeouts":
        _insert(store, [_timeout(topic, datetime.now(UTC) - timedelta(seconds=1)) for _ in range(rows)])
        return
    value = b"v" * 200
    for first in range(0, rows, AT_ONCE):
        messages = [
            OutboxMessage(topic, b"k%d" % (number % KEYS), value) for number in range(first, min(first + AT_ONCE, rows))
        ]
        store.outbox.add(None, messages, require_transaction=False)


def _timeout(topic: str, due_at: datetime) -> Timeout:
    return Timeout(
        id=uuid.uuid4(), destination=topic, due_at=due_at, key=b"k", value=b"%.6f " % due_at.timestamp() + b"v" * 180
    )


def _insert(store: Any, timeouts: list[Timeout]) -> None:
    for first in range(0, len(timeouts), AT_ONCE):
        store.timeouts.insert(*timeouts[first : first + AT_ONCE])


def _reader(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    return consumer


def _ends(bootstrap: str, topic: str) -> Callable[[], int]:
    consumer = _reader(bootstrap, topic)

    def count() -> int:
        marks = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20) for number in range(PARTITIONS)
        ]
        return sum(high for _, high in marks)

    return count


def line(job: str, store: str, rows: int, sent: Sent) -> str:
    """One line of a table: with the microseconds of CPU that each process spends on a row."""
    rate, cores = rows / sent.seconds, os.cpu_count() or 1
    costs = "  ".join(f"{name} {spent / rows * 1e6:5.1f}" for name, spent in sent.cpu._asdict().items())
    most = cores * rows / max(sum(sent.cpu), 0.01)
    return (
        f"{job:10} {store:12} {rate:10,.0f} rows/s  {sent.seconds:6.1f} s  us a row: {costs}  "
        f"(at most {most:,.0f}/s on {cores} cores)  others {sent.others:.0%}  "
        f"{'right' if not sent.problems else sent.problems}"
    )
