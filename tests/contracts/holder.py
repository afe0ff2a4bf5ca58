"""A process that takes a lease from a store, and then stands still inside the transaction of its next step.

`complete` holds the completion of a sealed batch, `insert` an insert into the buffer, `emit` the emission of timeouts.
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
from sluicegate.connectors.sql.transactions import TransactionRunner
from sluicegate.streams.contracts.options import LeasedOptions, TimeoutOptions
from tests.contracts.buffer.given import entries, message, of
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


def main(url: str, name: str, step: str) -> None:
    listener = BeforeCommit()
    pymongo.monitoring.register(listener)
    store = opened(url)
    if step == "emit":
        batch = store.timeouts.get_batch(100)
        arm(listener)
        store.timeouts.emit(batch)
    elif step == "complete":
        [sealed] = store.buffer.insert_and_seal(name, entries(0, 1, correlation_id="c"), of(2, lease=LEASE)).batches
        arm(listener)
        store.buffer.complete(name, sealed, [message(name, sealed.id)])
    else:
        store.buffer.count(name)
        arm(listener)
        store.buffer.insert_and_seal(name, entries(0, 1, correlation_id="c"), of(2, lease=LEASE))


if __name__ == "__main__":
    main(*sys.argv[1:])
