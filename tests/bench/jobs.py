"""J1 and J2: the whole topic through one system, once.

The clock starts when the system's first record is at hand: the loop says so itself, for the product it is the log event
of its first claimed partition, before any record (so claiming the others counts, too). It stops when the last expected
result is visible to a read_committed consumer. CPU time is that of the worker process, all threads, between these two
moments.
"""

import os
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import Consumer

from tests.bench.load import Expected
from tests.bench.processes import peak_mib
from tests.bench.results import await_results, judge, reader, written
from tests.bench.systems import LOOP, TIGHT, Running, Work, running
from tests.waiting import wait_until

TIMEOUT = 300.0


class Outcome(NamedTuple):
    """One run. Seconds of wall time, and of CPU time of the worker and of the supervisor; peak memory of the worker in
    MiB; the share of the machine that others used meanwhile."""

    seconds: float
    worker: float
    supervisor: float
    peak: float
    others: float
    problems: list[str]


def once(system: str, work: Work, records: int, expected: Mapping[str, Expected]) -> Outcome:
    """Run it. Raises RuntimeError when it gives no results at all."""
    with running(system, work) as run:
        consumer = reader(work.bootstrap, run.out)
        try:
            end, values = await_results(consumer, len(expected), run.process, TIMEOUT)
            begin = run.process.begun
            assert begin is not None, "results without a first record"
            peak = peak_mib(run.process.worker)
            problems = judge(values, expected, work.rows)
            if system not in (LOOP, TIGHT):
                problems += _metrics(run, records)
            problems += _extra(consumer, run, len(expected))
        finally:
            consumer.close()
    seconds = end.at - begin.at
    others = (end.others - begin.others) / seconds / (os.cpu_count() or 1)
    return Outcome(
        seconds, end.worker - begin.worker, end.supervisor - begin.supervisor, peak, max(0.0, others), problems
    )


def _extra(consumer: Consumer, run: Running, many: int) -> list[str]:
    """After a clean end nothing more comes."""
    if code := run.process.stop():
        return [f"it ended with {code}"]
    found = written(consumer, run.out), written(consumer, run.dead)
    return (
        [] if found == (many, 0) else [f"{found[0]} results and {found[1]} dead letters were written, not {many} and 0"]
    )


def _metrics(run: Running, records: int) -> list[str]:
    """Metrics are on, and count what was read."""
    try:
        wait_until(lambda: consumed(run.process.port) == records, 10, "the count of records in /metrics", pause=0.2)
    except TimeoutError:
        return [f"/metrics says {consumed(run.process.port):g} records, not {records}"]
    return []


def consumed(port: int) -> float:
    """What the port's metrics say of consumed records."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sluicegate_records_consumed_total"))
