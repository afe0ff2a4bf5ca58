"""What an open page of the console costs: `python -m tests.bench.console KAFKA [ROUNDS]`.

In each round a run takes RECORDS records in 1,000 open groups twice, without and with a client that asks every two
seconds what the page asks. Prints the seconds of CPU of the worker and of the supervisor, and the records a second; and
how long answers take.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import psutil

from tests.integration.console.shop import Shop
from tests.waiting import wait_until

RECORDS, KEYS, EVERY = 1_500_000, 1000, 2.0
QUESTIONS = ("overview", "groups?agent=baskets", "overview", "partitions")


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


def offsets(shop: Shop) -> int:
    """From the reports of the workers, not from the store."""
    workers = shop.ask("overview")["workers"]
    return sum(max(0, row["offset"]) for worker in workers for row in worker["partitions"])


def cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def measured(shop: Shop, page: OpenPage | None) -> tuple[float, float, float]:
    """CPU of the worker and of the supervisor in seconds, and records a second."""
    worker = shop.run.events("worker.started", agent="baskets")[-1]["pid"]
    pids, wanted = (worker, shop.run.process.pid), offsets(shop) + RECORDS
    before, began = [cpu(pid) for pid in pids], time.monotonic()
    if page is not None:
        page.start()
    shop.orders(f"k{number % KEYS:04}" for number in range(RECORDS))
    wait_until(lambda: offsets(shop) >= wanted, 120.0, "all records")
    seconds = time.monotonic() - began
    if page is not None:
        page.stop()
    of_worker, of_supervisor = (cpu(pid) - at for pid, at in zip(pids, before, strict=True))
    return of_worker, of_supervisor, RECORDS / seconds


def main(kafka: str, rounds: int) -> None:
    """Prints one line for each round, then the medians and the spread."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder), kafka, f"bench-console-{time.time_ns()}")
        try:
            measured(shop, OpenPage(shop))
            costs, shares, answers = [], [], list[float]()
            for _ in range(rounds):
                page = OpenPage(shop)
                without, with_page = measured(shop, None), measured(shop, page)
                answers += page.answers
                costs.append(100 * (sum(with_page[:2]) / sum(without[:2]) - 1))
                shares.append(100 * (with_page[1] - without[1]) / sum(without[:2]))
                print("without", *map("{:.2f}".format, without), "with", *map("{:.2f}".format, with_page), flush=True)
        finally:
            shop.run.close()
    for name, values in (("all CPU, %", costs), ("supervisor's CPU, %", shares)):
        print(f"{name}: median {median(values):.2f}, from {min(values):.2f} to {max(values):.2f}")
    answers.sort()
    print(f"answers, ms: median {1e3 * median(answers):.1f}, longest {1e3 * answers[-1]:.1f} of {len(answers)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
