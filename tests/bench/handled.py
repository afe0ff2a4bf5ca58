"""H1 to H3: a whole topic through one handler agent, or through the loop that a person would write by hand, once.

The clock starts as in `jobs` and stops with the handler's call for the last message; where it sends, when the last
output is in its topic. Then the books: sums, rows and offsets in the database, outputs, /metrics.
"""

import os
import sys
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psycopg

from sluicegate.connectors import open_store
from tests.bench.jobs import TIMEOUT, Outcome, consumed
from tests.bench.processes import PROJECT, Mark, Measured, peak_mib
from tests.bench.results import await_results, reader, written
from tests.bench.systems import HEAD, LOOP, Running, started
from tests.waiting import wait_until

JOBS = {
    "H1": ("a handler without a session: a count", "count", 1),
    "H1-send": ("a handler without a session that sends one message each", "answer", 5),
    "H2": ("a handler with a PostgreSQL session and one insert each", "enter", 20),
    "H3": ("the same, the rows of a commit inserted together", "enter_together", 2),
}
"""What it is, the function, and which part of the records it gets."""
DATABASE = ("H2", "H3")
STORES = {LOOP: "", "memory": "memory://", "sqlite": "sqlite:///bench.db"}

FILE = (
    HEAD
    + """\
    handler: tests.bench.functions:{function}
    session: {session}
"""
)
TABLES = (
    "drop table if exists bench_orders, bench_offsets",
    "create table bench_orders (id text primary key, key text, amount integer)",
    "create table bench_offsets (number integer primary key, next bigint)",
)


@dataclass(frozen=True)
class Task:
    """`records` orders of `topic` through the job; `total` is the sum of their amounts. `store` is the URL of the
    store."""

    job: str
    bootstrap: str
    topic: str
    store: str
    records: int
    total: int

    @property
    def sends(self) -> bool:
        return self.job == "H1-send"

    @property
    def database(self) -> bool:
        return self.job in DATABASE


def once(system: str, task: Task) -> Outcome:
    """Run it. Raises RuntimeError when it does not come to its end."""
    with running(system, task) as run:
        end = _sent(run, task) if task.sends else _ended(run.process)
        begin = run.process.begun
        assert begin is not None, "an end without a beginning"
        peak = peak_mib(run.process.worker)
        problems = [*_metrics(system, run.process, task), *_books(run, task)]
    seconds = end.at - begin.at
    others = (end.others - begin.others) / seconds / (os.cpu_count() or 1)
    return Outcome(
        seconds, end.worker - begin.worker, end.supervisor - begin.supervisor, peak, max(0.0, others), problems
    )


def _ended(process: Measured) -> Mark:
    def done() -> bool:
        process.check()
        return process.ended is not None

    wait_until(done, TIMEOUT, "the last message", pause=0.05)
    assert process.ended is not None
    return process.ended


def _sent(run: Running, task: Task) -> Mark:
    """By the ends of the topic's partitions: reading the outputs meanwhile would take the CPU from who makes them."""
    consumer = reader(task.bootstrap, run.out)

    def done() -> bool:
        run.process.check()
        return written(consumer, run.out) >= task.records

    try:
        wait_until(done, TIMEOUT, "the last output", pause=0.05)
        return run.process.mark()
    finally:
        consumer.close()


def _metrics(system: str, process: Measured, task: Task) -> list[str]:
    if system == LOOP:
        return []
    try:
        wait_until(lambda: consumed(process.port) == task.records, 10, "the count of records in /metrics", pause=0.2)
    except TimeoutError:
        return [f"/metrics says {consumed(process.port):g} records, not {task.records}"]
    return []


def _books(run: Running, task: Task) -> list[str]:
    """Sums of what was sent while it runs; what is where after a clean end."""
    results: dict[str, tuple[object, object]] = {}
    consumer = reader(task.bootstrap, run.out)
    try:
        if task.sends:
            decode = msgspec.json.Decoder().decode
            _, values = await_results(consumer, task.records, run.process, TIMEOUT)
            results["sum of outputs"] = sum(decode(value)["amount"] for value in values), task.total
        results["exit code"] = run.process.stop(), 0
        results["sum of calls"] = run.process.total, task.total
        results["outputs"] = written(consumer, run.out), task.records * task.sends
        results["dead letters"] = written(consumer, run.dead), 0
    finally:
        consumer.close()
    if task.database:
        with psycopg.connect(task.store) as connection:
            [row] = connection.execute("select count(*), sum(amount) from bench_orders").fetchall()
        results["rows"] = tuple(row), (task.records, task.total)
    return [f"{what}: {is_}, not {wanted}" for what, (is_, wanted) in results.items() if is_ != wanted]


def running(system: str, task: Task) -> AbstractContextManager[Running]:
    """As systems.running, with empty tables."""
    app = f"bench-{uuid.uuid4().hex[:8]}"
    if task.database:
        _prepare(task.store)

    def command(out: str, folder: Path) -> list[str]:
        return _loop(task, out, app) if system == LOOP else _product(task, app, folder)

    return started(system, task.bootstrap, app, command, BENCH_RECORDS=str(task.records), PYTHONPATH=str(PROJECT))


def _prepare(store: str) -> None:
    opened = open_store(store)
    opened.migrate()
    opened.close()
    with psycopg.connect(store) as connection:
        for text in TABLES:
            connection.execute(text)


def _loop(task: Task, out: str, group: str) -> list[str]:
    command = [sys.executable, "-m", "tests.bench.handloop", task.job, task.bootstrap, task.topic, out, group]
    return [*command, "--store", task.store] if task.database else command


def _product(task: Task, app: str, folder: Path) -> list[str]:
    _, function, _ = JOBS[task.job]
    file = folder / "bench.yaml"
    session = "true" if task.database else "false"
    text = FILE.format(
        app=app, bootstrap=task.bootstrap, store=task.store, topic=task.topic, function=function, session=session
    )
    file.write_text(text + f"    to: {{topic: {app}.out}}\n" * task.sends)
    return [str(Path(sys.executable).with_name("sluicegate")), "run", str(file)]
