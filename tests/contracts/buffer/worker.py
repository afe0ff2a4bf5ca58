"""A process of its own that fills and empties a buffer: it waits for a line, does what its arguments say, and prints
what it was told.

`same COUNT` (inserts the keys 0 to COUNT - 1, which others insert too) · `seal FIRST COUNT` (inserts its own, one by
one, sealing fives) · `snapshot COUNT` (leases threes, COUNT times) · `work` (completes what is due, each with a
message, until the buffer is empty).
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sluicegate.connectors import open_store
from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.buffer.given import entries, message, of
from tests.servers.process import die_with_parent

ROOT = Path(__file__).resolve().parents[3]


def together(url: str, name: str, *orders: str) -> list[Any]:
    """What processes with these orders print, started at one moment."""
    command = [sys.executable, "-m", "tests.contracts.buffer.worker", url, name]
    workers = [
        subprocess.Popen(
            [*command, *order.split()],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(9),
        )
        for order in orders
    ]
    try:
        for worker in workers:
            assert worker.stdout
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin
            print(file=worker.stdin, flush=True)
        return [json.loads(worker.communicate(timeout=90)[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def same(store: Any, name: str, count: int) -> int:
    return sum(store.buffer.insert(name, entries(first, first + 1)).stored for first in range(0, count, 2))


def seal(store: Any, name: str, first: int, count: int) -> list[Any]:
    filled = [store.buffer.insert_and_seal(name, entries(number), of(5)) for number in range(first, first + count)]
    return [[batch.id, batch.ids] for result in filled for batch in result.batches]


def snapshot(store: Any, name: str, count: int) -> list[str]:
    return [id for _ in range(count) for id in store.buffer.get_snapshot(name, 3).ids]


def work(store: Any, name: str) -> list[str]:
    completed = []
    while store.buffer.count(name) > 0:
        for batch in store.buffer.due(name, of(5), 2):
            try:
                store.buffer.complete(name, batch, [message(name, f"{name}-{batch.id}")])
                completed.append(batch.id)
            except ConcurrencyError:
                continue
    return completed


if __name__ == "__main__":
    _, url, name, order, *numbers = sys.argv
    opened = open_store(url)
    opened.migrate()
    print("ready", flush=True)
    sys.stdin.readline()
    print(
        json.dumps(
            {"same": same, "seal": seal, "snapshot": snapshot, "work": work}[order](opened, name, *map(int, numbers))
        )
    )
