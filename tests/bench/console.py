"""What an open page of the console costs: `python -m tests.bench.console KAFKA [ROUNDS]`.

A run with 1,000 open groups takes RECORDS records a second. In each round it does so for SECONDS twice, without and
with a client that asks every two seconds what the page asks. Prints the CPU of the worker and of the supervisor, which
answers the client, in percent of one core; and how long answers take.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import psutil

from tests.integration.console.shop import Shop

RECORDS, KEYS, SECONDS, EVERY = 20_000, 1000, 20, 2.0
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
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


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


def main(kafka: str, rounds: int) -> None:
    """Prints one line for each round, then the medians and the spread."""
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder), kafka, f"bench-console-{time.time_ns()}")
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
