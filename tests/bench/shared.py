"""J9: J1 with `scope: shared` on Redis, by two workers; CPU time of every process, and what it implies on two quiet
cores.

The clock starts when the first partition is claimed and stops when the last result is visible to a read_committed
consumer.
"""

import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil

from sluicegate.connectors import open_store
from tests.bench.load import Expected
from tests.bench.processes import cpu_seconds, others_seconds
from tests.bench.results import await_results, judge, reader, written
from tests.bench.systems import Running, Work, file_of, product, started
from tests.servers import Valkey
from tests.servers.shared import open_server
from tests.waiting import wait_until

JOB = "J9"
TITLE = "J1 through one shared buffer on Redis, two workers"
WORKERS = 2
TIMEOUT = 600.0
CORES = 2


class Shared(NamedTuple):
    """One run: seconds of wall time, CPU seconds of workers, Redis, broker and the rest of ours, share of the machine
    that others used."""

    seconds: float
    workers: float
    redis: float
    broker: float
    rest: float
    others: float
    problems: list[str]


def once(bootstrap: str, broker: int, topic: str, records: int, expected: Mapping[str, Expected]) -> Shared:
    """Run it; `broker` is the pid of Kafka's process, 0 for a container. Raises RuntimeError when it gives no results
    at all."""
    app = f"bench-shared-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        server = open_server(Valkey())
        cleaning.callback(server.destroy)
        store = open_store(str(server.url))
        store.migrate()
        cleaning.callback(store.close)
        text = file_of(Work(bootstrap, topic), app, str(server.url))
        text = text.replace("    aggregate:", "    scope: shared\n    aggregate:")

        def command(out: str, folder: Path) -> list[str]:
            return [*product(text, folder), "--workers", str(WORKERS)]

        run = cleaning.enter_context(started("shared", bootstrap, app, command))
        measurement = _measured(bootstrap, run, getattr(server, "pid", 0), broker, expected)
        if rest := store.buffer.count(f"{app}/bench"):
            measurement.problems.append(f"{rest} records are left in the buffer")
        return measurement


def _measured(bootstrap: str, run: Running, redis: int, broker: int, expected: Mapping[str, Expected]) -> Shared:
    consumer, process = reader(bootstrap, run.out), run.process
    try:
        wait_until(lambda: process.begun, 180, "the first claim", pause=0.01)
        begin, others, before = time.monotonic(), others_seconds(), (_spent(redis), _spent(broker))
        _, values = await_results(consumer, len(expected), process, TIMEOUT)
        seconds, after = time.monotonic() - begin, (_spent(redis), _spent(broker))
        workers = sum(map(cpu_seconds, process.workers))
        rest = _spent(process.pid) - workers
        share = (others_seconds() - others) / seconds / (psutil.cpu_count() or 1)
        problems = judge(values, expected, rows=False)
        if code := process.stop():
            problems.append(f"it ended with {code}")
        if (counts := (written(consumer, run.out), written(consumer, run.dead))) != (len(expected), 0):
            problems.append(f"{counts[0]} results and {counts[1]} dead letters were written, not {len(expected)} and 0")
    finally:
        consumer.close()
    return Shared(seconds, workers, after[0] - before[0], after[1] - before[1], rest, max(0.0, share), problems)


def _spent(pid: int) -> float:
    """The process and all below it."""
    if not pid:
        return 0.0
    process = psutil.Process(pid)
    return sum(cpu_seconds(item.pid) for item in [process, *process.children(recursive=True)])


def line(records: int, cost: Shared) -> str:
    """As measured, and implied: all CPU time on two cores, of which one at most is Redis's, and one each worker's."""
    costs = [spent / records * 1e6 for spent in (cost.workers, cost.redis, cost.broker, cost.rest)]
    implied = min(CORES / sum(costs), 1 / max(costs[1], 0.01), WORKERS / costs[0]) * 1e6
    return (
        f"{JOB} {TITLE}; {records} records: {records / cost.seconds:,.0f} records/s wall (others "
        f"{cost.others:.0%}); CPU µs a record: "
        f"workers {costs[0]:.1f}, redis {costs[1]:.1f}, broker {costs[2]:.1f}, dispatcher and supervisor "
        f"{costs[3]:.1f}; on {CORES} quiet cores {implied:,.0f} records/s; "
        f"{'right' if not cost.problems else cost.problems}"
    )
