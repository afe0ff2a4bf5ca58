"""A claimer as a process of its own: `python -m tests.contracts.outbox.claimer URL ORDER`. ORDER is `any`, or the
number of a lane.

It claims, says one line with the ids (and numbers) of its rows, marks them as dispatched and goes on until nothing is
pending. `hold` claims once, says its line and does nothing more.
"""

import subprocess
import sys
from datetime import timedelta
from uuid import uuid4

from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from tests.contracts.outbox.given import Place, Store
from tests.contracts.worker import ROOT
from tests.servers.process import die_with_parent


def started(url: str, order: str, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.outbox.claimer", url, order, *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent(9),
    )


def claimed(store: Store, order: str, token: str, lease: timedelta) -> LaneBatch | None:
    return store.outbox.claim_any(7, lease) if order == "any" else store.outbox.claim(int(order), token, 7, lease=lease)


def drain(store: Store, order: str) -> None:
    token = uuid4().hex
    while store.outbox.count():
        batch = claimed(store, order, token, timedelta(minutes=5))
        if batch is not None and batch.rows:
            print(*(f"{row.message.id}:{row.number}" for row in batch.rows), flush=True)
            store.outbox.mark(batch, [Outcome(row.message.id, "dispatched") for row in batch.rows])
        if batch is not None and order != "any":
            store.outbox.release(batch)


def hold(store: Store, order: str) -> None:
    batch = claimed(store, order, uuid4().hex, timedelta(seconds=1))
    assert batch is not None
    print(*(f"{row.message.id}:{row.number}" for row in batch.rows), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    url, order, *words = sys.argv[1:]
    place = Place(url)
    made = place.store()
    print("ready", flush=True)
    sys.stdin.readline()
    (hold if words else drain)(made, order)
    place.close()
