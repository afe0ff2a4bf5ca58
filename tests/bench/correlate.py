"""Orders and their payments on a real broker and a real store, with kills and a rebalance: is each answer right?

    python -m tests.bench.correlate [--orders 200000] [--store redis|postgresql] [--kills 5]

95 of 100 orders are paid. Topics have 4 and 6 partitions. At 100 orders a second, a payment is written up to 10 minutes
before or after its place. A leg is absent by the times of the records, 25 minutes after the other one. All worker
processes are killed `--kills` times under load, and a second `run` joins and leaves. The command fails unless each paid
order has one match, each other order one absence, and nothing else came. It prints how long that took.
"""

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.integration.test_correlate import Scene, history, judge
from tests.servers import Kafka, Postgres, Valkey
from tests.servers.program import Program
from tests.servers.shared import open_server
from tests.waiting import wait_until

DISORDER = 60_000  # orders in 10 minutes, at 100 a second
STORES: dict[str, type[Program]] = {"redis": Valkey, "postgresql": Postgres}
QUIET = 30.0  # seconds in which nothing more may come


def fed(scene: Scene, orders: int, kills: int, say: Callable[[str], None]) -> set[str]:
    """Sends the records while workers die and a second `run` comes and goes. Returns the orders that are paid."""
    records, paid = history(random.Random(7), orders, min(DISORDER, orders // 10))
    share = -(-len(records) // (kills + 2))
    parts = [records[begin : begin + share] for begin in range(0, len(records), share)]
    for turn, part in enumerate(parts):
        scene.put(part)
        say(f"{share * turn + len(part):,} records sent, {scene.read():,} answers")
        if turn < kills:
            scene.kill(turn + 1)
        elif turn == kills:
            second = scene.start()
            try:
                second.wait("partition.claimed", 4, 120)
                say(f"a second run has {len(second.events('partition.claimed'))} partitions")
                second.signal(signal.SIGTERM)
                assert second.exit_code(60) == 0
            finally:
                second.close()
    return paid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--orders", type=int, default=200_000)
    parser.add_argument("--store", choices=STORES, default="redis")
    parser.add_argument("--kills", type=int, default=5)
    asked = parser.parse_args()
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s: {text}", flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka, store = open_server(Kafka()), open_server(STORES[asked.store]())
        stack.callback(kafka.destroy)
        stack.callback(store.destroy)
        scene = Scene(str(store.url), str(kafka.url), "bench", folder)
        stack.callback(scene.close)
        say(f"{asked.orders:,} orders on {asked.store}")
        paid = fed(scene, asked.orders, asked.kills, say)
        wait_until(lambda: scene.read() >= asked.orders, 3600, "a result of each order", pause=0.5)
        say("a result of each order")
        end = time.monotonic() + QUIET
        wait_until(lambda: scene.read() > 0 and time.monotonic() > end, 2 * QUIET, "the end of the silence")
        judge(scene, asked.orders, paid)
        counts = {name: len(finding) for name, finding in scene.found.items()}
        say(f"all right: {counts}, {asked.kills} kills of all workers, one rebalance")


if __name__ == "__main__":
    main()
