"""H1-fail: what failing handlers cost. One agent, a message sent for each one that it takes; 0, 1 and 10 of 100 calls
raise for good.

The clock starts as in `jobs` and stops when every message has its output or its dead letter in its topic. Nothing may
be there twice.
"""

import os
import sys
import uuid
from pathlib import Path
from statistics import median

from tests.bench.functions import failing
from tests.bench.jobs import TIMEOUT, Outcome
from tests.bench.processes import PROJECT, peak_mib
from tests.bench.results import reader, written
from tests.bench.systems import HEAD, Running, product, started
from tests.bench.table import aligned, spread
from tests.waiting import wait_until

JOB = "H1-fail"
PART = 10  # of the records
RATES = (0, 1, 10)  # messages of 100 whose handler raises
STORES = ("memory", "sqlite")

FILE = (
    HEAD
    + """\
    handler: tests.bench.functions:sometimes
    retry: {{attempts: 2, backoff: 10ms..100ms}}
    to: {{topic: {app}.out}}
"""
)


def once(store: str, bootstrap: str, topic: str, records: int, rate: int) -> Outcome:
    """Run it. Raises RuntimeError or TimeoutError when it does not come to its end."""
    app, url = f"bench-{uuid.uuid4().hex[:8]}", {"memory": "memory://", "sqlite": "sqlite:///bench.db"}[store]

    def command(_out: str, folder: Path) -> list[str]:
        return product(FILE.format(app=app, bootstrap=bootstrap, store=url, topic=topic), folder)

    environment = {"BENCH_RECORDS": str(records), "BENCH_FAILING": str(rate), "PYTHONPATH": str(PROJECT)}
    with started(store, bootstrap, app, command, **environment) as run:
        expected = sum(failing(number, rate) for number in range(records))
        return _measured(run, bootstrap, records, expected)


def _measured(run: Running, bootstrap: str, records: int, expected: int) -> Outcome:
    consumer = reader(bootstrap, run.out)

    def done() -> bool:
        run.process.check()
        return written(consumer, run.out) + written(consumer, run.dead) >= records

    try:
        wait_until(done, TIMEOUT, "an outcome of every message", pause=0.05)
        end, begin = run.process.mark(), run.process.begun
        assert begin is not None, "an end without a beginning"
        peak = peak_mib(run.process.worker)
        run.process.stop()
        sent, dead = written(consumer, run.out), written(consumer, run.dead)
    finally:
        consumer.close()
    problems = (
        []
        if (sent, dead) == (records - expected, expected)
        else [f"{sent} outputs and {dead} dead letters, not {records - expected} and {expected}"]
    )
    seconds = end.at - begin.at
    others = (end.others - begin.others) / seconds / (os.cpu_count() or 1)
    return Outcome(
        seconds, end.worker - begin.worker, end.supervisor - begin.supervisor, peak, max(0.0, others), problems
    )


def table(store: str, records: int, results: dict[int, list[Outcome]]) -> str:
    """Ratios are taken within a round: what slows a round slows all rates."""
    rows = [("failing", "k/s", "wall / 0 %", "CPU / 0 %", "right")]
    for rate, outcomes in results.items():
        wall = [outcome.seconds / none.seconds for outcome, none in zip(outcomes, results[0], strict=True)]
        cpu = [
            max(outcome.worker, 0.01) / max(none.worker, 0.01)
            for outcome, none in zip(outcomes, results[0], strict=True)
        ]
        speed = spread([records / 1e3 / outcome.seconds for outcome in outcomes], "{:.1f}")
        right = sum(not outcome.problems for outcome in outcomes)
        rows.append((f"{rate} %", speed, spread(wall, "{:.2f}"), spread(cpu, "{:.2f}"), f"{right}/{len(outcomes)}"))
    others = median(outcome.others for outcomes in results.values() for outcome in outcomes)
    return (
        f"\n{JOB} {store}: a handler that raises for some messages, 2 attempts; {records} "
        f"records\n{aligned(rows)}\nothers: {others:.0%}"
    )


def run(bootstrap: str, topic: str, store: str, records: int, rounds: int) -> list[str]:
    """Print the table of one store; returns what was wrong. The rates alternate, each round in the other direction."""
    outcomes: dict[int, list[Outcome]] = {rate: [] for rate in RATES}
    problems = []
    for turn in range(rounds):
        for rate in RATES if turn % 2 == 0 else RATES[::-1]:
            outcome = once(store, bootstrap, topic, records, rate)
            outcomes[rate].append(outcome)
            print(f"{JOB} round {turn + 1}: {store}, {rate} % {outcome.seconds:.2f} s", file=sys.stderr, flush=True)
            problems += [f"{JOB}, {store}, {rate} %: {problem}" for problem in outcome.problems]
    print(table(store, records, outcomes), flush=True)
    return problems
