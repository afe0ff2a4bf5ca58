"""MongoDB whose server, wire or data fail while we commit: what was acknowledged stays, and nothing is there twice."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest

from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.state import MongoStore
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, PersistenceError, SystemNotReady
from tests.contracts.given import claimed, opened, rows
from tests.contracts.mongodb import server, short, store, wire  # noqa: F401
from tests.contracts.scenarios import error_of
from tests.contracts.test_processes import consistent
from tests.contracts.worker import Worker
from tests.servers import MongoDB, Proxy, Server
from tests.servers.mongodb import gather
from tests.waiting import wait_until


@pytest.fixture
def worker(partition: Partition) -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def start(url: str) -> Worker:
        made.append(Worker(url, partition))
        assert made[-1].ask("claim token") == "done"
        return made[-1]

    yield start
    for process in made:
        if process.process.poll() is None:
            process.kill9()


def failing(server: Server, command: str, times: int | str, **how: Any) -> None:
    """The server's own failpoint: the next `times` of these commands end so."""
    mode = times if isinstance(times, str) else {"times": times}
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data={"failCommands": [command], **how})


def went_on(process: Worker, store: Store, partition: Partition, disturb: Callable[[], None]) -> None:
    """The worker commits before and after the disturbance, and its last acknowledged commit is there, whole."""
    process.tell("loop")
    lines = [process.heard() for _ in range(20)]
    disturb()
    outages = 0
    while len(lines) < 50:
        line = process.heard()
        if line.isdigit():
            lines.append(line)
            continue
        assert line == "PersistenceError"  # unknown: the driver may first have to hear that the server is gone
        outages += 1
        wait_until(lambda: process.ask("claim again") == "done", 30, "a new claim")
        process.tell("loop")
    lines += process.kill9()
    assert all(line.isdigit() for line in lines), lines[-3:]
    numbers = list(map(int, lines))
    assert numbers == sorted({*numbers})
    assert numbers[-1] - len(numbers) <= outages  # the commit of an unknown result may have landed
    assert int(lines[-1]) <= consistent(store, partition) <= int(lines[-1]) + 1


def test_a_server_killed_under_commits_and_restarted_lost_none_and_the_worker_goes_on(
    server: Server, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    def crash() -> None:
        server.kill9()
        server.restart()

    for round_ in range(3):
        store, there = opened(server.url), partition._replace(number=round_)
        process = Worker(server.url, there)
        assert process.ask("claim token") == "done"
        went_on(process, store, there, crash)


@pytest.mark.parametrize("how", ["step-down", "kill"])
def test_a_set_of_three_that_changes_its_primary_under_commits_loses_and_doubles_none(
    own_server: Callable[..., Server], partition: Partition, worker: Callable[[str], Worker], how: str
) -> None:
    nodes = [own_server(MongoDB, alone=False) for _ in range(3)]
    url = gather(nodes)
    store = opened(url)
    client = pymongo.MongoClient(url)
    client.admin.command("ping")
    first = client.primary

    def change() -> None:
        if how == "kill":
            next(node for node in nodes if node.port == first[1]).kill9()
        else:
            client.admin.command("replSetStepDown", 5, force=True)

    went_on(worker(url), store, partition, change)
    assert wait_until(lambda: client.primary, what="a primary") != first


def test_a_server_that_hangs_ends_as_a_persistence_error_in_time(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(store, partition)
    short(monkeypatch)
    server.pause()
    calls = (
        lambda: store.commit(claim, Changes(1)),
        lambda: store.read(partition),
        lambda: store.incarnation,
        store.level,
    )
    for call in calls:
        began = time.monotonic()
        with pytest.raises(PersistenceError):
            call()
        assert time.monotonic() - began < 5
    server.resume()
    monkeypatch.undo()
    assert claimed(store, partition).offset in (-1, 1)


def test_every_call_on_a_broken_wire_is_a_persistence_error_and_the_next_one_works(
    store: MongoStore, wire: Proxy, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e"]))
    wire.refuse()
    wire.reset()
    calls = (
        lambda: store.claim(partition, "t", "m"),
        lambda: store.commit(claim, Changes(2)),
        lambda: list(store.restore(claim)),
        lambda: store.pending(partition, 0, 1),
        lambda: store.clear_crash_mark(partition, "t", ["p"]),
        lambda: store.read(partition),
        lambda: store.partitions(partition.app),
        store.level,
        store.migrate,
        lambda: store.incarnation,
    )
    with monkeypatch.context() as patched:
        patched.setattr(connection, "REPLY_SECONDS", 0.3)
        for call in calls:
            with pytest.raises(PersistenceError):
                call()
    wire.accept()
    assert store.commit(claim, Changes(2)).offset == 2


def test_one_connection_serves_many_threads_and_none_of_them_waits_for_ever(
    server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(f"{server.url}&maxPoolSize=1")
    claims = [claimed(store, partition._replace(number=number)) for number in range(4)]

    def all_at_once() -> list[object]:
        results: list[object] = []
        work = [
            threading.Thread(target=lambda c=claim: results.append(error_of(lambda: store.commit(c, Changes(1)))))
            for claim in claims
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(20)
        return results

    with monkeypatch.context() as patched:
        short(patched)
        failing(server, "findAndModify", "alwaysOn", blockConnection=True, blockTimeMS=3000)
        assert all_at_once() == [PersistenceError] * 4
    failing(server, "findAndModify", "off")
    claims = [claimed(store, claim.partition) for claim in claims]
    assert all_at_once() == [None] * 4


def test_emptied_collections_fence_and_get_another_name(
    server: Server, store: MongoStore, partition: Partition
) -> None:
    name, claim = store.incarnation, store.commit(claimed(store, partition), Changes(5, entries=[b"e"], outbox=rows(1)))
    with pymongo.MongoClient(server.url) as client:
        for kind in ("meta", "claim", "changelog", "outbox", "dead"):
            client.sluicegate[f"sluicegate_{kind}"].delete_many({})
    assert error_of(lambda: store.commit(claim, Changes(6, entries=[b"late"], outbox=rows(2)))) is Fenced
    claim = claimed(store, partition)
    assert (claim.offset, claim.number, claim.last, list(store.pending(partition, 0, 9))) == (-1, 0, 0, [])
    assert claim.incarnation == store.incarnation != name


@pytest.mark.parametrize("how", ["dropped", "another"])
def test_a_dropped_database_or_another_server_at_the_address_fences_and_says_what_to_run(
    server: Server, partition: Partition, how: str
) -> None:
    store = opened(server.url)
    name, claim = store.incarnation, store.commit(claimed(store, partition), Changes(5, entries=[b"e"], outbox=rows(1)))
    if how == "dropped":
        with pymongo.MongoClient(server.url) as client:
            client.drop_database("sluicegate")
    else:
        server.kill9()
        shutil.rmtree(server.place.data)
        server.place.data.mkdir()
        server.restart()
    late: list[type[Exception] | None] = []

    def fenced() -> bool:
        late.append(error_of(lambda: store.commit(claim, Changes(6, entries=[b"late"], outbox=rows(2)))))
        return late[-1] is Fenced

    wait_until(fenced, 30, "the fence")
    assert {*late[:-1]} <= {PersistenceError}  # the driver may first have to hear that the old server is gone
    with pytest.raises(SystemNotReady, match="run `sluicegate migrate`"):
        claimed(store, partition)
    with pymongo.MongoClient(server.url) as client:
        assert client.sluicegate.list_collection_names() == []
    assert store.migrate() != []
    claim = claimed(store, partition)
    assert (claim.offset, claim.last, list(store.pending(partition, 0, 9))) == (-1, 0, [])
    assert claim.incarnation == store.incarnation != name


def test_a_row_keeps_the_name_of_the_data_it_was_made_in(
    server: Server, store: MongoStore, partition: Partition
) -> None:
    name = claimed(store, partition).incarnation
    with pymongo.MongoClient(server.url) as client:
        client.sluicegate.sluicegate_meta.update_one({"_id": "incarnation"}, {"$set": {"value": "another"}})
    assert (claimed(store, partition).incarnation, store.incarnation) == (name, "another")


def test_a_row_that_cannot_be_read_is_a_persistence_error_without_its_content(
    server: Server, store: MongoStore, partition: Partition
) -> None:
    store.commit(claimed(store, partition), Changes(1, outbox=rows(1)))
    with pymongo.MongoClient(server.url) as client:
        client.sluicegate.sluicegate_outbox.update_one({}, {"$set": {"rows": [b"hush"]}})
        client.sluicegate.sluicegate_claim.update_one({}, {"$unset": {"version": 1}})
    for call in (lambda: store.pending(partition, 0, 9), lambda: store.read(partition)):
        with pytest.raises(PersistenceError, match="a stored value cannot be read") as caught:
            call()
        assert "hush" not in str(caught.value)


def test_an_error_holds_no_settings_of_the_driver_and_no_view_of_its_servers() -> None:
    why = "h1:1: refused (configured timeouts: socketTimeoutMS: 5000.0ms),h2:2: refused (configured timeouts: x)"
    text = f"{why}, Timeout: 5.0s, Topology Description: <TopologyDescription id: 6b, servers: [...]>"
    with pytest.raises(PersistenceError) as caught, connection.answering():
        raise pymongo.errors.ServerSelectionTimeoutError(text)
    assert str(caught.value) == "mongodb: ServerSelectionTimeoutError: h1:1: refused,h2:2: refused"
