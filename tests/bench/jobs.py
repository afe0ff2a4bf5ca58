"""J1 and J2: the whole topic through one system, once.

The clock starts when the system's first record is at hand: the loop says so itself, for the product it is the log event
of its first claimed partition, before any record (so claiming the others counts, too). It stops when the last expected
result is visible to a read_committed consumer. CPU time is that of the worker processes, all threads, between these two
moments.
"""

import os
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple

from tests.bench.load import Expected
from tests.bench.processes import tree_seconds
from tests.bench.results import await_results, committed, judge, reader
from tests.bench.systems import LOOP, Running, Work, running
from tests.waiting import wait_until

TIMEOUT = 300.0


class Outcome(NamedTuple):
    """One run. Seconds of wall time, and of CPU time of the workers and of the supervisor; peak memory of the workers
    in MiB; the share of the machine that others used meanwhile; CPU seconds of the store's server, 0 without one."""

    seconds: float
    worker: float
    supervisor: float
    peak: float
    others: float
    problems: list[str]
    server: float = 0.0


def once(system: str, work: Work, records: int, expected: Mapping[str, Expected]) -> Outcome:
    """Run it. Raises RuntimeError when it gives no results at all."""
    with running(system, work) as run:
        outcome = measured(run, work, expected)
        if system != LOOP:
            outcome.problems.extend(_metrics(run, records))
        outcome.problems.extend(extra(run, work, len(expected)))
    return outcome


def measured(run: Running, work: Work, expected: Mapping[str, Expected]) -> Outcome:
    """Until the last result is there."""
    consumer = reader(work.bootstrap, run.out)
    spent = tree_seconds(run.server) if run.server else 0.0
    try:
        end, values = await_results(consumer, len(expected), run.process, TIMEOUT)
    finally:
        consumer.close()
    begin = run.process.begun
    assert begin is not None, "results without a first record"
    spent = tree_seconds(run.server) - spent if run.server else 0.0
    seconds = end.at - begin.at
    others = max(0.0, (end.others - begin.others) / seconds / (os.cpu_count() or 1))
    worker, supervisor = end.worker - begin.worker, end.supervisor - begin.supervisor
    problems = judge(values, expected, work.rows)
    return Outcome(seconds, worker, supervisor, run.process.peak_mib(), others, problems, spent)


def extra(run: Running, work: Work, many: int) -> list[str]:
    """After a clean end nothing more comes."""
    if code := run.process.stop():
        return [f"it ended with {code}"]
    counts = committed(work.bootstrap, run.out), committed(work.bootstrap, run.dead)
    return (
        []
        if counts == (many, 0)
        else [f"{counts[0]} results and {counts[1]} dead letters were written, not {many} and 0"]
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
