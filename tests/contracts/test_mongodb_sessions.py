"""MongoDB sessions: the application's operations in the transaction of the commit, when server or application make
trouble."""

from collections.abc import Callable
from typing import Any

import pymongo
import pymongo.errors
import pytest

from sluicegate.connectors.mongodb.state import MongoStore
from sluicegate.connectors.sessions import MongoSession
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced, NotCommitted, PersistenceError
from tests.contracts.application import Books
from tests.contracts.given import claimed, opened, picture, seen
from tests.contracts.mongodb import server, short, store, wire  # noqa: F401
from tests.contracts.scenarios import error_of
from tests.contracts.test_mongodb_commits import failing
from tests.servers import Proxy, Server


@pytest.fixture
def books(server: Server, partition: Partition) -> Books:
    return Books(server.url, partition)


def entering(books: Books, calls: list[int], line: str = "line") -> Callable[[MongoSession], Changes]:
    def work(session: MongoSession) -> Changes:
        calls.append(1)
        books.enter(session, line)
        return Changes(5, entries=[b"e"])

    return work


@pytest.mark.parametrize("command", ["insert", "findAndModify", "commitTransaction"])
def test_work_in_a_transaction_that_the_server_gave_up_is_done_again_as_a_whole(
    store: MongoStore, server: Server, books: Books, command: str
) -> None:
    calls: list[int] = []
    claim = claimed(store, books.partition)
    failing(server, command, 3, errorCode=251, errorLabels=["TransientTransactionError"])
    store.commit_with(claim, entering(books, calls))
    assert (books.lines(), seen(store, books.partition).entries) == (["line"], [b"e"])
    assert len(calls) == (1 if command == "findAndModify" else 4)


def test_a_write_conflict_with_somebody_else_repeats_the_work(store: MongoStore, server: Server, books: Books) -> None:
    calls: list[int] = []
    with pymongo.MongoClient(server.url) as client:
        counters = client.sluicegate[books.name]
        counters.insert_one({"_id": "counter", "line": "0"})

        def work(session: MongoSession) -> Changes:
            calls.append(1)
            counter = session.database[books.name]
            document = counter.find_one({"_id": "counter"}, session=session.client_session)
            if len(calls) == 1:
                counters.update_one({"_id": "counter"}, {"$set": {"line": "10"}})
            counter.update_one(
                {"_id": "counter"}, {"$set": {"line": str(int(document["line"]) + 1)}}, session=session.client_session
            )
            return Changes(5)

        store.commit_with(claimed(store, books.partition), work)
    assert (len(calls), books.lines()) == (2, ["11"])


@pytest.mark.parametrize("name", ["commit_transaction", "abort_transaction", "end_session"])
def test_the_work_cannot_end_the_transaction(store: MongoStore, books: Books, name: str) -> None:
    def work(session: MongoSession) -> Changes:
        books.enter(session, "line")
        getattr(session.client_session, name)()
        return Changes(5)

    claim = claimed(store, books.partition)
    before = picture(store, books.partition)
    with pytest.raises(ConfigurationError, match="return from the handler to commit"):
        store.commit_with(claim, work)
    assert (books.lines(), picture(store, books.partition)) == ([], before)
    assert store.commit(claim, Changes(1)).offset == 1


def test_the_work_cannot_begin_another_transaction(store: MongoStore, books: Books) -> None:
    def work(session: MongoSession) -> Changes:
        with session.client_session.start_transaction():
            books.enter(session, "line")
        return Changes(5)

    with pytest.raises(pymongo.errors.InvalidOperation):
        store.commit_with(claimed(store, books.partition), work)
    assert books.lines() == []


def duplicate(books: Books, session: MongoSession) -> None:
    for _ in range(2):
        session.database[books.name].insert_one({"_id": "same", "line": "line"}, session=session.client_session)


def test_an_error_of_the_driver_that_the_work_lets_through_comes_out_unchanged(store: MongoStore, books: Books) -> None:
    def work(session: MongoSession) -> Changes:
        duplicate(books, session)
        return Changes(5)

    claim = claimed(store, books.partition)
    with pytest.raises(pymongo.errors.DuplicateKeyError):
        store.commit_with(claim, work)
    assert (books.lines(), seen(store, books.partition).claim.offset) == ([], -1)
    assert store.commit(claim, Changes(1)).offset == 1


def test_an_error_that_the_work_catches_has_ended_the_transaction_and_is_not_committed(
    store: MongoStore, books: Books
) -> None:
    calls: list[int] = []

    def work(session: MongoSession) -> Changes:
        calls.append(1)
        with pytest.raises(pymongo.errors.DuplicateKeyError):
            duplicate(books, session)
        return Changes(5)

    claim = claimed(store, books.partition)
    with pytest.raises(NotCommitted, match="the handler caught"):
        store.commit_with(claim, work)
    assert (len(calls), books.lines(), seen(store, books.partition).claim.offset) == (2, [], -1)
    assert store.commit(claim, Changes(1)).offset == 1


def test_a_connection_that_breaks_inside_the_work_repeats_it_and_it_lands_once(
    store: MongoStore, server: Server, books: Books
) -> None:
    calls: list[int] = []

    def work(session: MongoSession) -> Changes:
        calls.append(1)
        books.enter(session, "first")
        if len(calls) == 1:
            failing(server, "insert", 1, closeConnection=True)
        books.enter(session, "second")
        return Changes(5)

    store.commit_with(claimed(store, books.partition), work)
    assert (len(calls), books.lines()) == (2, ["first", "second"])


def test_a_server_that_is_gone_inside_the_work_is_an_outage_and_after_a_new_claim_it_lands_once(
    store: MongoStore, wire: Proxy, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(session: MongoSession) -> Changes:
        books.enter(session, "first")
        wire.refuse()
        wire.reset()
        books.enter(session, "second")
        return Changes(5)

    claim = claimed(store, books.partition)
    with monkeypatch.context() as patched:
        short(patched)
        assert error_of(lambda: store.commit_with(claim, work)) is PersistenceError
    wire.accept()
    assert books.lines() == []
    claim = claimed(store, books.partition)
    assert claim.offset == -1
    store.commit_with(claim, entering(books, [], "again"))
    assert books.lines() == ["again"]


def test_an_owner_claimed_away_inside_its_work_is_fenced_and_nothing_of_it_lands(
    store: MongoStore, server: Server, books: Books
) -> None:
    direct = opened(server.url)
    owners: list[Any] = []

    def work(session: MongoSession) -> Changes:
        books.enter(session, "late")
        if not owners:
            owners.append(claimed(direct, books.partition))
        return Changes(5)

    assert error_of(lambda: store.commit_with(claimed(store, books.partition), work)) is Fenced
    assert (books.lines(), owners[0].offset) == ([], -1)
    direct.commit_with(owners[0], entering(books, [], "owner"))
    assert books.lines() == ["owner"]
