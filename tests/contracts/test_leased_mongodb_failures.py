"""The leased contracts on a MongoDB whose callers, transactions and primaries end at the worst moment."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymongo
import pytest

from sluicegate.connectors.sessions import MongoSession
from sluicegate.streams.contracts.leased_values import Entry, Gate, Timeout
from sluicegate.streams.contracts.messages import OutboxMessage, Outcome
from sluicegate.streams.errors import ConcurrencyError, ConfigurationError, NotCommitted, PersistenceError
from tests.contracts.given import opened
from tests.contracts.mongodb import server  # noqa: F401
from tests.servers import MongoDB, Server
from tests.servers.mongodb import gather
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
KILLED = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from uuid import UUID
import pymongo.monitoring
from sluicegate.connectors import open_store
from sluicegate.streams.contracts.messages import OutboxMessage, Outcome
from sluicegate.streams.contracts.leased_values import Entry, Gate, Timeout

class Killer(pymongo.monitoring.CommandListener):
    armed = False
    def started(self, event):
        if self.armed and moment == "before" and event.command_name == "commitTransaction":
            os.kill(os.getpid(), signal.SIGKILL)
    def succeeded(self, event):
        if self.armed and moment == "after" and event.command_name == "commitTransaction":
            os.kill(os.getpid(), signal.SIGKILL)
    def failed(self, event): ...

url, moment, step = sys.argv[1:]
pymongo.monitoring.register(Killer())
store = open_store(url)
gate, due = Gate(2), Timeout(UUID(int=7), "t", datetime.now(UTC) - timedelta(seconds=1))
message = OutboxMessage("t", b"k", b"v", id="m1")
steps = {
    "insert": lambda: store.buffer.insert("b", [Entry("m1", "c"), Entry("m2", "c")]),
    "seal": lambda: store.buffer.insert_and_seal("b", [Entry("m1", "c"), Entry("m2", "c")], gate),
    "complete": lambda batch: store.buffer.complete("b", batch, [message]),
    "emit": lambda batch: store.timeouts.emit(batch),
    "add": lambda: store.outbox.add(None, [message], require_transaction=False),
    "claim": lambda: store.outbox.claim(13, "dead", 10),
    "mark": lambda batch: store.outbox.mark(batch, [Outcome("m1", "dispatched")]),
}
prepared = []
if step == "complete":
    prepared = store.buffer.insert_and_seal("b", [Entry("m1", "c"), Entry("m2", "c")], gate).batches
elif step == "emit":
    store.timeouts.insert(due)
    prepared = [store.timeouts.get_batch()]
elif step in ("claim", "mark"):
    steps["add"]()
    prepared = [store.outbox.claim(13, "dead", 10)] if step == "mark" else []
Killer.armed = True
steps[step](*prepared)
"""


def state(store: Any) -> tuple[Any, ...]:
    sealed = store._data.sluicegate_buffer_sealed.count_documents({})
    count = store._data.sluicegate_lock.count_documents({"token": "dead"})
    rows = [
        store.buffer.count("b"),
        sealed,
        store.timeouts.count(),
        store.outbox.count(),
        store.outbox.count("dispatched"),
        count,
    ]
    return tuple(rows)


@pytest.fixture
def quick(own_server: Callable[..., Server]) -> Server:
    """It gives up transactions of dead clients after 2 s, not 60."""
    return own_server(MongoDB, args=("--setParameter", "transactionLifetimeLimitSeconds=2"))


STEPS = {  # rows, sealed batches, timeouts, pending, dispatched, held lanes: without the step, and with it
    "insert": ((0, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0, 0)),
    "seal": ((0, 0, 0, 0, 0, 0), (2, 1, 0, 0, 0, 0)),
    "complete": ((2, 1, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0)),
    "emit": ((0, 0, 1, 0, 0, 0), (0, 0, 0, 1, 0, 0)),
    "add": ((0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0)),
    "claim": ((0, 0, 0, 1, 0, 0), (0, 0, 0, 1, 0, 1)),
    "mark": ((0, 0, 0, 1, 0, 1), (0, 0, 0, 0, 1, 1)),
}


def test_a_process_killed_inside_a_step_leaves_all_of_it_or_nothing_and_blocks_the_others_for_a_moment_only(
    quick: Server,
) -> None:
    for step, (without, with_it) in STEPS.items():
        for moment, expected in (("before", without), ("after", with_it)):
            url = quick.url.replace("/sluicegate?", f"/{step}_{moment}?")
            store: Any = opened(url)
            done = subprocess.run(
                [sys.executable, "-c", KILLED, url, moment, step], cwd=ROOT, capture_output=True, text=True, timeout=60
            )
            assert (done.returncode, done.stderr) == (-9, ""), step
            assert state(store) == expected, (step, moment)
            store.buffer.insert("b", [Entry("other", "c")])
            store.timeouts.insert(Timeout(uuid4(), "t", datetime.now(UTC)))
            store.outbox.add(None, [OutboxMessage("t", b"k", id="m1")], require_transaction=False)
            store.outbox.claim(13, "other", 10)
            assert [row.message.id for row in store.outbox.find()].count("m1") == 1
            store.close()


def test_a_primary_that_steps_down_under_inserts_and_marks_loses_and_doubles_nothing(
    own_server: Callable[..., Server],
) -> None:
    nodes = [own_server(MongoDB, alone=False) for _ in range(3)]
    url = gather(nodes)
    store: Any = opened(url)
    over = threading.Event()
    sent: list[str] = []
    threads = [
        threading.Thread(target=fills, args=(store, over)),
        threading.Thread(target=relays, args=(store, over, sent)),
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(sent) >= 10, 30, "rows that were sent")
    with pymongo.MongoClient(url) as client:
        client.admin.command("ping")
        first = client.primary
        client.admin.command("replSetStepDown", 5, force=True)
        before = len(sent)
        wait_until(lambda: len(sent) >= before + 20, 60, "rows that were sent after the step-down")
        assert client.primary is not None
        wait_until(lambda: client.primary != first, what="another primary")
    over.set()
    for thread in threads:
        thread.join(60)
    relays(store, over, sent)
    fired = store.outbox.find(limit=10_000)
    assert len(fired) == len({row.message.id for row in fired}) == len(set(sent))
    assert [row.message.id for row in fired if row.state != "dispatched"] == []
    keys = [int(key) for row in fired for key in row.message.value.decode().split()] + [
        int(entry.idempotency_key) for entry in store.buffer.iter_raw("b")
    ]
    assert sorted(keys) == list(range(len(keys)))
    assert sent == list(dict.fromkeys(sent))


def again(call: Callable[..., Any], *arguments: Any) -> Any:
    """As a worker does that does not know whether it landed."""
    while True:
        try:
            return call(*arguments)
        except PersistenceError:
            continue


def fills(store: Any, over: threading.Event) -> None:
    """Buffers by twos; what was sealed goes out with its keys."""
    number = 0
    while not over.is_set():
        again(store.buffer.insert_and_seal, "b", [Entry(str(number), "c")], Gate(2, lease=timedelta(milliseconds=1)))
        number += 1
        for batch in again(store.buffer.due, "b", Gate(2)):
            value = " ".join(entry.idempotency_key for entry in batch.entries).encode()
            try:
                again(store.buffer.complete, "b", batch, [OutboxMessage("t", b"k", value, id=batch.id)])
            except ConcurrencyError:  # the call before, whose reply was lost, had done it
                assert batch.id in {row.message.id for row in again(store.outbox.find, None, "t", 100_000)}


def relays(store: Any, over: threading.Event, sent: list[str]) -> None:
    while True:
        batch = again(store.outbox.claim, 13, "mine", 5)
        if not batch.rows and over.is_set():
            return
        outcomes = [Outcome(row.message.id, "dispatched") for row in batch.rows]
        again(store.outbox.mark, batch, outcomes)
        sent += [row.message.id for row in batch.rows]


def adds_an_id_that_another_added_since(one: Any, two: Any) -> list[str]:
    """What is there after both."""
    with contextlib.suppress(PersistenceError), one.transaction() as late:
        late.database.mine.find_one({}, session=late.client_session)
        two.outbox.add(
            None, [OutboxMessage("t", b"k", id="m1"), OutboxMessage("t", b"k", id="m2")], require_transaction=False
        )
        one.outbox.add(late, [OutboxMessage("t", b"k", id="m1")])
    return [row.message.id for row in one.outbox.find()]


def test_an_id_that_two_transactions_add_at_once_is_one_row(server: Server) -> None:  # noqa: F811
    one, two = opened(server.url), opened(server.url)
    assert adds_an_id_that_another_added_since(one, two) == ["m1", "m2"]
    gate = threading.Barrier(4)

    def add(store: Any) -> None:
        gate.wait(20)
        store.outbox.add(
            None, [OutboxMessage("t", b"k", id=f"n{number}") for number in range(50)], require_transaction=False
        )

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add, (one, two, one, two))) == [None] * 4
    assert one.outbox.count() == 52  # type: ignore[attr-defined]


def test_without_the_unique_index_it_is_two(server: Server) -> None:  # noqa: F811
    one, two = opened(server.url), opened(server.url)
    with pymongo.MongoClient(server.url) as client:
        client.sluicegate.sluicegate_message.drop_index("ids_1")
    assert adds_an_id_that_another_added_since(one, two) == ["m1", "m2", "m1"]


def test_a_session_is_refused_when_it_is_over_or_of_other_data(server: Server, ns: str) -> None:  # noqa: F811
    store: Any = opened(server.url)
    other: Any = opened(server.url.replace("/sluicegate?", f"/{ns}?"))
    with store.transaction() as session:
        for refused in (session.client_session, "session", session.database):
            with pytest.raises(ConfigurationError, match="MongoSession"):
                store.outbox.add(refused, [])
        with pytest.raises(ConfigurationError, match="database"):
            other.outbox.add(session, [])
        for end in ("commit_transaction", "abort_transaction", "end_session"):
            with pytest.raises(ConfigurationError):
                getattr(session.client_session, end)()
    assert isinstance(session, MongoSession)
    with pytest.raises(ConfigurationError, match="over"):
        store.outbox.add(session, [OutboxMessage("t")])


def test_a_transaction_that_the_server_gave_up_is_not_committed(server: Server) -> None:  # noqa: F811
    store: Any = opened(server.url)
    fail = {"failCommands": ["commitTransaction"], "errorCode": 251, "errorLabels": ["TransientTransactionError"]}
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail)

    def write() -> None:
        with store.transaction() as session:
            session.database.mine.insert_one({"_id": 1}, session=session.client_session)
            store.outbox.add(session, [OutboxMessage("t", id="m1")])

    with pytest.raises(NotCommitted):
        write()
    assert (store.outbox.count(), store._data.mine.count_documents({})) == (0, 0)


def test_a_wait_is_told_of_each_row_that_comes_and_of_none_before_it(server: Server) -> None:  # noqa: F811
    store: Any = opened(server.url)
    writer: Any = opened(server.url)
    writer.outbox.add(None, [OutboxMessage("t", id="m0")], require_transaction=False)
    assert store.outbox.wait(0.05) is False
    writer.outbox.add(None, [OutboxMessage("t", id="m1"), OutboxMessage("t", id="m2")], require_transaction=False)
    assert store.outbox.wait(5) is True
    assert store.outbox.wait(0.05) is False
    waits: list[bool] = []
    waiting = threading.Thread(target=lambda: waits.append(store.outbox.wait(20)))
    waiting.start()
    with writer.transaction() as session:
        writer.outbox.add(session, [OutboxMessage("t", b"k", id="m3")])
        assert waits == []
    waiting.join(20)
    assert waits == [True]
    assert store.outbox.claim(13, "t", 10) is not None
    assert store.outbox.wait(0.05) is False


def test_rows_written_while_the_number_of_lanes_changes_are_sent_in_the_lanes_there_are(server: Server) -> None:  # noqa: F811
    store: Any = opened(server.url)
    rows = [OutboxMessage("t", b"%d" % number, id=f"m{number}") for number in range(40)]
    with store.transaction() as session:
        store.outbox.add(session, rows)
        opened(server.url).outbox.set_lanes(1)  # type: ignore[attr-defined]
    batch = store.outbox.claim(0, "t", 100)
    assert sorted(row.message.id for row in batch.rows) == sorted(row.id for row in rows)
    with pytest.raises(ValueError):
        store.outbox.claim(1, "t", 100)
