"""`make bench`: the product's `run` path with each store next to the tuned loop, alternating, medians of several
rounds.

    python -m tests.bench [--rounds 3] [--jobs J1,J2,latency,H1,...] [--stores memory,sqlite,...] [--records 1000000]
    python -m tests.bench --jobs recovery --stores sqlite --rounds 1 --groups 1000,10000000

Ends with 1 when a result was wrong. Figures of one run compare with each other, not with those of another machine or
hour.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from tests.bench import failing, handled, jobs, latency, load, recovery, sendings, shared, table
from tests.bench.systems import LOOP, STORES, Work
from tests.servers import Kafka, Postgres, Unavailable
from tests.servers.shared import open_server

JOBS = {
    "J1": "fold: per key every 100 records -> count, sum, max",
    "J1W": "J1 with one predicate",
    "J1W2": "J1 with two predicates",
    "J1L": "J1 with an expression over a list",
    "J1T": "J1 in tumbling windows of the records' timestamps",
    "J2": "collect: the same, the result carries the 100 records",
}
WHERES = {"J1W": "amount >= 0", "J1W2": 'amount >= 0 && id != ""', "J1L": "'[amount, 1000].exists(each, each >= 1000)'"}
"""All records pass."""
ENDINGS = {"J1T": "window: {tumbling: 1d}"}
"""All records are of one day, unless the bench runs at midnight UTC."""
LATENCY = "latency"
ALL = (*JOBS, LATENCY, *handled.JOBS, failing.JOB, *sendings.JOBS, shared.JOB, recovery.JOB)
TOPIC = "orders"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=partial(_chosen, ALL), default=ALL)
    parser.add_argument("--stores", type=partial(_chosen, STORES), default=STORES)
    parser.add_argument("--records", type=int, default=1_000_000, help="a multiple of 100")
    parser.add_argument("--groups", type=numbers, default=(), help="open groups of the recovery job, 4 partitions")
    parser.add_argument("--seconds", type=float, default=15.0, help="of one latency run, after its warm-up")
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.records < load.PER_KEY or options.records % load.PER_KEY:
        parser.error("at least one round, and a multiple of 100 records")
    return options


def numbers(text: str) -> tuple[int, ...]:
    """Of an argument: numbers with commas."""
    return tuple(map(int, text.split(",")))


def _chosen(known: tuple[str, ...], text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: known are {', '.join(known)}")
    return names


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    with ExitStack() as opened:
        try:
            # The broker of the tests stops at the first compiler to start quickly, and so takes twice the CPU of a real
            # one.
            os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"
            server = open_server(Kafka(heap="512m"))
        except (Unavailable, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 3
        opened.callback(server.destroy)
        outcomes = [
            *throughput(server.url, TOPIC, options),
            *latencies(server.url, options),
            *handlers(server.url, TOPIC, options),
        ]
        outcomes += failures(server.url, options)
        broker = getattr(server, "pid", 0)  # 0: in a container
        outcomes += [*dispatcher(server.url, broker, options), *sharing(server.url, broker, options)]
        recoveries(server.url, options)
        return verdict(outcomes)


def verdict(problems: list[str]) -> int:
    """The exit code."""
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


def throughput(bootstrap: str, topic: str, options: argparse.Namespace) -> Iterator[str]:
    """J1 and J2 as tables; yields what was wrong. Makes and fills the topic."""
    names = [name for name in options.jobs if name in JOBS]
    if not names:
        return
    say(f"sending {options.records} records")
    expected = load.fill(bootstrap, topic, options.records)
    say("warming up")
    jobs.once(LOOP, Work(bootstrap, topic), options.records, expected)
    for name in names:
        outcomes: dict[str, list[jobs.Outcome]] = {}
        for turn, system in alternating((LOOP, *options.stores), options.rounds):
            ending = {"ending": ENDINGS[name]} if name in ENDINGS else {}
            work = Work(bootstrap, topic, rows=name == "J2", where=WHERES.get(name, ""), **ending)
            outcome = jobs.once(system, work, options.records, expected)
            outcomes.setdefault(system, []).append(outcome)
            say(f"{name} round {turn + 1}: {system} {outcome.seconds:.2f} s, {outcome.worker:.2f} CPU-s")
            yield from (f"{name}, {system}: {problem}" for problem in outcome.problems)
        print(
            table.throughput(f"{name} {JOBS[name]}; {options.records} records", options.records, outcomes), flush=True
        )


def latencies(bootstrap: str, options: argparse.Namespace) -> Iterator[str]:
    """Latency as a table; yields what was wrong."""
    if LATENCY not in options.jobs:
        return
    say("warming up")
    latency.once(LOOP, bootstrap, options.seconds)
    results: dict[str, list[latency.Latency]] = {}
    for turn, system in alternating((LOOP, *options.stores), options.rounds):
        outcome = latency.once(system, bootstrap, options.seconds)
        results.setdefault(system, []).append(outcome)
        say(f"latency round {turn + 1}: {system} p50 {outcome.p50:.1f} ms, p99 {outcome.p99:.1f} ms")
        yield from (f"latency, {system}: {problem}" for problem in outcome.problems)
    print(table.latency(f"latency at {latency.RATE} records a second, a result each", results), flush=True)


def handlers(bootstrap: str, topic: str, options: argparse.Namespace) -> Iterator[str]:
    """H1 to H3 as tables; yields what was wrong. Each gets its part of the records (handled.JOBS)."""
    for name in [name for name in options.jobs if name in handled.JOBS]:
        title, _, part = handled.JOBS[name]
        records = max(load.PER_KEY, options.records // part // load.PER_KEY * load.PER_KEY)
        with ExitStack() as opened:
            stores, database = ("memory", "sqlite"), ""
            if name in handled.DATABASE:
                server = open_server(Postgres())
                opened.callback(server.destroy)
                stores, database = ("postgresql",), str(server.url)
            own = f"{topic}-{name}"
            total = sum(result.total for result in load.fill(bootstrap, own, records).values())
            opened.callback(load.delete, bootstrap, own)
            outcomes: dict[str, list[jobs.Outcome]] = {}
            for turn, system in alternating((LOOP, *stores), options.rounds):
                outcome = handled.once(
                    system, handled.Task(name, bootstrap, own, database or handled.STORES[system], records, total)
                )
                outcomes.setdefault(system, []).append(outcome)
                say(f"{name} round {turn + 1}: {system} {outcome.seconds:.2f} s, {outcome.worker:.2f} CPU-s")
                yield from (f"{name}, {system}: {problem}" for problem in outcome.problems)
        print(table.throughput(f"{name} {title}; {records} records", records, outcomes), flush=True)


def failures(bootstrap: str, options: argparse.Namespace) -> Iterator[str]:
    """H1-fail as a table for each store; yields what was wrong. Makes and fills a topic of its own."""
    if failing.JOB not in options.jobs:
        return
    topic, records = (
        f"{TOPIC}-{failing.JOB}",
        max(load.PER_KEY, options.records // failing.PART // load.PER_KEY * load.PER_KEY),
    )
    load.fill(bootstrap, topic, records)
    for store in [store for store in options.stores if store in failing.STORES]:
        yield from failing.run(bootstrap, topic, store, records, options.rounds)
    load.delete(bootstrap, topic)


def dispatcher(bootstrap: str, broker: int, options: argparse.Namespace) -> Iterator[str]:
    """Rows of the outbox and due timeouts, a fifth and a tenth of the records; yields what was wrong. The broker is
    warm, as in J9, whose topic it took before: in its first seconds it compiles what it does, on the same cores."""
    names = [name for name in options.jobs if name in sendings.JOBS]
    if names:
        load.fill(bootstrap, f"{TOPIC}-warm", options.records // load.PER_KEY // 2 * load.PER_KEY or load.PER_KEY)
    for name in names:
        rows = max(100, options.records // sendings.JOBS[name].part)
        for store in [store for store in options.stores if store in sendings.STORES]:
            for _ in range(options.rounds):
                outcome = sendings.once(name, (bootstrap, broker), store, rows)
                print(sendings.line(name, store, rows, outcome), flush=True)
                yield from (f"{name}, {store}: {problem}" for problem in outcome.problems)


def sharing(bootstrap: str, broker: int, options: argparse.Namespace) -> Iterator[str]:
    """J9 as lines; yields what was wrong. Makes and fills a topic of its own."""
    if shared.JOB not in options.jobs:
        return
    topic = f"{TOPIC}-{shared.JOB}"
    say(f"sending {options.records} records")
    expected = load.fill(bootstrap, topic, options.records)
    for _ in range(options.rounds):
        outcome = shared.once(bootstrap, broker, topic, options.records, expected)
        print(shared.line(options.records, outcome), flush=True)
        yield from (f"{shared.JOB}: {problem}" for problem in outcome.problems)


def recoveries(bootstrap: str, options: argparse.Namespace) -> None:
    """The standstill after a kill, as lines."""
    for store in [store for store in options.stores if recovery.JOB in options.jobs and store in recovery.STORES]:
        for case in [recovery.Case(4, groups, False) for groups in options.groups] or recovery.CASES:
            outcomes = [recovery.once(store, bootstrap, case) for _ in range(options.rounds)]
            print(recovery.line(store, case, outcomes), flush=True)


def alternating(systems: tuple[str, ...], rounds: int) -> Iterator[tuple[int, str]]:
    """Every system once a round, each round in the other direction."""
    for turn in range(rounds):
        yield from ((turn, system) for system in (systems if turn % 2 == 0 else systems[::-1]))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
