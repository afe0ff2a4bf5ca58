"""What an open page of the console costs: `python -m tests.bench.console KAFKA [ROUNDS]`.

A run with 1,000 open groups takes RECORDS records a second. In each round it does so for SECONDS twice, without and
with a client that asks every two seconds what the page asks. Prints the CPU of the worker and of the supervisor, which
answers the client, in percent of one core; and how long answers take.

Then a run with 10,000 open groups and 1,000 dead letters reads a backlog as fast as it can, in each round for WINDOW
seconds without the client, and for as long with it. Prints the ratio of its speed, and of its records per second of the
worker's CPU, with the client and without. Other programs change both by more than the client does. So it also prints
what other programs change little, because it is counted and no difference of two speeds: the CPU of the supervisor,
which answers all questions, in percent of a core. A worker that has a core for itself loses no more than that.
"""

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer

from sluicegate.connectors import open_store
from sluicegate.streams.cli.opening.files import loaded
from tests.integration.console.shop import SLUICEGATE, Shop
from tests.integration.supervised.run import Run

RECORDS, KEYS, SECONDS, EVERY = 20_000, 1000, 20, 2.0
GROUPS, DEAD, WINDOW, CHUNK = 10_000, 1000, 6.0, 100_000
MOST = 300_000  # records that a worker reads in a second, at most
QUESTIONS = ("overview", "partitions", "history?since=", "overview", "groups?agent=baskets", "dead")


class OpenPage(threading.Thread):
    """Asks until it is stopped."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(daemon=True)
        self._shop, self._end = shop, threading.Event()
        self.answers: list[float] = []

    def run(self) -> None:
        while not self._end.is_set():
            for question in QUESTIONS:
                began = time.perf_counter()
                self._shop.ask(question)
                self.answers.append(time.perf_counter() - began)
            self._end.wait(EVERY)

    def stop(self) -> None:
        self._end.set()
        self.join()


def cpu(pid: int) -> float:
    """The CPU seconds of a process and all its threads, also of those that ended, to the nanosecond: the clock of a
    process as Linux numbers it (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


def measured(shop: Shop, page: OpenPage | None) -> tuple[float, float]:
    """CPU of the worker and of the supervisor, in percent of one core."""
    worker = shop.run.events("worker.started", agent="baskets")[-1]["pid"]
    pids = worker, shop.run.process.pid
    before, began = [cpu(pid) for pid in pids], time.monotonic()
    if page is not None:
        page.start()
    for second in range(1, SECONDS + 1):
        shop.orders(f"k{number % KEYS:04}" for number in range(RECORDS))
        time.sleep(max(0.0, began + second - time.monotonic()))
    used = [cpu(pid) - at for pid, at in zip(pids, before, strict=True)]
    seconds = time.monotonic() - began
    if page is not None:
        page.stop()
    return 100 * used[0] / seconds, 100 * used[1] / seconds


class Speed(NamedTuple):
    """Records a second, records per second of the worker's CPU, and seconds of CPU of the worker and of the supervisor
    for each second."""

    rate: float
    work: float
    worker: float
    supervisor: float


class Backlog:
    """A run that has `records` to read, with GROUPS open groups and DEAD dead letters."""

    def __init__(self, folder: Path, kafka: str, records: int) -> None:
        self.shop = shop = Shop(folder, kafka, f"bench-backlog-{time.time_ns()}")
        shop.fill(GROUPS, DEAD)
        shop.run.signal(signal.SIGTERM)
        shop.run.exit_code(60)
        shop.run.close()
        producer = Producer({"bootstrap.servers": kafka, "queue.buffering.max.messages": 2 * CHUNK})
        keys = [f"basket-{number:05}".encode() for number in range(GROUPS - 1)]
        for begin in range(0, records, CHUNK):
            messages = [{"key": keys[n % len(keys)], "value": b'{"v": 1}'} for n in range(begin, begin + CHUNK)]
            producer.produce_batch(f"{shop.ns}-in", messages)
            producer.flush(60)
        shop.run = Run(str(SLUICEGATE), "run", shop.file)
        shop.run.wait("partition.claimed", 2, 60.0)
        shop.port = shop.run.wait("http.listening")[0]["port"]
        self._pid = shop.run.events("worker.started", agent="baskets")[-1]["pid"]
        self._app, self._records = loaded(shop.file), records

    def measured(self, page: OpenPage | None) -> Speed:
        if page is not None:
            page.start()
        pids = self._pid, self.shop.run.process.pid
        taken, before, began = self._taken(), [cpu(pid) for pid in pids], time.monotonic()
        time.sleep(WINDOW)
        worker, supervisor = (cpu(pid) - at for pid, at in zip(pids, before, strict=True))
        taken, seconds = self._taken() - taken, time.monotonic() - began
        if page is not None:
            page.stop()
        assert self._taken() < self._records, "the backlog was read to its end: raise MOST"
        return Speed(taken / seconds, taken / worker, worker / seconds, supervisor / seconds)

    def _taken(self) -> int:
        """The committed records."""
        with closing(open_store(self._app.store, self._app.folder)) as store:
            return sum(view.claim.offset for p in store.partitions(self._app.name) if (view := store.read(p)))


def main(kafka: str, rounds: int) -> None:
    """Prints one line for each round, then the medians and the spread."""
    with tempfile.TemporaryDirectory() as folder:
        constant_rate(Path(folder), kafka, rounds)
    with tempfile.TemporaryDirectory() as folder:
        full_speed(Path(folder), kafka, rounds)


def full_speed(folder: Path, kafka: str, rounds: int) -> None:
    backlog = Backlog(folder, kafka, MOST * int(WINDOW) * 2 * (rounds + 1))
    pairs = list[tuple[Speed, Speed]]()
    try:
        backlog.measured(OpenPage(backlog.shop))
        for number in range(rounds):
            speeds = {
                with_page: backlog.measured(OpenPage(backlog.shop) if with_page else None)
                for with_page in ((False, True) if number % 2 else (True, False))
            }
            pairs.append((speeds[False], speeds[True]))
            print("records/s, per CPU second, CPU of worker and supervisor:", *map(_line, pairs[-1]), flush=True)
    finally:
        backlog.shop.run.close()
    for name, values in compared(pairs).items():
        print(f"{name}: median {median(values):.3f}, {min(values):.3f} to {max(values):.3f}")


def _line(speed: Speed) -> str:
    return f"{speed.rate:.0f} {speed.work:.0f} {speed.worker:.3f} {speed.supervisor:.4f};"


def compared(pairs: Sequence[tuple[Speed, Speed]]) -> dict[str, list[float]]:
    """Of each round without and with a page."""
    return {
        "speed, with a page / without": [page.rate / none.rate for none, page in pairs],
        "records per second of the worker's CPU, with a page / without": [
            page.work / none.work for none, page in pairs
        ],
        "the page, % of a core": [100 * (page.supervisor - none.supervisor) for none, page in pairs],
    }


def constant_rate(folder: Path, kafka: str, rounds: int) -> None:
    shop = Shop(folder, kafka, f"bench-console-{time.time_ns()}")
    try:
        measured(shop, OpenPage(shop))
        workers, supervisors, answers = list[float](), list[float](), list[float]()
        for _ in range(rounds):
            page = OpenPage(shop)
            without, with_page = measured(shop, None), measured(shop, page)
            answers += page.answers
            workers.append(with_page[0] - without[0])
            supervisors.append(with_page[1] - without[1])
            print("without", *map("{:.2f}".format, without), "with", *map("{:.2f}".format, with_page), flush=True)
    finally:
        shop.run.close()
    for name, values in (("worker", workers), ("supervisor", supervisors)):
        print(f"{name}, more % of a core: median {median(values):.2f}, from {min(values):.2f} to {max(values):.2f}")
    answers.sort()
    print(f"answers, ms: median {1e3 * median(answers):.1f}, longest {1e3 * answers[-1]:.1f} of {len(answers)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
