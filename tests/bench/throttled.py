"""CPU time of slow handlers with and without a throttle that is not reached.

    python -m tests.bench.throttled [--records 20000] [--rounds 5]

One worker with eight threads, on a log and a store in memory, calls a handler that does nothing. The calls are as
many as the loop can make, so the throttle is asked for more tokens a second than in practice. Both are run in turn.
"""

import argparse
import time
from statistics import median
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Destination, Handler, Throttle
from sluicegate.streams.calling.pool import Threads
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log, feed

KEYS = 1_000


class RealClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()


def seconds(records: int, throttle: Throttle | None) -> tuple[float, float]:
    """CPU and wall seconds until all calls have ended."""
    log = a_log()
    feed(log, *[(f"k{number % KEYS}", number) for number in range(records)])
    handler = Handler(("tests.unit.engine.handlers:note",), concurrency=8, throttle=throttle)
    agent = Agent("a", ("in",), None, Destination("out"), "dead", handler=handler)
    clock: Any = RealClock()
    driver = Driver(agent, MemoryStore(), log, clock, pool=Threads).give(0)
    handlers.reset()
    cpu, wall = time.process_time(), time.perf_counter()
    while len(handlers.calls) < records:
        driver.turns(1)
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    kinds = {"without": None, "throttle": Throttle(limit=10_000), "by key": Throttle(limit=10_000, key="amount % 10")}
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(options.rounds):
        for name, throttle in kinds.items():
            results[name].append(seconds(options.records, throttle))
    for name, times in results.items():
        cpu = sorted(one / other for (one, _), (other, _) in zip(times, results["without"], strict=True))
        speeds = sorted(options.records / wall for _, wall in times)
        print(f"{name}: {median(speeds):,.0f} calls/s; CPU {median(cpu):.2f} [{cpu[0]:.2f}-{cpu[-1]:.2f}] of without")


if __name__ == "__main__":
    main()
