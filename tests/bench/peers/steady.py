"""J1 in its steady state: `python -m tests.bench.peers --steady`.

One long stream (tests/bench/arrivals.py) goes through each system. The curve has the work per CPU second in each tenth
of the stream. The figure is that of the tenths after the warm-up, without the last one, in which keys run out. So the
start of a system and the JVM's compiler are no part of it. Every result is compared with what must come out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tests.bench import arrivals, jobs, load, samples
from tests.bench.__main__ import alternating, say
from tests.bench.arrivals import Stream
from tests.bench.peers import contest, price, report
from tests.bench.peers.peers import FLINK, ONCE, PEERS, Tools
from tests.bench.results import judge, reader
from tests.bench.samples import Part
from tests.bench.systems import Running, Work
from tests.bench.table import spread

TENTHS = 10
WARM_UP = 4  # tenths
LONG = 86_400  # seconds after which groups end if a run may take more than ten minutes
FLINKS = (f"{FLINK} RocksDB", f"{FLINK} heap")
SYSTEMS = (
    *(
        f"{store}{delivery}"
        for delivery in ("", f" {contest.TRANSACTIONAL}")
        for store in ("sqlite", "redis", "postgresql")
    ),
    *(
        name
        for name, peer in PEERS.items()
        if name.startswith((report.KAFKA_STREAMS, FLINK)) and peer.guarantee == ONCE
    ),
)


class Shape(NamedTuple):
    """Of the stream: records, keys open at every moment, records of a key; and the groups of a partition that the
    product keeps in memory, 0 for its default."""

    records: int
    keys: int
    per_key: int = load.PER_KEY
    hot: int = 0

    def __str__(self) -> str:
        hot = f", `hot_groups: {self.hot}` in each of {load.PARTITIONS} partitions" if self.hot else ""
        return f"{self.records} records, {self.keys} open keys, {self.per_key} records a key{hot}"


class Steady(NamedTuple):
    """Each tenth, the steady part, the peak of the workers' memory in MiB, and what was wrong."""

    tenths: list[Part]
    steady: Part
    peak: float
    problems: list[str]


def once(system: str, work: Work, stream: Stream, tools: Tools) -> Steady:
    with contest.opened(system, work, tools) as run:
        outcome = _measured(run, work, stream)
        outcome.problems.extend(jobs.extra(run, work, len(stream.expected)))
    return outcome


def _measured(run: Running, work: Work, stream: Stream) -> Steady:
    consumer = reader(work.bootstrap, run.out)
    try:
        measurements, values = samples.taken(consumer, stream.completed, run.process, run.server)
    finally:
        consumer.close()
    begin = run.process.begun
    assert begin is not None, "results without a first record"
    measurements.insert(0, samples.Sample(0, begin, 0.0))
    records, cores = stream.completed[-1], os.cpu_count() or 1
    edges = [records * tenth / TENTHS for tenth in range(TENTHS + 1)]
    tenths = [samples.part(measurements, *edge, cores) for edge in pairwise(edges)]
    steady = samples.part(measurements, edges[WARM_UP], edges[-2], cores)
    return Steady(tenths, steady, run.process.peak_mib(), judge(values, stream.expected, rows=False))


def compared(bootstrap: str, systems: Sequence[str], shape: Shape, rounds: int, tools: Tools) -> Iterator[str]:
    """Prints the tables; yields what was wrong."""
    records, topic = shape.records, f"steady-{shape.records}"
    say(f"sending {records} records")
    stream = arrivals.fill(bootstrap, topic, records, shape.keys, per_key=shape.per_key)
    work = Work(bootstrap, topic, count=shape.per_key, hot=shape.hot, after=LONG if shape.hot else Work.after)
    steadys: dict[str, list[Steady]] = {system: [] for system in systems}
    for turn, system in alternating(tuple(systems), rounds):
        outcome = once(system, work, stream, tools)
        steadys[system].append(outcome)
        say(f"round {turn + 1}: {system} {_rates(outcome, records)} k per CPU-s, {outcome.problems or 'right'}")
        yield from (f"{system}: {problem}" for problem in outcome.problems)
    print(f"\n### J1 in its steady state, {shape}, {rounds} rounds\n")
    print(table(steadys, records), f"\n{price.line()}\n", curve(steadys, records), sep="\n", flush=True)


def _rates(outcome: Steady, records: int) -> str:
    return " ".join(f"{records / TENTHS / 1e3 / max(tenth.worker, 0.01):.0f}" for tenth in outcome.tenths)


def table(steadys: Mapping[str, Sequence[Steady]], records: int) -> str:
    """Work in the steady part. Ratios are those to the best of the peers in the same round, and then their median."""
    part = records * (TENTHS - 1 - WARM_UP) / TENTHS
    groups = {
        name: [steady for steady in steadys if steady.startswith(name)] for name in (report.KAFKA_STREAMS, *FLINKS)
    }
    head = ["system", "guarantee", "k/s", "k per CPU-s", *(f"CPU / {name}" for name in groups)]
    rows = [[*head, "EUR a billion", "MiB", "server CPU-s", "others", "right"]]
    rows.append(["---"] * len(rows[0]))
    for system, outcomes in steadys.items():
        server = median(outcome.steady.server for outcome in outcomes)
        costs = [price.euros((outcome.steady.worker + outcome.steady.server) / part * 1e9) for outcome in outcomes]
        rows.append(
            [
                system,
                contest.OURS[system] if system in contest.OURS else PEERS[system].guarantee,
                spread([part / 1e3 / outcome.steady.seconds for outcome in outcomes], "{:.0f}"),
                spread([part / 1e3 / outcome.steady.worker for outcome in outcomes], "{:.0f}"),
                *(_ratio(steadys, outcomes, names) for names in groups.values()),
                f"{median(costs):.2f}",
                f"{max(outcome.peak for outcome in outcomes):.0f}",
                f"{server:.1f}" if server else "",
                f"{median(outcome.steady.others for outcome in outcomes):.0%}",
                f"{sum(not outcome.problems for outcome in outcomes)}/{len(outcomes)}",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ratio(steadys: Mapping[str, Sequence[Steady]], outcomes: Sequence[Steady], others: Sequence[str]) -> str:
    ratios = [
        min(steadys[other][turn].steady.worker for other in others) / outcome.steady.worker
        for turn, outcome in enumerate(outcomes)
        if others and all(turn < len(steadys[other]) for other in others)
    ]
    return spread(ratios, "{:.2f}") if ratios else ""


def curve(steadys: Mapping[str, Sequence[Steady]], records: int) -> str:
    """Thousand records per CPU second in each tenth of the stream, medians of the rounds."""
    lines = [f"| system | {' | '.join(f'{tenth + 1}' for tenth in range(TENTHS))} |", "|---" * (TENTHS + 1) + "|"]
    for system, outcomes in steadys.items():
        rates = [
            median(records / TENTHS / 1e3 / max(outcome.tenths[tenth].worker, 0.01) for outcome in outcomes)
            for tenth in range(TENTHS)
        ]
        lines.append(f"| {system} | {' | '.join(f'{rate:.0f}' for rate in rates)} |")
    return "\n".join(lines)
