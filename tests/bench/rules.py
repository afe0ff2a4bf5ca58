"""CPU time of a worker under J1 and under other rules, in turn.

    python -m tests.bench.rules [--records 100000] [--rounds 5] [--only WORD]

One worker in this process, on one partition of a log in memory, and a store in memory. The records are those of J1,
1 ms of event time apart. The clock of the worker is the CPU time of this process, so other programs do not change the
number of early results. J1 has a million records: with a part of them `every` is the same part of a second. So each
record has as many early results as there.
"""

import argparse
import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from sluicegate.streams.agent import Agent, Destination, Emit
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.testing.log import Log, ManualClock
from tests.bench import load
from tests.bench.dedupe import FIELD, HEADER
from tests.bench.hotpath import AGENTS, J1, SLIDING
from tests.unit.engine.driver import Driver, memory

MILLION, BEGIN = 1_000_000, 1_700_000_000_000
SHORT = replace(SLIDING, size=10.0, grace=10.0)  # ten records of a key, with 100,000 records
IN_THE_LOOP = (
    "over a computed field",
    "where that computes",
    "where of a text made of a computed field",
    "until an expression",
)
"""Rules of hotpath that have the results of J1."""


class Spent(NamedTuple):
    seconds: float
    results: int


class CpuClock(ManualClock):
    """Its time passes while this process works."""

    @property
    def now(self) -> float:  # type: ignore[override]
        return 1_000.0 + time.process_time()

    @now.setter
    def now(self, _: float) -> None:
        """It stands at no time."""


def rules(records: int) -> dict[str, Agent]:
    plain = Agent("bench", ("in",), J1, Destination("out"), "dead")
    sliding = replace(plain, aggregation=replace(J1, count=None, since_first=None, window=SHORT))
    early = Emit(every=records / MILLION)
    looped = {f"J1, {name}": replace(AGENTS[f"the same, {name}"], topics=plain.topics) for name in IN_THE_LOOP}
    return {
        "J1": plain,
        **looped,
        "sum, first and last": replace(plain, aggregation=AGENTS["sum, first and last"].aggregation),
        "J1, dedupe by header": replace(plain, dedupe=HEADER),
        "J1, dedupe by field": replace(plain, dedupe=FIELD),
        "J1, emit: {every: 1s}": replace(plain, aggregation=replace(J1, emit=early)),
        "J1, emit: {count: 50}": replace(plain, aggregation=replace(J1, emit=Emit(count=50))),
        "forwarded": replace(plain, aggregation=None),
        "sliding": sliding,
        "sliding, some results by having": replace(sliding, having="n >= 22"),
        "sliding, an alert: having is rarely true": replace(sliding, having="n >= 50"),
        "sliding, an alert by the sum": replace(sliding, having="sum >= 25000"),
    }


def spent(agent: Agent, orders: Sequence[tuple[str, int, bytes]]) -> Spent:
    log, clock = Log(), CpuClock()
    for topic in ("in", "out", "dead"):
        log.create(topic)
    for number, (key, _, value) in enumerate(orders):
        log.append("in", 0, key.encode(), value, [("message-id", b"%036d" % number)], BEGIN + number)
    driver = Driver(agent, memory(clock), log, clock).give(0).turns(3)
    begin = time.process_time()
    driver.turns(len(orders) // 250 + 20)
    return Spent(time.process_time() - begin, sum(map(len, log.topics["out"])))


def main() -> None:
    gc.set_threshold(*COLLECTIONS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the name of a rule; J1 runs as well")
    options = parser.parse_args()
    orders, agents = [*load.orders(options.records)], rules(options.records)
    agents = {name: agent for name, agent in agents.items() if name == "J1" or options.only in name}
    runs: dict[str, list[Spent]] = {name: [] for name in agents}
    for turn in range(options.rounds):
        for name in agents if turn % 2 == 0 else reversed(agents):
            runs[name].append(spent(agents[name], orders))
    for name, every in runs.items():
        ratios = sorted(one.seconds / base.seconds for one, base in zip(every, runs["J1"], strict=True))
        micros = median(outcome.seconds for outcome in every) / options.records * 1e6
        many = median(outcome.results for outcome in every)
        span = f"{median(ratios):.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]"
        print(f"{name}: {micros:.2f} us of CPU a record, {span} of J1; {many:,.0f} results", flush=True)


if __name__ == "__main__":
    main()
