"""Latency under load: `python -m tests.bench.peers --latency`.

Each record gives a result. A system starts with a backlog, which warms it; its top speed is that of the second half of
the backlog. Then it gets parts of that rate, one after the other. Latency is from the planned moment of sending to the
result in hand, of readers of committed records. The sender is a process of its own, on the same machine.
"""

import multiprocessing
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from statistics import median

from confluent_kafka import Consumer

from tests.bench import latency, samples
from tests.bench.__main__ import alternating, say
from tests.bench.latency import Latency
from tests.bench.load import create, delete, send
from tests.bench.peers import contest
from tests.bench.peers.peers import FLINK, KAFKA_STREAMS, PEERS, Tools
from tests.bench.results import reader
from tests.bench.systems import Running, Work

SHARES = (10, 25, 50, 75, 90)  # percent of the top speed
SYSTEMS = (
    *(f"{store}{delivery}" for delivery in ("", f" {contest.TRANSACTIONAL}") for store in ("sqlite", "redis")),
    f"{KAFKA_STREAMS} exactly once 100 ms",
    f"{FLINK} heap exactly once 100 ms",
    f"{FLINK} RocksDB exactly once 100 ms",
)


def once(system: str, bootstrap: str, backlog: int, seconds: float, tools: Tools) -> tuple[float, dict[int, Latency]]:
    """The top speed, and the latency at each share of it. Shares after one that was too much are left out."""
    topic = f"loaded-{uuid.uuid4().hex[:8]}"
    create(bootstrap, topic)
    send(bootstrap, topic, ((f"k{number % latency.KEYS}", b'{"amount":0}') for number in range(backlog)))
    try:
        with (
            contest.opened(system, Work(bootstrap, topic, count=1), tools) as run,
            closing(reader(bootstrap, run.out)) as consumer,
        ):
            measurements, _ = samples.taken(consumer, range(1, backlog + 1), run.process, run.server)
            top = backlog * 0.45 / samples.part(measurements, backlog * 0.5, backlog * 0.95, 1).seconds
            outcomes: dict[int, Latency] = {}
            for share in SHARES:
                outcome = outcomes[share] = _at(run, consumer, bootstrap, topic, top * share / 100, seconds)
                if outcome.problems:
                    break
            return top, outcomes
    finally:
        delete(bootstrap, topic)


def _at(run: Running, consumer: Consumer, bootstrap: str, topic: str, rate: float, seconds: float) -> Latency:
    """The first third is dropped."""
    many = round(rate * seconds)
    process = multiprocessing.get_context("spawn").Process(
        target=latency.send, args=(bootstrap, topic, many, rate), daemon=True
    )

    def sending() -> None:
        process.start()
        process.join()

    return latency.measured(run, consumer, sending, many, many // 3, rate)


def compared(
    bootstrap: str, systems: Sequence[str], backlog: int, seconds: float, rounds: int, tools: Tools
) -> Iterator[str]:
    """Prints the table; yields what was wrong. A rate that is too much is no failure: the table says so."""
    latencies: dict[str, list[tuple[float, dict[int, Latency]]]] = {system: [] for system in systems}
    for turn, system in alternating(tuple(systems), rounds):
        outcome = once(system, bootstrap, backlog, seconds, tools)
        latencies[system].append(outcome)
        rates = ", ".join(f"{share} %: {latency.p99:.0f} ms" for share, latency in outcome[1].items())
        say(f"round {turn + 1}: {system} top {outcome[0]:.0f}/s, p99 at {rates}")
        yield from (
            f"{system}: {p}" for latency in outcome[1].values() for p in latency.problems if "more than one" in p
        )
    print(f"\n### Latency under load, {rounds} rounds\n\n{table(latencies)}", flush=True)


def table(latencies: Mapping[str, Sequence[tuple[float, Mapping[int, Latency]]]]) -> str:
    """Medians of the rounds."""
    head = ["system", "guarantee", "top k/s", *(f"{share} %" for share in SHARES)]
    rows = [head, ["---"] * len(head)]
    for system, outcomes in latencies.items():
        guarantee = contest.OURS[system] if system in contest.OURS else PEERS[system].guarantee
        cells = [_cell([outcome[share] for _, outcome in outcomes if share in outcome]) for share in SHARES]
        rows.append([system, guarantee, f"{median(top for top, _ in outcomes) / 1e3:.0f}", *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", "Milliseconds: p50 / p99 / p99.9, at these parts of the top speed."])


def _cell(many: Sequence[Latency]) -> str:
    if not many or any(outcome.problems for outcome in many):
        return "too much"
    return " / ".join(f"{median(getattr(outcome, part) for outcome in many):.0f}" for part in ("p50", "p99", "p999"))
