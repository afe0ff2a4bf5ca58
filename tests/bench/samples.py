"""What a system has used at moments of its run, and so in each part of the stream.

A sample is taken when results came and for a moment none came, or after a quarter of a second: the number of results,
the time and the CPU seconds. The number of results says how many records are behind them. Between two samples the CPU
time is taken to be even.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer

from tests.bench.processes import Mark, Measured, tree_seconds

EVERY = 0.25
PATIENCE = 120.0  # seconds without a result


class Sample(NamedTuple):
    """So many records are behind the results that were there at `mark`; `server`: CPU seconds of the store's server;
    `size`: bytes of the store."""

    records: float
    mark: Mark
    server: float
    size: float = 0.0


class Part(NamedTuple):
    """Wall seconds, CPU seconds of the workers and of the store's server, the share of the machine that others used,
    and CPU seconds of the supervisor."""

    seconds: float
    worker: float
    server: float
    others: float
    supervisor: float = 0.0


def taken(
    consumer: Consumer,
    completed: Sequence[int],
    process: Measured,
    server: int,
    size: Callable[[], float] = lambda: 0.0,
) -> tuple[list[Sample], list[bytes]]:
    """Read all results. Raises RuntimeError when the system ends before, or when no results come."""
    values: list[bytes] = []
    samples: list[Sample] = []
    sampled, last = 0, time.monotonic()
    while len(values) < len(completed):
        message = consumer.poll(0.05)
        values += [
            fetched_message.value()
            for fetched_message in ([] if message is None else [message, *consumer.consume(1000, 0)])
            if fetched_message.error() is None
        ]
        now = time.monotonic()
        if len(values) > sampled and (message is None or now - last > EVERY or len(values) >= len(completed)):
            sampled, last = len(values), now
            spent = tree_seconds(server) if server else 0.0
            samples.append(Sample(completed[min(sampled, len(completed)) - 1], process.mark(), spent, size()))
        elif message is None:
            process.check()
            if now - last > PATIENCE:
                raise RuntimeError(f"{len(values)} of {len(completed)} results:\n{process.tail()}")
    return samples, values


def part(samples: Sequence[Sample], begin: float, end: float, cores: int) -> Part:
    """Between these two numbers of records."""
    first, last = _at(samples, begin), _at(samples, end)
    seconds = last.mark.at - first.mark.at
    others = (last.mark.others - first.mark.others) / max(seconds, 0.01) / cores
    worker, server = last.mark.worker - first.mark.worker, last.server - first.server
    return Part(seconds, worker, server, max(0.0, others), last.mark.supervisor - first.mark.supervisor)


def _at(samples: Sequence[Sample], records: float) -> Sample:
    place = min(max(bisect_left([sample.records for sample in samples], records), 1), len(samples) - 1)
    before, after = samples[place - 1], samples[place]
    share = (records - before.records) / max(after.records - before.records, 1e-9)
    values = [one + (other - one) * share for one, other in zip(before.mark, after.mark, strict=True)]
    return Sample(records, Mark(*values), before.server + (after.server - before.server) * share)
