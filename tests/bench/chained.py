"""What the proof between agents of one app costs (docs/protocol.md, Proof): CPU time for each record that the first of
two agents reads. The twin has no keys of the app: nothing is signed, and nothing is proven.

    python -m tests.bench.chained [--records 200000] [--rounds 5] [--stores sqlite] [--chains every] [--log 40000]

The records and the results are those of J1. Of the chain `every` the first agent sends every record to the second,
which makes the results; of `results` the first one makes them, and the second reads and sends each. `--stores`:
`sluicegate run` on a real broker; the clock starts at the first claimed partition and stops when the last result is
visible. `--log`: so many records through both agents in one process, on a log and a store in memory, and nothing else.
Both kinds alternate. The command fails if a result is wrong.
"""

import argparse
import gc
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import Consumer

from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.contracts.mac import Mac
from tests.bench import load
from tests.bench.__main__ import alternating, say
from tests.bench.processes import cpu_seconds
from tests.bench.results import await_results, judge, reader
from tests.bench.systems import Running, opened, started
from tests.bench.systems import product as command_of
from tests.bench.table import aligned, spread
from tests.mutation import twins
from tests.servers import Kafka
from tests.servers.shared import open_server
from tests.unit.engine.driver import Driver, Log, ManualClock, memory

TOPIC = "orders"
TIMEOUT = 600.0
TURN = 250  # records that a turn of the engine takes
KEYS, NO_KEYS = "keys", "no keys"
FILE = """\
app: {app}
kafka: {{bootstrap.servers: "{bootstrap}"}}
store: {store}
dead_letters: {app}.dead
http: {{port: 0}}
agents:
  first: {{from: {topic}, {first}, to: {{topic: {app}.between}}}}
  second: {{from: {app}.between, {second}, to: {{topic: {app}.out}}}}
"""
NUMBERS = "{n: count, sum: {sum: amount}, max: {max: amount}}"
FOLD = f"aggregate: {{count: 100, timeout: {{after: 10m, since: first}}, compute: {NUMBERS}}}"
AGAIN = "aggregate: {count: 1, compute: {n: {sum: n}, sum: {sum: sum}, max: {max: max}}}"
CHAINS = {"every": ("where: amount >= 0", FOLD), "results": (FOLD, AGAIN)}


class Spent(NamedTuple):
    """Seconds of wall time; CPU seconds of the workers, and of all that ran: workers, supervisor and broker."""

    seconds: float
    workers: float
    chain: float
    problems: Sequence[str] = ()


def once(broker: tuple[str, int], store: str, chain: str, expected: Mapping[str, load.Expected], kind: str) -> Spent:
    """One run. `broker` is its address and process."""
    bootstrap, broker_pid = broker
    app = f"chained-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        url, server = opened(store, cleaning)
        load.create(bootstrap, f"{app}.between")
        cleaning.callback(load.delete, bootstrap, f"{app}.between")
        first, second = CHAINS[chain]
        text = FILE.format(app=app, bootstrap=bootstrap, store=url, topic=TOPIC, first=first, second=second)
        log = Path(cleaning.enter_context(TemporaryDirectory())) / "twin.log"
        environ = twins.environment("keys", log) if kind == NO_KEYS else {}
        command = started(store, bootstrap, app, lambda out, folder: command_of(text, folder), **environ)
        run = cleaning.enter_context(command)
        costs = _measured(run, reader(bootstrap, run.out), [pid for pid in (broker_pid, server) if pid], expected)
        if kind == NO_KEYS:
            twins.check("keys", log, run.process.workers)
        return costs


def _measured(run: Running, consumer: Consumer, servers: Sequence[int], expected: Mapping[str, load.Expected]) -> Spent:
    before = sum(map(cpu_seconds, servers))
    end, values = await_results(consumer, len(expected), run.process, TIMEOUT)
    shared = sum(map(cpu_seconds, servers)) - before
    consumer.close()
    begin = run.process.begun
    assert begin is not None
    workers = end.worker - begin.worker
    chain = workers + end.supervisor - begin.supervisor + shared
    return Spent(end.at - begin.at, workers, chain, judge(values, expected, rows=False))


def _agents(chain: str) -> Sequence[Agent]:
    """The agents of CHAINS."""
    compute = (Reducer("n", "count"), Reducer("sum", "sum", "amount"), Reducer("max", "max", "amount"))
    fold = Aggregation(count=load.PER_KEY, since_first=600.0, compute=compute)
    again = Aggregation(
        count=1, compute=(Reducer("n", "sum", "n"), Reducer("sum", "sum", "sum"), Reducer("max", "max", "max"))
    )
    rules = (None, fold) if chain == "every" else (fold, again)
    where = "amount >= 0" if chain == "every" else ""
    return (
        Agent("first", ("in",), rules[0], Destination("between"), "dead", where=where),
        Agent("second", ("between",), rules[1], Destination("out"), "dead", receive=("between",)),
    )


def on_a_log(records: int, chain: str, kind: str) -> Spent:
    """One run in this process."""
    log, clock = Log(), ManualClock()
    for topic in ("in", "between", "out", "dead"):
        log.create(topic, load.PARTITIONS)
    for key, _amount, value in load.orders(records):
        log.append("in", int(key[1:]) % load.PARTITIONS, key.encode(), value)
    store, mac = memory(clock), Mac("app", (b"k" * 32,)) if kind == KEYS else None
    drivers = [
        Driver(agent, store, log, clock, mac=mac).give(*range(load.PARTITIONS)).turns(5) for agent in _agents(chain)
    ]
    gc.set_threshold(*COLLECTIONS)
    begin, cpu = time.monotonic(), time.thread_time()
    for driver in drivers:
        driver.turns(records // TURN + 20)
    spent = time.thread_time() - cpu
    results = sum(map(len, log.topics["out"]))
    signed = sum(any(name == "sluicegate-mac" for name, _ in message.h or ()) for message in log.topics["between"][0])
    problems = [] if results == records // load.PER_KEY and bool(signed) == (kind == KEYS) else [f"{results} results"]
    return Spent(time.monotonic() - begin, spent, spent, problems)


def compared(title: str, records: int, rounds: int, run: Callable[[str], Spent]) -> bool:
    """Prints what both kinds cost. Whether all results were right."""
    costs: dict[str, list[Spent]] = {KEYS: [], NO_KEYS: []}
    for turn, kind in alternating((KEYS, NO_KEYS), rounds):
        costs[kind].append(spent := run(kind))
        say(f"{title}, round {turn + 1}, {kind}: {spent.seconds:.2f} s, {spent.workers:.2f} CPU-s of workers")
    rows = [("", "wall s", "workers µs", "chain µs", "right")]
    for kind, runs in costs.items():
        micros = [[run.workers / records * 1e6 for run in runs], [run.chain / records * 1e6 for run in runs]]
        right = sum(not outcome.problems for outcome in runs)
        walls = spread([outcome.seconds for outcome in runs], "{:.2f}")
        rows.append((kind, walls, *(spread(times, "{:.2f}") for times in micros), f"{right}/{rounds}"))
    pairs = list(zip(costs[KEYS], costs[NO_KEYS], strict=True))
    ratios = [[one[part] / other[part] - 1 for one, other in pairs] for part in range(3)]
    rows.append(("keys / no keys - 1", *(spread(ratio, "{:.1%}") for ratio in ratios), ""))
    print(f"\n{title}; {records} records\n{aligned(rows)}", flush=True)
    problems = [problem for runs in costs.values() for outcome in runs for problem in outcome.problems]
    print(*problems, sep="\n", end="")
    return not problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.chained")
    parser.add_argument("--records", type=int, default=200_000, help="a multiple of 100")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stores", default=("sqlite",), type=lambda text: tuple(filter(None, text.split(","))))
    parser.add_argument("--chains", default=tuple(CHAINS), type=lambda text: tuple(text.split(",")))
    parser.add_argument("--log", type=int, default=40_000, help="a multiple of 100; 0: leave it out")
    options = parser.parse_args()
    right = True
    for chain in options.chains if options.log else ():
        run = partial(on_a_log, options.log, chain)
        right = compared(f"{chain}, one process, in memory", options.log, options.rounds, run) and right
    with ExitStack() as cleaning:
        if options.stores:
            os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"  # see tests.bench
            server = open_server(Kafka(heap="512m"))
            cleaning.callback(server.destroy)
            broker = str(server.url), int(getattr(server, "pid", 0))
            expected = load.fill(broker[0], TOPIC, options.records)
        for store, chain in product(options.stores, options.chains):
            run = partial(once, broker, store, chain, expected)
            right = compared(f"{chain}, Kafka and {store}", options.records, options.rounds, run) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
