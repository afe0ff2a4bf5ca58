"""MongoDB whose server, wire or data fail while we commit: what was acknowledged stays, and nothing is there twice."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo.client_session import ClientSession

from connectors.commits import following
from connectors.mongodb import connection
from connectors.mongodb.state import MongoStore
from streams.contracts import Store
from streams.errors import Fenced, PersistenceError, SystemNotReady
from streams.values import Changes, Partition
from tests.contracts.given import claimed, opened, rows, seen
from tests.contracts.scenarios import a_failing_commit_changes_nothing, error_of
from tests.contracts.test_processes import consistent
from tests.contracts.worker import Worker
from tests.servers import MongoDB, Proxy, Server
from tests.servers.mongodb import gather
from tests.waiting import wait_until

TESTED = ("--setParameter", "enableTestCommands=1")


@pytest.fixture
def server(own_server: Callable[..., Server]) -> Server:
    return own_server(MongoDB, args=TESTED)


@pytest.fixture
def wire(server: Server, proxy: Callable[..., Proxy]) -> Proxy:
    return proxy(server.url)


@pytest.fixture
def store(server: Server, wire: Proxy) -> Iterator[MongoStore]:
    made = opened(server.url.replace(str(server.port), str(wire.port)))
    assert isinstance(made, MongoStore)
    yield made
    made.close()


@pytest.fixture
def worker(partition: Partition) -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def start(url: str) -> Worker:
        made.append(Worker(url, partition))
        assert made[-1].ask("claim token") == "done"
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.kill9()


def short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connection, "REPLY_SECONDS", 1)


def failing(server: Server, command: str, times: int | str, **how: Any) -> None:
    """The server's own failpoint: the next `times` of these commands end so."""
    mode = times if isinstance(times, str) else {"times": times}
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data={"failCommands": [command], **how})


def commits_asked_for(server: Server) -> int:
    with pymongo.MongoClient(server.url) as client:
        return int(client.admin.command("serverStatus")["metrics"]["commands"]["commitTransaction"]["total"])


def went_on(each: Worker, store: Store, partition: Partition, disturb: Callable[[], None]) -> None:
    """The worker commits before and after the disturbance, and its last acknowledged commit is there, whole."""
    each.tell("loop")
    said = [each.heard() for _ in range(20)]
    disturb()
    said += [each.heard() for _ in range(30)]
    said += each.kill9()
    assert all(line.isdigit() for line in said), said[-3:]
    assert list(map(int, said)) == list(range(1, len(said) + 1))
    assert int(said[-1]) <= consistent(store, partition) <= int(said[-1]) + 1


def test_a_server_killed_under_commits_and_restarted_lost_none_and_the_worker_goes_on(
    server: Server, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    def crash() -> None:
        server.kill9()
        server.restart()

    for round_ in range(3):
        store, there = opened(server.url), partition._replace(number=round_)
        each = Worker(server.url, there)
        assert each.ask("claim token") == "done"
        went_on(each, store, there, crash)


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


def test_a_commit_whose_connection_is_reset_is_asked_for_again_and_lands_once(
    store: MongoStore, wire: Proxy, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"a"]))
    commit = ClientSession.commit_transaction
    losing: list[threading.Thread] = []

    def lose() -> None:
        wait_until(lambda: wire.dropped, what="a lost reply", pause=0.001)
        wire.release()
        wire.reset()

    def lossy(session: ClientSession) -> None:
        wire.drop_replies()
        losing.append(threading.Thread(target=lose))
        losing[-1].start()
        commit(session)

    monkeypatch.setattr(ClientSession, "commit_transaction", lossy)
    done = store.commit(claim, Changes(2, entries=[b"b"], outbox=rows(1)))
    losing[0].join(20)
    monkeypatch.undo()
    assert len(losing) == 1
    assert (done.version, seen(store, partition).entries, seen(store, partition).unsent) == (2, [b"a", b"b"], 1)
    assert store.commit(done, Changes(3)).version == 3


def test_a_commit_whose_reply_never_comes_is_unknown_and_the_next_claim_shows_that_it_landed(
    store: MongoStore, wire: Proxy, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1))
    commit = ClientSession.commit_transaction
    with monkeypatch.context() as patched:
        short(patched)
        patched.setattr(ClientSession, "commit_transaction", lambda session: (wire.drop_replies(), commit(session)))
        with pytest.raises(PersistenceError):
            store.commit(claim, Changes(2, entries=[b"e"], outbox=rows(1)))
    wire.release()
    wire.reset()
    assert error_of(lambda: store.commit(claim, Changes(2, entries=[b"e"], outbox=rows(1)))) is Fenced
    claim = claimed(store, partition)
    assert (claim.offset, claim.version, claim.number, list(store.restore(claim))) == (2, 2, 1, [b"e"])


def test_late_bytes_of_a_commit_change_nothing_once_somebody_else_claimed(
    store: MongoStore, wire: Proxy, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = store.commit(claimed(store, partition), Changes(1, entries=[b"good"]))
    short(monkeypatch)
    wire.hold("to-server", b"commitTransaction")
    assert error_of(lambda: store.commit(zombie, Changes(2, entries=[b"zombie"], outbox=rows(1)))) is PersistenceError
    assert wire.wait_held() > 0
    direct = opened(server.url)
    owner = claimed(direct, partition)
    before = commits_asked_for(server)
    wire.release()
    wait_until(lambda: commits_asked_for(server) > before, what="the late bytes")
    assert error_of(lambda: store.commit(zombie, Changes(2, entries=[b"zombie"]))) is Fenced
    assert (seen(direct, partition).entries, seen(direct, partition).unsent) == ([b"good"], 0)
    assert direct.commit(owner, Changes(2)).offset == 2


@pytest.mark.parametrize("command", ["findAndModify", "insert", "update", "delete", "commitTransaction"])
def test_a_transaction_that_the_server_gave_up_is_done_again_as_a_whole(
    store: MongoStore, server: Server, partition: Partition, command: str
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"a"], outbox=rows(1, 2)))
    failing(server, command, 3, errorCode=251, errorLabels=["TransientTransactionError"])
    claim = store.commit(claim, Changes(2, entries=[b"b"], outbox=rows(3), dispatched=[1]))
    view = seen(store, partition)
    assert (claim.version, view.entries, [row.number for row in store.pending(partition, 0, 9)]) == (2, [b"a", b"b"], [2, 3])


@pytest.mark.parametrize("command", ["insert", "update", "delete", "commitTransaction"])
def test_a_commit_that_the_server_never_takes_fails_as_a_whole(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(connection, "ATTEMPTS", 3)
    a_failing_commit_changes_nothing(
        store,
        partition,
        lambda: failing(server, command, "alwaysOn", errorCode=251, errorLabels=["TransientTransactionError"]),
        lambda: failing(server, command, "off"),
    )


def test_a_write_conflict_is_waited_out(store: MongoStore, server: Server, partition: Partition) -> None:
    claim = claimed(store, partition)
    with pymongo.MongoClient(server.url) as client, client.start_session() as session:

        def given_up() -> int:
            return int(client.admin.command("serverStatus")["transactions"]["totalAborted"])

        def give_way() -> None:
            wait_until(lambda: given_up() > before + 1, what="a second attempt that met the conflict", pause=0.001)
            session.abort_transaction()

        before = given_up()
        session.start_transaction()
        client.sluicegate.sluicegate_claim.update_one({"app": partition.app}, {"$set": {"version": 77}}, session=session)
        giving_way = threading.Thread(target=give_way)
        giving_way.start()
        assert store.commit(claim, Changes(1)).version == 1
        giving_way.join(20)


def left_open(store: MongoStore, partition: Partition) -> ClientSession:
    """The transaction of an owner that was stopped, or killed, inside its commit."""
    claim = claimed(store, partition)
    session = store._sessions["/".join(map(str, partition))][1]
    session.start_transaction()
    store._fence(claim, following(claim, Changes(1), 0.0), Changes(1), session)
    return session


def claims_at_once(url: str, session: ClientSession, partition: Partition) -> None:
    other, began = opened(url), time.monotonic()
    raised = error_of(lambda: other.commit(claimed(other, partition), Changes(5)))
    took = time.monotonic() - began
    assert (raised, took < 2) == (None, True)
    with pytest.raises(pymongo.errors.OperationFailure):
        session.commit_transaction()
    assert seen(other, partition).claim.offset == 5


def test_a_claim_ends_the_transaction_that_the_former_owner_left_open(store: MongoStore, server: Server, partition: Partition) -> None:
    claims_at_once(server.url, left_open(store, partition), partition)


def test_without_ending_it_a_claim_waits_in_vain(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = left_open(store, partition)
    short(monkeypatch)
    monkeypatch.setattr(MongoStore, "_end_session", lambda _store, _key: None)
    with pytest.raises(AssertionError):
        claims_at_once(server.url, session, partition)
    session.abort_transaction()


def test_a_server_that_hangs_ends_as_a_persistence_error_in_time(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claimed(store, partition)
    short(monkeypatch)
    server.pause()
    calls = (lambda: store.commit(claim, Changes(1)), lambda: store.read(partition), lambda: store.incarnation, store.level)
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
        lambda: store.claim(partition, "t", "m"), lambda: store.commit(claim, Changes(2)), lambda: list(store.restore(claim)),
        lambda: store.pending(partition, 0, 1), lambda: store.acquit(partition, "t", ["p"]), lambda: store.read(partition),
        lambda: store.partitions(partition.app), store.level, store.migrate, lambda: store.incarnation,
    )  # fmt: skip
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
        work = [threading.Thread(target=lambda c=claim: results.append(error_of(lambda: store.commit(c, Changes(1))))) for claim in claims]
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


def test_emptied_collections_fence_and_get_another_name(server: Server, store: MongoStore, partition: Partition) -> None:
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
    assert error_of(lambda: store.commit(claim, Changes(6, entries=[b"late"], outbox=rows(2)))) is Fenced
    with pytest.raises(SystemNotReady, match="run `sluicegate migrate`"):
        claimed(store, partition)
    with pymongo.MongoClient(server.url) as client:
        assert client.sluicegate.list_collection_names() == []
    assert store.migrate() != []
    claim = claimed(store, partition)
    assert (claim.offset, claim.last, list(store.pending(partition, 0, 9))) == (-1, 0, [])
    assert claim.incarnation == store.incarnation != name


def test_a_row_keeps_the_name_of_the_data_it_was_made_in(server: Server, store: MongoStore, partition: Partition) -> None:
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
