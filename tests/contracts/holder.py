"""A process that takes a lease from a store, and then stands still inside the transaction of its next step.

STEPS has the steps: `complete` holds the completion of a sealed batch, `insert` an insert into the buffer.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partialmethod
from pathlib import Path
from typing import Any

import pymongo.monitoring
import redis
from sqlalchemy import Connection

from sluicegate.connectors import open_store
from sluicegate.connectors.sql.leased.transactions import TransactionRunner
from sluicegate.streams.contracts.options import LeasedOptions, TimeoutOptions
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.buffer.given import entries, entry, message, of
from tests.servers.process import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
LEASE = timedelta(seconds=2)


class Holder:
    """The other end. It is inside the transaction when it is made."""

    def __init__(self, url: str, name: str, step: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.contracts.holder", url, name, step],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent(9),
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "inside\n"

    def kill9(self) -> None:
        assert self.process.stdout
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def opened(url: str) -> Any:
    return open_store(url, options=LeasedOptions(timeouts=TimeoutOptions(LEASE)))


def stand_still(*_: object) -> None:
    print("inside", flush=True)
    time.sleep(600)


class BeforeCommit(pymongo.monitoring.CommandListener):
    """MongoDB: everything is written, and the commit is about to be sent."""

    armed = False

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        if self.armed and event.command_name == "commitTransaction":
            stand_still()

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None: ...


def arm(listener: BeforeCommit) -> None:
    """Whatever the store is: the next transaction does not end."""
    listener.armed = True
    TransactionRunner.run = partialmethod(held, TransactionRunner.run)  # type: ignore[method-assign, assignment]
    redis.connection.AbstractConnection.read_response = stand_still  # type: ignore[method-assign]


def held(self: Any, run: Callable[..., Any], work: Callable[[Connection], object]) -> Any:
    def working(connection: Connection) -> None:
        work(connection)
        stand_still()

    return run(self, working)


def sealed(store: Any, name: str) -> Any:
    return store.buffer.insert_and_seal(name, entries(0, 1, correlation_id="c"), of(2, lease=LEASE)).batches[0]


def ended(store: Any, name: str) -> Any:
    made = [entry(0, correlation_id="c"), entry(1, correlation_id="c", ends=True)]
    return store.buffer.insert_and_seal(name, made, of(9, lease=LEASE)).batches[0]


def lane_batch(store: Any, name: str) -> Any:
    store.outbox.set_lanes(1)
    store.outbox.add(None, [message(name, "sent")], require_transaction=False)
    return store.outbox.claim(0, name, 10, lease=LEASE)


def any_batch(store: Any, name: str) -> Any:
    store.outbox.add(None, [message(name, "sent")], require_transaction=False)
    return store.outbox.claim_any(10, lease=LEASE)


def open_group(store: Any, name: str) -> None:
    store.buffer.insert_and_seal(name, entries(0, 1, correlation_id="c"), of(after_first=timedelta(hours=1)))


def snapshot(store: Any, name: str) -> Any:
    open_group(store, name)
    return store.buffer.get_snapshot(name, lease=LEASE)


def locked(store: Any, _: str) -> Any:
    return store.timeouts.get_batch(100)


def partition_of(name: str) -> Partition:
    return Partition(name, "agent", "topic", 0)


def commit(store: Any, name: str, apart: bool, arm: Callable[[], None]) -> None:
    """`apart`: in another session than that of the claim, as a second thread of the process would."""
    claim = store.claim(partition_of(name), "token", "member")
    if apart:
        store._sessions.clear()
    arm()
    store.commit(claim, Changes(1, entries=[b"e"]))


def transaction(store: Any, name: str, arm: Callable[[], None]) -> None:
    """An application's."""
    store.outbox.lanes()
    with store.transaction() as session:
        store.outbox.add(session, [message(name, "held")])
        arm()


Step = Callable[[Any, str, Callable[[], None]], object]


def after(prepare: Callable[[Any, str], Any], step: Callable[[Any, str, Any], object]) -> Step:
    """A step that is held, after what comes before it."""

    def run(store: Any, name: str, arm: Callable[[], None]) -> None:
        prepared = prepare(store, name)
        arm()
        step(store, name, prepared)

    return run


STEPS: dict[str, Step] = {
    "insert": after(lambda store, name: store.buffer.count(name), lambda store, name, _: sealed(store, name)),
    "insert that ends": after(lambda store, name: store.buffer.count(name), lambda store, name, _: ended(store, name)),
    "complete": after(sealed, lambda store, name, batch: store.buffer.complete(name, batch, [message(name, batch.id)])),
    "due": after(sealed, lambda store, name, _: store.buffer.due(name, of(2, lease=LEASE))),
    "renew": after(sealed, lambda store, name, batch: store.buffer.renew(name, batch.token, LEASE)),
    "renew all": after(sealed, lambda store, name, batch: store.buffer.renew_all(name, [batch.token], LEASE)),
    "release": after(sealed, lambda store, name, batch: store.buffer.release(name, batch)),
    "seal": after(open_group, lambda store, name, _: store.buffer.seal(name, "", of(2, lease=LEASE))),
    "snapshot": after(open_group, lambda store, name, _: store.buffer.get_snapshot(name, lease=LEASE)),
    "renew snapshot": after(snapshot, lambda store, name, claim: store.buffer.renew(name, claim.token, LEASE)),
    "remove snapshot": after(
        snapshot, lambda store, name, claim: store.buffer.remove_snapshot(name, claim, [message(name, "removed")])
    ),
    "release snapshot": after(snapshot, lambda store, name, claim: store.buffer.release_snapshot(name, claim)),
    "remove one": after(open_group, lambda store, name, _: store.buffer.remove_one(name, "c", force=True)),
    "remove all": after(open_group, lambda store, name, _: store.buffer.remove_all(name)),
    "emit": after(locked, lambda store, _, batch: store.timeouts.emit(batch)),
    "timeouts": after(lambda store, _: store.timeouts.count(), lambda store, name, _: locked(store, name)),
    "release timeout": after(locked, lambda store, _, batch: store.timeouts.release(batch[0].id, batch.owner)),
    "remove timeout": after(locked, lambda store, _, batch: store.timeouts.remove(batch[0].id, batch.owner)),
    "move timeout": after(locked, lambda store, _, batch: store.timeouts.reschedule(batch[0].id, batch[0].due_at)),
    "cancel timeout": after(locked, lambda store, _, batch: store.timeouts.cancel(batch[0].id)),
    "clear locks": after(locked, lambda store, *_: store.timeouts.reap_stale_leases()),
    "lanes": after(lambda store, _: store.outbox.lanes(), lambda store, *_: store.outbox.set_lanes(1)),
    "lane": after(lane_batch, lambda store, name, _: store.outbox.claim(0, name, 10, lease=LEASE)),
    "mark": after(lane_batch, lambda store, _, batch: store.outbox.mark(batch, None)),
    "release lane": after(lane_batch, lambda store, _, batch: store.outbox.release(batch)),
    "claim any": after(any_batch, lambda store, *_: store.outbox.claim_any(10, LEASE)),
    "mark any": after(any_batch, lambda store, _, batch: store.outbox.mark(batch, None)),
    "release any": after(any_batch, lambda store, _, batch: store.outbox.release(batch)),
    "transaction": transaction,
    "commit": lambda store, name, arm: commit(store, name, False, arm),
    "commit apart": lambda store, name, arm: commit(store, name, True, arm),
}


def main(url: str, name: str, step: str) -> None:
    listener = BeforeCommit()
    pymongo.monitoring.register(listener)
    STEPS[step](opened(url), name, lambda: arm(listener))


if __name__ == "__main__":
    main(*sys.argv[1:])
