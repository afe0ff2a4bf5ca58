"""A process is killed inside the transaction of a leased step: the others go on within the lease and ten seconds."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymongo
import pytest

from sluicegate.connectors.mongodb import left_open
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.values import Changes
from sluicegate.streams.errors import ConcurrencyError, PersistenceError
from tests.contracts.buffer.given import entries, message, of, sent
from tests.contracts.conftest import SHARED_BETWEEN_PROCESSES
from tests.contracts.holder import LEASE, STEPS, Holder, opened, partition_of
from tests.contracts.own import own_url
from tests.servers import MongoDB, Server
from tests.waiting import wait_until

WITHIN = LEASE.total_seconds() + 10
each_store = pytest.mark.parametrize("backend", SHARED_BETWEEN_PROCESSES, indirect=True)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    return own_url("killed_inside", backend, request, tmp_path, ns)


@pytest.fixture
def store(url: str) -> Iterator[Any]:
    made = opened(url)
    made.migrate()
    yield made
    made.close()


def fired(store: Any, name: str) -> bool:
    """As a worker does: completes what is due. Is the buffer empty?"""
    with suppress(PersistenceError, ConcurrencyError):
        for batch in store.buffer.due(name, of(2, lease=LEASE)):
            store.buffer.complete(name, batch, [message(name, batch.id)])
        return bool(store.buffer.count(name) == 0)
    return False


def emitted(store: Any) -> bool:
    """As a dispatcher does."""
    with suppress(PersistenceError):
        while batch := store.timeouts.get_batch(100):
            store.timeouts.emit(batch)
        return bool(store.timeouts.count() == 0)
    return False


def soon(killed_at: float, condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, killed_at + WITHIN - time.monotonic(), what)
    assert time.monotonic() < killed_at + WITHIN, f"{what} took {time.monotonic() - killed_at:.1f} s"


def inserted(store: Any, ns: str) -> bool:
    gate = of(2, after_first=timedelta(seconds=1), lease=LEASE)
    with suppress(PersistenceError):
        store.buffer.insert_and_seal(ns, entries(2, 3, correlation_id="c"), gate)
        return True
    return False


@each_store
@pytest.mark.parametrize("step", ["insert", "insert that ends", "complete"])
def test_the_shared_buffer_goes_on_when_a_process_was_killed_inside(store: Any, url: str, ns: str, step: str) -> None:
    holder = Holder(url, ns, step)
    holder.kill9()
    killed_at = time.monotonic()
    soon(killed_at, lambda: inserted(store, ns), "an insert")
    soon(killed_at, lambda: fired(store, ns), "an empty buffer")
    assert len(sent(store, ns)) in ((2,) if step == "complete" else (1, 2))


@each_store
def test_timeouts_are_emitted_when_a_process_was_killed_inside(store: Any, url: str, ns: str) -> None:
    store.timeouts.insert(*due(ns))
    holder = Holder(url, ns, "emit")
    holder.kill9()
    soon(time.monotonic(), lambda: emitted(store), "the end of all timeouts")
    assert len(store.outbox.find(topic=ns, limit=1000)) == 300


def sending(store: Any, ns: str) -> bool:
    """As a dispatcher does: claims the lane and marks its rows."""
    with suppress(PersistenceError, ConcurrencyError):
        store.outbox.add(None, [message(ns, "next")], require_transaction=False)
        batch = store.outbox.claim(0, "other", 1000, lease=LEASE)
        if batch is not None:
            store.outbox.mark(batch, None)
        return batch is not None
    return False


def added(store: Any, ns: str) -> bool:
    """As an application does that begins the work of a dead one again."""
    with suppress(PersistenceError):
        store.outbox.add(None, [message(ns, "held")], require_transaction=False)
        return True
    return False


def owned(store: Any, ns: str) -> bool:
    """As the next owner of a partition does."""
    with suppress(PersistenceError):
        claim = store.claim(partition_of(ns), "next", "member")
        store.commit(claim, Changes(2, entries=[b"e"]))
        return True
    return False


@pytest.mark.parametrize("step", STEPS)
def test_mongodb_goes_on_when_a_process_was_killed_inside_any_transaction(alone: Any, ns: str, step: str) -> None:
    """A server without other users: nobody else ends what was left open."""
    alone.timeouts.insert(*due(ns))
    Holder(alone._url, ns, step).kill9()
    killed_at = time.monotonic()
    for condition, what in (
        (lambda: owned(alone, ns), "a claim and a commit"),
        (lambda: inserted(alone, ns), "an insert"),
        (lambda: fired(alone, ns), "an empty buffer"),
        (lambda: emitted(alone), "the end of all timeouts"),
        (lambda: added(alone, ns), "a row with the same id"),
        (lambda: sending(alone, ns), "a lane"),
    ):
        soon(killed_at, condition, what)


def due(ns: str) -> list[Timeout]:
    at = datetime.now(UTC) - timedelta(seconds=5)
    return [Timeout(uuid4(), ns, at.replace(microsecond=0)) for _ in range(300)]


@pytest.fixture
def alone(own_server: Callable[..., Server], tmp_path: Path) -> Iterator[Any]:
    """A MongoDB on which no other test ends what was left open, and a user who may read and write, and nothing else."""
    key = tmp_path / "key"
    key.write_text("akeyforthenodesofonetest")
    key.chmod(0o600)
    server = own_server(MongoDB, args=("--auth", "--keyFile", str(key)))
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("createUser", "root", pwd="root", roles=["root"])
    with pymongo.MongoClient(server.url, username="root", password="root", authSource="admin") as client:
        client.sluicegate.command("createUser", "worker", pwd="hush", roles=[{"role": "readWrite", "db": "sluicegate"}])
    made = opened(server.url.replace("mongodb://", "mongodb://worker:hush@"))
    made.migrate()
    yield made
    made.close()


def test_a_user_who_may_only_read_and_write_can_end_what_was_left_open(alone: Any, ns: str) -> None:
    Holder(alone._url, ns, "insert").kill9()
    wait_until(lambda: inserted(alone, ns), 8, "an insert")


def test_mongodb_without_its_protection_stands_still(alone: Any, ns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_open, "end", lambda server, limit: 0)
    Holder(alone._url, ns, "insert").kill9()
    killed_at = time.monotonic()
    with pytest.raises(TimeoutError):
        soon(killed_at, lambda: inserted(alone, ns), "an insert")
    monkeypatch.undo()
    wait_until(lambda: inserted(alone, ns), 10, "the insert with it")


def test_a_transaction_of_a_process_that_lives_is_ended_only_when_its_time_is_over(alone: Any, ns: str) -> None:
    holder = Holder(alone._url, ns, "insert")
    os.kill(holder.process.pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    wait_until(lambda: inserted(alone, ns), 30, "an insert")
    assert 8 < time.monotonic() - stopped_at < WITHIN
    holder.kill9()


def test_a_transaction_of_an_application_is_never_ended(alone: Any, ns: str) -> None:
    """It may take its time, and holds no lock of a lease."""
    with alone.transaction() as session:
        alone.outbox.add(session, [message(ns, "kept")])
        assert left_open.end(alone._server, 0.0) == 0
    assert sent(alone, ns) == ["kept"]
