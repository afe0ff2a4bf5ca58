"""Cold groups: what a record of a group in the store costs beside one of a group in memory, without Kafka.

    python -m tests.bench.paged [--groups 1000000] [--hot 50000] [--records 200000] [--store sqlite] [--rounds 3]

J1 has a hundred records a key, one key after the other, all in memory. "all hot" and "cold" open `--groups` groups,
and then take records with keys of equal chance: with all groups in memory, and with `--hot` of each of four
partitions. Each case has a store and processes of its own; records are made outside the time. Then the next process
takes over.

    python -m tests.bench.paged --cases due --groups 5000000 --due 90

opens the groups with a timeout of `--due` seconds, most of them in the store. The process then stands still until the
last deadline is at most a minute away, and the time from there to the last result is measured. With `--workers 2`, two
processes have two partitions each.

    python -m tests.bench.paged --cases windows --groups 1000000 [--hot 100000000]

opens the groups in one window, and takes `--records` records of groups in memory. The next process takes them over, and
a record of each partition closes the window. With `--cases sessions`, each group is a session, and with `--cases
amended`, groups stay for late records after their results.
"""

import argparse
import gc
import itertools
import multiprocessing
import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
from confluent_kafka import murmur2

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Reducer, Window
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import BatchReports
from sluicegate.streams.contracts.values import OutboxRow, TopicFacts
from sluicegate.streams.engine.build import build
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.testing.log import Log, LogInput, LogProducer, LogRecord
from tests.bench.systems import opened

PARTITIONS = 4
BATCH = 500
PER_KEY = 100
SLICE = 200_000  # records that are made at once
COMPUTE = (Reducer("n", "count"), Reducer("sum", "sum", "amount"), Reducer("max", "max", "amount"))
ALL = 100_000_000
MINUTE = 60.0
WINDOW = Window(MINUTE, idle=None, at_most=86_400.0, max_ahead=1e9)
AMENDED = replace(WINDOW, late="amend", keep=86_400.0, gather=60.0)
WINDOWS = {"windows": WINDOW, "sessions": replace(WINDOW, kind="session"), "amended": AMENDED}
VALUE = b'{"id": "0123456789", "amount": 7}'


class Stream(LogInput):
    """Partitions with these numbers, whose records are given in batches, each of one partition."""

    def __init__(self, numbers: Sequence[int]) -> None:
        log = Log()
        for topic in ("in", "out", "dead"):
            log.create(topic, PARTITIONS)
        super().__init__(log, "paged.sums")
        self.numbers = numbers
        self.batches: deque[list[Record]] = deque()
        self._ends = [0] * PARTITIONS
        self.time = 0  # of the next records, in milliseconds since 1970

    def add(self, keys: Iterable[int]) -> None:
        """The next records have these keys. Those of other partitions are left out."""
        parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        for key in keys:
            number = key % PARTITIONS
            if number not in self.numbers:
                continue
            parts[number].append(
                LogRecord("in", number, self._ends[number], b"account-%012d" % key, VALUE, at=self.time)
            )
            self._ends[number] += 1
            if len(parts[number]) == BATCH:
                self.batches.append(parts[number])
                parts[number] = []
        self.batches += [rest for rest in parts if rest]

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self._ends[number] = max(offset, 0)

    def facts(self, topic: str, number: int) -> TopicFacts:
        return super().facts(topic, number)._replace(high=ALL)

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        if not self.batches:
            return []
        batch = self.batches.popleft()
        if most == 1 and len(batch) > 1:
            self.batches.appendleft(batch[1:])
        return batch[:1] if most == 1 else batch


class Sink(LogProducer):
    """Results are delivered with the next poll, and nothing keeps them. `results` is their number. Their partitions are
    chosen by librdkafka's function, as in a worker."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.delivered: list[tuple[BatchReports, list[int]]] = []
        self.results = 0

    def partition_of(self, key: bytes, count: int) -> int:
        return int(murmur2(key, count))

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        self.delivered.append((reports, [row.number for row in rows]))
        self.results += len(rows)
        return len(rows)

    def poll(self) -> int:
        delivered, self.delivered = self.delivered, []
        for reports, numbers in delivered:
            reports.delivered(numbers)
        return 0


class OwnTime:
    """The CPU time of this process: commits come as on a machine without other programs."""

    def monotonic(self) -> float:
        return time.process_time()


class Case(NamedTuple):
    """`hot` groups of a partition stay in memory. Without `groups`, J1. Groups end after `timeout` seconds, or with
    their `window`. With `by_wall`, commits come by the wall clock. The process has the partitions with these
    `numbers`."""

    name: str
    url: str
    hot: int
    groups: int
    records: int
    timeout: float = 86_400.0
    by_wall: bool = False
    window: Window | None = None
    numbers: Sequence[int] = range(PARTITIONS)


class Figures(NamedTuple):
    """Of one case: microseconds and CPU microseconds of a record, resident MiB, the longest turn in milliseconds, and
    the seconds from the claims of the next process to the first record of each partition."""

    wall: float
    cpu: float
    memory: float
    stall: float
    takeover: float


def worker(case: Case, stream: Stream, sink: Sink) -> Worker:
    ends: dict[str, Any] = {"count": PER_KEY, "since_first": case.timeout}
    ends = {"window": case.window} if case.window is not None else ends
    rule = Aggregation(compute=COMPUTE, max_groups=ALL, hot_groups=case.hot, **ends)
    agent = Agent("sums", ("in",), rule, Destination("out"), "dead")
    tokens = map(str, itertools.count(time.time_ns()))
    parts = WorkerDependencies(
        open_store(case.url),
        stream,
        sink,
        time if case.by_wall else OwnTime(),
        Meter(),
        random.random,
        lambda: next(tokens),
        lambda report: None,
    )
    stream.give(*(("in", number) for number in case.numbers))
    return build(App("paged", case.url, (agent,)), agent, 0, "bench", "refuse", parts)


def turns(made: Worker, goes_on: Callable[[], bool]) -> float:
    """Turns while `goes_on()` is true. Returns the seconds of the longest turn."""
    longest = 0.0
    while goes_on():
        began = time.monotonic()
        made.turn()
        longest = max(longest, time.monotonic() - began)
    return longest


def turned(made: Worker, stream: Stream) -> float:
    """Take all records. Returns the seconds of the longest turn."""
    longest = turns(made, lambda: bool(stream.batches))
    made.turn()
    return longest


def begun(case: Case) -> tuple[Worker, Stream, Sink]:
    """A worker that has claimed all partitions."""
    stream = Stream(case.numbers)
    sink = Sink(stream.log)
    made = worker(case, stream, sink)
    turns(made, lambda: len(made._owners) < len(case.numbers))
    return made, stream, sink


def filled(case: Case) -> tuple[Worker, Stream, Sink]:
    """A worker that has opened the groups."""
    made, stream, sink = begun(case)
    for first in range(0, case.groups, SLICE):
        stream.add(range(first, min(first + SLICE, case.groups)))
        turned(made, stream)
    return made, stream, sink


def following(case: Case) -> tuple[Worker, Stream, Sink, float]:
    """The next worker, and the seconds from its start to the first record of each partition."""
    began = time.monotonic()
    made, stream, sink = begun(case)
    stream.add(range(PARTITIONS))
    turned(made, stream)
    return made, stream, sink, time.monotonic() - began


def resident() -> float:
    """MiB of this process."""
    memory: float = psutil.Process().memory_info().rss / 1024**2
    return memory


def measured(case: Case, out: Any) -> None:
    """Puts the figures without the takeover into the queue `out`."""
    made, stream, _ = filled(case)
    chance = random.Random(7)
    keys = (
        (chance.randrange(case.groups) for _ in range(case.records))
        if case.groups
        else (number // PER_KEY for number in range(case.records))
    )
    wall = cpu = longest = 0.0
    for _ in range(0, case.records, SLICE):
        stream.add(itertools.islice(keys, SLICE))
        began, spent = time.monotonic(), time.process_time()
        longest = max(longest, turned(made, stream))
        wall, cpu = wall + time.monotonic() - began, cpu + time.process_time() - spent
    out.put((1e6 * wall / case.records, 1e6 * cpu / case.records, resident(), 1000 * longest))


def due(case: Case, out: Any) -> None:
    """Puts what was measured into the queue `out`, as text."""
    began = time.monotonic()
    made, _, sink = filled(case)
    opened, early = time.monotonic() - began, sink.results
    begins = began + case.timeout + max(0.0, opened - MINUTE)
    time.sleep(max(0.0, begins - time.monotonic()))
    spent, groups = time.process_time(), case.groups * len(case.numbers) // PARTITIONS
    longest = turns(made, lambda: sink.results < groups)
    seconds, spent = time.monotonic() - begins, time.process_time() - spent
    out.put(
        f"{groups} groups opened in {opened:.0f} s ({early} results before that); {seconds:.1f} s to the last result, "
        f"{1e6 * spent / groups:.1f} us of CPU a result; {resident():.0f} MiB, longest turn {1000 * longest:.0f} ms"
    )


def windows(case: Case, out: Any) -> None:
    """Opens the groups, and takes records of those that were opened last. Puts what was measured into the queue `out`,
    as text."""
    began = time.monotonic()
    made, stream, _ = filled(case)
    seconds, hot = time.monotonic() - began, min(case.groups, case.hot * PARTITIONS) // 2
    stream.add(random.Random(7).choices(range(case.groups - hot, case.groups), k=case.records))
    spent = time.process_time()
    turned(made, stream)
    spent = time.process_time() - spent
    out.put(
        f"{case.groups} groups of a window opened in {seconds:.0f} s; {1e6 * spent / case.records:.2f} us of CPU a "
        f"record of a group in memory, {resident():.0f} MiB"
    )


def closes(case: Case, out: Any) -> None:
    """Takes the groups over and closes the window. Puts what was measured into the queue `out`, as text."""
    made, stream, sink, taken = following(case)
    began, spent, stream.time = time.monotonic(), time.process_time(), 120_000
    stream.add(range(PARTITIONS))
    longest = turns(made, lambda: sink.results < case.groups)
    seconds, spent = time.monotonic() - began, time.process_time() - spent
    out.put(
        f"taken over in {taken:.1f} s; closed in {seconds:.0f} s, {1e6 * spent / case.groups:.1f} us of CPU a result; "
        f"{resident():.0f} MiB, longest turn {1000 * longest:.0f} ms"
    )


def taken_over(case: Case, out: Any) -> None:
    """Puts the seconds into the queue `out`."""
    out.put(following(case)[-1])


def collecting(work: Callable[..., None], case: Case, out: Any) -> None:
    gc.set_threshold(*COLLECTIONS)
    work(case, out)


def apart(work: Callable[..., None], case: Case) -> Any:
    """The work in a process of its own, with the collections of garbage of a worker's process."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=collecting, args=(work, case, out))
    process.start()
    answer = out.get()
    process.join()
    return answer


def emptied(system: str, folder: str, cleaning: ExitStack) -> str:
    """The URL of an empty store."""
    cleaning.callback(shutil.rmtree, folder, ignore_errors=True)
    url = f"sqlite:///{folder}/bench.db" if system == "sqlite" else opened(system, cleaning)[0]
    store = open_store(url)
    store.migrate()
    store.close()
    return url


def once(system: str, name: str, options: argparse.Namespace) -> Figures:
    with ExitStack() as cleaning:
        folder = tempfile.mkdtemp(prefix="sluicegate-")
        url = emptied(system, folder, cleaning)
        hot = options.hot if name == "cold" else ALL
        case = Case(name, url, hot, 0 if name == "J1" else options.groups, options.records)
        figures = apart(measured, case)
        takeover = apart(taken_over, case)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1024**2
        measurement = Figures(*figures, takeover)
        print(f"{name}: {measurement}, {size:.0f} MiB of file", flush=True)
        return measurement


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--hot", type=int, default=50_000)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="J1,all hot,cold", help="or due, windows, sessions or amended")
    parser.add_argument("--due", type=float, default=60.0, help="seconds after which the groups of `due` end")
    parser.add_argument("--workers", type=int, default=1, help="processes that share the partitions of `due`")
    options = parser.parse_args()
    if options.cases == "due":
        with ExitStack() as cleaning:
            url = emptied(options.store, tempfile.mkdtemp(prefix="sluicegate-"), cleaning)
            case = Case("due", url, options.hot, options.groups, 0, options.due, True)
            shares = [case._replace(numbers=range(PARTITIONS)[at :: options.workers]) for at in range(options.workers)]
            with ThreadPool(options.workers) as pool:
                print(*pool.map(partial(apart, due), shares), sep="\n")
        return
    if options.cases in WINDOWS:
        with ExitStack() as cleaning:
            url = emptied(options.store, tempfile.mkdtemp(prefix="sluicegate-"), cleaning)
            window = WINDOWS[options.cases]
            case = Case("windows", url, options.hot, options.groups, options.records, by_wall=True, window=window)
            print(apart(windows, case), apart(closes, case), sep="; ")
        return
    names = options.cases.split(",")
    figures_by_name: dict[str, list[Figures]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            figures_by_name[name].append(once(options.store, name, options))
    for name, figures in figures_by_name.items():
        parts = [
            f"{field} {median(values):.1f}"
            for field, values in zip(Figures._fields, zip(*figures, strict=True), strict=True)
        ]
        print(f"{name}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
