"""One run of the product on one input: what a record costs in the middle of it."""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tests.bench import jobs, samples
from tests.bench.growth.inputs import Input, difference
from tests.bench.results import reader
from tests.bench.samples import Sample
from tests.bench.systems import HEAD, Running, Work, opened, product, started
from tests.waiting import wait_until

END = 0.95  # of the records: what is after it is not measured
START = 600.0  # seconds until all partitions have their owner
SETTLED = 0.02  # of a core, that an agent takes at most when it has started

FOLD = """\
    aggregate:
      count: 100
      timeout: {{after: 10m, since: first}}
      compute: {{n: count, sum: {{sum: amount}}, max: {{max: amount}}}}
    to: {{topic: {app}.out}}
"""
MARKED = FOLD.replace("count: 100", "until: {{field: last, equals: true}}")


class Cost(NamedTuple):
    """CPU microseconds of workers and supervisor for a record, the peak of the workers' memory in MiB, other columns by
    their name, and what was wrong."""

    micros: float
    peak: float
    more: Mapping[str, float]
    problems: list[str]


class Trial(NamedTuple):
    """`rule` is the text below the agent's `from`, with {app} for the name. When so many partitions have their owner,
    `feed` gives the input, whose topic is there before. `columns` is called when all outputs are there."""

    topic: str
    rule: str
    feed: Callable[[], Input]
    claims: int = 0
    columns: Callable[[Running], Mapping[str, float]] = lambda run: {}


class Place(NamedTuple):
    """A run, the file of its app, and the URL of its store."""

    run: Running
    file: Path
    url: str


@contextmanager
def running(bootstrap: str, topic: str, rule: str, store: str = "sqlite") -> Iterator[Place]:
    """The product at work."""
    app = f"growth-{uuid.uuid4().hex[:8]}"
    files: list[Path] = []
    with ExitStack() as cleaning:
        url, server = opened(store, cleaning)

        def command(out: str, folder: Path) -> list[str]:
            files.append(folder / "bench.yaml")
            head = HEAD.format(app=app, bootstrap=bootstrap, store=url, topic=topic)
            return product(head + rule.format(app=app), folder)

        run = cleaning.enter_context(started("sluicegate", bootstrap, app, command))
        yield Place(replace(run, server=server), files[0], url)


def measured(bootstrap: str, trial: Trial) -> Cost:
    """Until all outputs are there."""
    with running(bootstrap, trial.topic, trial.rule) as place:
        run = place.run
        if trial.claims:
            wait_until(lambda: _claimed(run, trial.claims), START, "all claims", pause=0.1)
            wait_until(lambda: used(run, 1.0) < SETTLED * len(run.process.workers), START, "the end of the start")
        source = trial.feed()
        measurements, values = sampled(bootstrap, run, source)
        columns, peak = trial.columns(run), run.process.peak_mib()
        problems = difference(values, source.wanted)
        problems += jobs.extra(run, Work(bootstrap, source.topic), len(values))
    end = source.warm + (source.records - source.warm) * END
    part = samples.part(measurements, source.warm, end, os.cpu_count() or 1)
    return Cost((part.worker + part.supervisor) / (end - source.warm) * 1e6, peak, columns, problems)


def used(run: Running, seconds: float) -> float:
    """CPU seconds a second of workers and supervisor, from now on."""
    before = run.process.mark()
    time.sleep(seconds)
    after = run.process.mark()
    return (after.worker + after.supervisor - before.worker - before.supervisor) / seconds


def _claimed(run: Running, many: int) -> bool:
    run.process.check()
    return run.process.claims >= many


def sampled(
    bootstrap: str, run: Running, source: Input, size: Callable[[], float] = lambda: 0.0
) -> tuple[list[Sample], list[bytes]]:
    """Read all outputs, with samples on the way."""
    consumer = reader(bootstrap, run.out)
    try:
        measurements, values = samples.taken(consumer, source.completed, run.process, run.server, size)
    finally:
        consumer.close()
    begin = run.process.begun
    assert begin is not None, "results without a first record"
    return [Sample(0, begin, 0.0), *measurements], values
