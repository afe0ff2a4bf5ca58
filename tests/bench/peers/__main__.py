"""`make bench PEERS=1`: J1 on the product with each store, on the loop, and on Kafka Streams, Flink, Quix Streams,
Bytewax and Faust, alternating, with one and with two workers.

    python -m tests.bench.peers [--records 1000000] [--rounds 3] [--workers 1,2] [--only sqlite,Kafka] [--without Faust]
    python -m tests.bench.peers --steady [--records 5000000] [--keys 10000] [--rounds 3] [--only sqlite,Kafka,Flink]
                                          [--per-key 100] [--hot 200000]
    python -m tests.bench.peers --latency [--backlog 300000] [--seconds 10] [--rounds 3] [--only sqlite,Kafka,Flink]

`--latency`: p50, p99 and p99.9 at parts of the top speed (loaded.py).
`--steady`: the work per CPU second after a warm-up, over a long stream, exactly-once systems alone (steady.py).
`--keys 1000000 --per-key 6 --records 15000000 --hot 25000` has nine of ten groups in the store of the product.

Prints tables in Markdown. Ends with 1 when a result was wrong. All read the same topic of one broker (a peer that is
slow reads one with a tenth of the records, see peers.py), write their results to a topic of their own, and every result
is compared with what must come out. What each guarantees is in the table: compare what guarantees the same.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.bench import load
from tests.bench.__main__ import alternating, numbers, say, verdict
from tests.bench.jobs import Outcome
from tests.bench.peers import contest, environment, loaded, report, steady
from tests.bench.peers.peers import PEERS, Tools
from tests.bench.systems import LOOP
from tests.servers import Kafka, Unavailable
from tests.servers.shared import open_server

TOPIC = "orders"
BROKER = {
    "group.initial.rebalance.delay.ms": "3000"
}  # the default: two workers that start together share from the start


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers")
    parser.add_argument("--steady", action="store_true", help="a long stream, measured after a warm-up")
    parser.add_argument("--records", type=int, help="a multiple of 1,000; 1,000,000, steady 5,000,000")
    parser.add_argument("--latency", action="store_true", help="at parts of the top speed")
    parser.add_argument("--backlog", type=int, default=300_000, help="records of which the top speed is taken")
    parser.add_argument("--seconds", type=float, default=10.0, help="at each part of the top speed")
    parser.add_argument("--keys", type=int, default=10_000, help="open keys of a steady run")
    parser.add_argument("--per-key", type=int, default=load.PER_KEY, help="records of a key in a steady run")
    parser.add_argument("--hot", type=int, default=0, help="`hot_groups` of the product in a steady run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="1,2", type=numbers)
    parser.add_argument("--only", default="", help="begins of names, with commas; the loop always runs")
    parser.add_argument("--without", default="", help="begins of names, with commas")
    options = parser.parse_args(argv)
    options.records = options.records or (5_000_000 if options.steady else 1_000_000)
    if options.rounds < 1 or options.records < 1000 or options.records % 1000:
        parser.error("at least one round, and a multiple of 1,000 records")
    return options


def chosen(systems: Sequence[str], only: str, without: str) -> tuple[str, ...]:
    """Those whose names begin so; the loop always."""
    wanted = tuple(only.split(","))
    refused = tuple(without.split(",")) if without else ()
    return tuple(
        system for system in systems if system == LOOP or (system.startswith(wanted) and not system.startswith(refused))
    )


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    known = steady.SYSTEMS if options.steady else loaded.SYSTEMS if options.latency else contest.SYSTEMS
    systems = chosen(known, options.only, options.without)
    with ExitStack() as opened:
        classes = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-")))
        try:
            tools = Tools(str(environment.python()), environment.kafka_streams(classes), environment.flink(classes))
            os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"  # see tests.bench
            server = open_server(Kafka(BROKER, heap="512m"))
            del os.environ["_JAVA_OPTIONS"]
        except (Unavailable, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 3
        opened.callback(server.destroy)
        print(f"{report.machine()}; " + ", ".join(f"{n} {v}" for n, v in environment.versions().items()), flush=True)
        if options.steady:
            shape = steady.Shape(options.records, options.keys, options.per_key, options.hot)
            return verdict(list(steady.compared(str(server.url), systems, shape, options.rounds, tools)))
        if options.latency:
            parts = options.backlog, options.seconds, options.rounds
            return verdict(list(loaded.compared(str(server.url), systems, *parts, tools)))
        return verdict(list(compared(server.url, systems, options, tools)))


def compared(bootstrap: str, systems: tuple[str, ...], options: argparse.Namespace, tools: Tools) -> Iterator[str]:
    """Tables; yields what was wrong. Makes and fills the topics."""
    say(f"sending {options.records} records")
    inputs = {part: _input(bootstrap, options.records // part) for part in {1, *map(_part, systems)}}
    for workers in options.workers:
        outcomes: dict[str, list[Outcome]] = {system: [] for system in systems}
        for turn, system in alternating(systems, options.rounds):
            outcome = contest.once(system, workers, bootstrap, inputs[_part(system)], tools)
            outcomes[system].append(outcome)
            say(
                f"{workers} worker(s), round {turn + 1}: {system} {outcome.seconds:.2f} s, {outcome.worker:.2f} CPU-s, "
                f"{outcome.peak:.0f} MiB, {outcome.problems or 'right'}"
            )
            yield from (f"{system}: {problem}" for problem in outcome.problems)
        records = {system: inputs[_part(system)].records for system in systems}
        title = f"J1, {options.records} records, {workers} worker{'s' * (workers > 1)}, {options.rounds} rounds"
        print(report.throughput(title, records, outcomes), flush=True)


def _input(bootstrap: str, records: int) -> contest.Input:
    topic = f"{TOPIC}-{records}"
    return contest.Input(topic, records, load.fill(bootstrap, topic, records))


def _part(system: str) -> int:
    return PEERS[system].part if system in PEERS else 1


if __name__ == "__main__":
    sys.exit(main())
