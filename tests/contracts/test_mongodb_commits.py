"""One commit in MongoDB is one transaction: lost replies, late bytes, conflicts, and what is left open."""

import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from hypothesis import Phase
from pymongo.client_session import ClientSession

from sluicegate.connectors.commits import next_claim
from sluicegate.connectors.mongodb import chunks, connection, state
from sluicegate.connectors.mongodb.state import MongoStore
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from tests.contracts.given import claimed, opened, row, rows, seen
from tests.contracts.mongodb import server, short, store, wire  # noqa: F401
from tests.contracts.scenarios import a_failing_commit_changes_nothing, error_of
from tests.contracts.test_machine import compared
from tests.servers import Proxy, Server
from tests.waiting import wait_until


def failing(server: Server, command: str, times: int | str, **how: Any) -> None:
    """The server's own failpoint: the next `times` of these commands end so."""
    mode = times if isinstance(times, str) else {"times": times}
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("configureFailPoint", "failCommand", mode=mode, data={"failCommands": [command], **how})


def commits_asked_for(server: Server) -> int:
    with pymongo.MongoClient(server.url) as client:
        return int(client.admin.command("serverStatus")["metrics"]["commands"]["commitTransaction"]["total"])


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
    assert (claim.version, view.entries, [row.number for row in store.pending(partition, 0, 9)]) == (
        2,
        [b"a", b"b"],
        [2, 3],
    )


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
        client.sluicegate.sluicegate_claim.update_one(
            {"app": partition.app}, {"$set": {"version": 77}}, session=session
        )
        giving_way = threading.Thread(target=give_way)
        giving_way.start()
        assert store.commit(claim, Changes(1)).version == 1
        giving_way.join(20)


def left_open(store: MongoStore, partition: Partition) -> ClientSession:
    """The transaction of an owner that was stopped, or killed, inside its commit."""
    claim = claimed(store, partition)
    session = store._sessions["/".join(map(str, partition))][1]
    session.start_transaction()
    store._fence(claim, state._changed(next_claim(claim, Changes(1), 0.0), Changes(1)), session)
    return session


def claims_at_once(url: str, session: ClientSession, partition: Partition) -> None:
    other, began = opened(url), time.monotonic()
    raised = error_of(lambda: other.commit(claimed(other, partition), Changes(5)))
    took = time.monotonic() - began
    assert (raised, took < 2) == (None, True)
    with pytest.raises(pymongo.errors.OperationFailure):
        session.commit_transaction()
    assert seen(other, partition).claim.offset == 5


def test_a_claim_ends_the_transaction_that_the_former_owner_left_open(
    store: MongoStore, server: Server, partition: Partition
) -> None:
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


def plant_an_entry(server: Server, partition: Partition, number: int) -> None:
    """Where the next commit would put one of its own."""
    place = {"partition": "/".join(map(str, partition)), "number": number}
    with pymongo.MongoClient(server.url) as client:
        client.sluicegate.sluicegate_changelog.insert_one({"_id": place, "entry": b"planted"})


@pytest.mark.parametrize("entries", [[b"hush-1"], [b"hush-1", b"hush-2"]])
def test_neither_an_error_nor_its_traceback_nor_a_debug_log_quotes_what_was_to_be_written(
    server: Server, store: MongoStore, partition: Partition, entries: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    claim = claimed(store, partition)
    plant_an_entry(server, partition, len(entries))
    changes = Changes(1, entries=entries, outbox=[row(1, value=b"hush")])
    with pytest.raises(PersistenceError) as caught:
        store.commit(claim, changes)
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    assert "hush" not in caplog.text
    assert (seen(store, partition).claim.version, seen(store, partition).unsent) == (0, 0)


def test_without_its_transaction_a_failing_commit_leaves_half_of_it(
    server: Server, store: MongoStore, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(_session: ClientSession, _concern: object, work: Callable[[None], Any]) -> Any:
        with connection.answering():
            return work(None)

    monkeypatch.setattr(connection, "transact", plain)
    with pytest.raises(AssertionError):
        a_failing_commit_changes_nothing(
            store,
            partition,
            lambda: failing(server, "insert", "alwaysOn", errorCode=251),
            lambda: failing(server, "insert", "off"),
        )


def a_reader_overtaken_sees_one_picture(
    store: MongoStore, url: str, partition: Partition, patch: pytest.MonkeyPatch
) -> None:
    """Another handle commits between the statements of a read."""
    writer, read_claim = opened(url), state._claim
    claim = writer.commit(claimed(writer, partition), Changes(1, entries=[b"before"], outbox=rows(1)))

    def overtaken(*values: Any) -> Any:
        patch.setattr(state, "_claim", read_claim)
        writer.commit(claim, Changes(2, entries=[b"after"], keep_from=2, outbox=rows(2, 3)))
        return read_claim(*values)

    patch.setattr(state, "_claim", overtaken)
    view = seen(store, partition)
    assert (view.claim.offset, view.entries, view.unsent) == (1, [b"before"], 1)
    assert (seen(store, partition).entries, seen(store, partition).unsent) == ([b"after"], 3)


def test_a_reader_that_is_overtaken_by_a_commit_sees_one_picture(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_reader_overtaken_sees_one_picture(store, server.url, partition, monkeypatch)


def test_without_a_snapshot_a_reader_that_is_overtaken_sees_half_a_commit(
    store: MongoStore, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    transact = connection.transact
    plain = store._server.start_session()
    monkeypatch.setattr(
        connection,
        "transact",
        lambda session, concern, work: (
            work(plain) if work.__qualname__.startswith("MongoStore.read") else transact(session, concern, work)
        ),
    )
    with pytest.raises(AssertionError):
        a_reader_overtaken_sees_one_picture(store, server.url, partition, monkeypatch)


def test_documents_of_very_few_rows_give_what_the_memory_store_gives(
    store: MongoStore, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SPAN", 2)
    compared(store, ns, 40, (Phase.generate, Phase.shrink))


@pytest.mark.parametrize(("span", "most", "sizes"), [(2, 10**6, [2, 2, 1]), (1000, 10**6, [5]), (1000, 1, [1] * 5)])
def test_rows_are_packed_by_the_span_of_their_numbers_and_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch, span: int, most: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(chunks, "SPAN", span)
    monkeypatch.setattr(chunks, "MOST_BYTES", most)
    documents = chunks.packed("key", rows(3, 4, 5, 6, 7))
    assert [len(document["rows"]) for document in documents] == sizes
    assert [document["_id"] for document in documents] == [
        chunks.place("key", document["unsent"][-1]) for document in documents
    ]
    assert [number for document in documents for number in document["unsent"]] == [3, 4, 5, 6, 7]
