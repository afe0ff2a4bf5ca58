"""Windows of event time: the product next to Kafka Streams' own windowed count, exactly once, alternating in one run.

    python -m tests.bench.windowed [--records 1000000] [--rounds 3] [--stores sqlite,redis] [--kinds tumbling,...]

Records of 200 bytes with timestamps 1 ms apart, in four partitions. 1,000 keys are active for 100 s of event time with
100 records each, then 1,000 others. A last record for each partition closes the windows. Both sides count the records
of each window, send one result of each, and each result is compared with what must come out. Next to it the product
counts to 100 without windows (`count`). Clocks start and stop as in J1 (tests/bench/jobs.py).
"""

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.peers import contest, environment, report
from tests.bench.peers.peers import ONCE, Peer, Tools
from tests.bench.results import await_results, reader
from tests.bench.systems import HEAD, Running, Work, opened, product, started
from tests.bench.table import spread
from tests.servers import Kafka, Unavailable
from tests.servers.shared import open_server

KEYS, EACH = 1_000, 100  # active at a time, and the records of each
SIZE, EVERY, GAP = 100_000, 25_000, 10_000  # ms
KINDS = {
    "count": "count: 100",
    "tumbling": f"window: {{tumbling: {SIZE}ms, grace: 0s}}",
    "hopping": f"window: {{hopping: {SIZE}ms, every: {EVERY}ms, grace: 0s}}",
    "session": f"window: {{session: {GAP}ms, grace: 0s}}",
}
COMMITS = (100, 1_000)  # ms
TIMEOUT = 600.0
FILE = HEAD + "    aggregate:\n      {window}\n      compute: {{n: count}}\n    to: {{topic: {app}.out}}\n"
Results = Mapping[tuple[str, int], int]
"""The number of records by key and start of the window in ms; -1 for the start without windows."""


class Spent(NamedTuple):
    """Seconds of wall time, and CPU seconds of the workers."""

    seconds: float
    cpu: float
    right: bool


def begin_of(records: int) -> int:
    """The event time of the first record: a multiple of the size, so far back that no record is in the future."""
    return (round(time.time() * 1000) - records - 20 * SIZE) // SIZE * SIZE


def filled(bootstrap: str, topic: str, records: int) -> dict[str, Results]:
    """Make the topic; what must come of each kind."""
    create(bootstrap, topic)
    feed = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4", "log_level": 3})
    begin, pad = begin_of(records), "x" * 150
    times: dict[str, list[int]] = {}
    for number in range(records):
        key, at = f"k{number // (KEYS * EACH)}-{number % KEYS}", begin + number
        times.setdefault(key, []).append(at)
        while len(feed) > 50_000:
            feed.poll(0.05)
        feed.produce(topic, f'{{"id":"{number:010d}","pad":"{pad}"}}'.encode(), key, timestamp=at)
    for partition in range(PARTITIONS):
        feed.produce(topic, b"{}", f"end-{partition}", partition, timestamp=begin + records + 5 * SIZE)
    assert feed.flush(120) == 0
    return {kind: _expected(kind, times) for kind in KINDS}


def _expected(kind: str, times: Mapping[str, list[int]]) -> Results:
    if kind in ("count", "session"):
        return {(key, -1 if kind == "count" else every[0]): len(every) for key, every in times.items()}
    step = SIZE if kind == "tumbling" else EVERY
    starts = (
        (key, start)
        for key, every in times.items()
        for at in every
        for start in range(at // step * step - SIZE + step, at + 1, step)
    )
    return Counter(starts)


def _found(values: list[bytes]) -> Results:
    """The results of either side, without those of the last records."""
    numbers: dict[tuple[str, int], int] = {}
    for value in map(json.loads, values):
        start = value.get("start", -1)
        if "window" in value:
            start = round(datetime.fromisoformat(value["window"]["start"]).timestamp() * 1000)
        if not value["key"].startswith("end-"):
            numbers[value["key"], start] = numbers.get((value["key"], start), 0) + value["n"]
    return numbers


@contextmanager
def ours(store: str, kind: str, bootstrap: str, topic: str) -> Iterator[Running]:
    app = f"bench-{store}-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        url, server = opened(store, cleaning)
        text = FILE.format(app=app, bootstrap=bootstrap, store=url, topic=topic, window=KINDS[kind])
        command = started(store, bootstrap, app, lambda out, folder: product(text, folder))
        yield replace(cleaning.enter_context(command), server=server)


@contextmanager
def theirs(commit: int, kind: str, bootstrap: str, topic: str, tools: Tools) -> Iterator[Running]:
    size, advance = (GAP if kind == "session" else SIZE), (EVERY if kind == "hopping" else SIZE)
    settings = {"GUARANTEE": "exactly_once_v2", "COMMIT": str(commit), "KIND": kind}
    settings |= {"SIZE": str(size), "ADVANCE": str(advance)}
    peer = Peer(ONCE, lambda tools, workers, folder: [tools.java], settings)
    app = f"bench-{uuid.uuid4().hex[:8]}"
    with contest.started_peer(app, peer, Work(bootstrap, topic), tools, "Kafka Streams") as run:
        yield run


def spent(run: Running, bootstrap: str, expected: Results) -> Spent:
    consumer = reader(bootstrap, run.out)
    try:
        end, values = await_results(consumer, len(expected), run.process, TIMEOUT)
    finally:
        consumer.close()
    begin = run.process.begun
    assert begin is not None
    return Spent(end.at - begin.at, end.worker - begin.worker, _found(values) == expected)


def compared(bootstrap: str, options: argparse.Namespace, tools: Tools) -> bool:
    """Prints a table for each kind. Whether all results were right."""
    expected, right = filled(bootstrap, "timed", options.records), True
    for kind in options.kinds:
        costs: dict[str, list[Spent]] = {}
        for _ in range(options.rounds):
            for store in options.stores:
                with ours(store, kind, bootstrap, "timed") as run:
                    costs.setdefault(store, []).append(spent(run, bootstrap, expected[kind]))
            for commit in COMMITS if kind != "count" else ():
                with theirs(commit, kind, bootstrap, "timed", tools) as run:
                    name = f"Kafka Streams exactly once {commit} ms"
                    costs.setdefault(name, []).append(spent(run, bootstrap, expected[kind]))
        print(table(kind, options.records, costs), flush=True)
        right = right and all(outcome.right for many in costs.values() for outcome in many)
    return right


def table(kind: str, records: int, costs: Mapping[str, list[Spent]]) -> str:
    """Ratios are those to the best run of Kafka Streams in the same round."""
    lines = [f"\n### {kind}, {records} records\n"]
    lines += ["| system | k/s | k per CPU-s | CPU / Streams | right |", "|---|---|---|---|---|"]
    theirs = [many for name, many in costs.items() if name.startswith("Kafka")]
    for name, many in costs.items():
        best = (
            [min(outcomes[turn].cpu for outcomes in theirs) / own.cpu for turn, own in enumerate(many)]
            if theirs
            else []
        )
        columns = [
            [records / 1e3 / outcome.seconds for outcome in many],
            [records / 1e3 / outcome.cpu for outcome in many],
        ]
        rates = [spread(column, "{:.0f}") for column in columns]
        ratio = spread(best, "{:.2f}") if best else ""
        lines.append(f"| {name} | {rates[0]} | {rates[1]} | {ratio} | {sum(e.right for e in many)}/{len(many)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.windowed")
    parser.add_argument("--records", type=int, default=1_000_000, help="a multiple of 100,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", default=("sqlite", "redis"), type=lambda text: tuple(text.split(",")))
    parser.add_argument("--kinds", default=tuple(KINDS), type=lambda text: tuple(text.split(",")))
    options = parser.parse_args()
    with ExitStack() as stack:
        classes = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-")))
        try:
            tools = Tools(sys.executable, environment.kafka_streams(classes, "WindowedCount"))
            os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"  # see tests.bench
            server = open_server(Kafka(heap="512m"))
            del os.environ["_JAVA_OPTIONS"]
        except (Unavailable, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 3
        stack.callback(server.destroy)
        print(report.machine(), flush=True)
        return 0 if compared(str(server.url), options, tools) else 1


if __name__ == "__main__":
    sys.exit(main())
