"""What the application writes through a session is part of the commit: both or neither, on every store."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.connectors.memory import values as memory_values
from sluicegate.connectors.mongodb import unit as mongodb_unit
from sluicegate.connectors.redis import unit as redis_unit
from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.mysql import Mysql
from sluicegate.connectors.sql.postgresql import Postgresql
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, PersistenceError, SystemNotReady
from tests.contracts import application
from tests.contracts.application import Books
from tests.contracts.given import claimed, opened, picture, row, rows, seen
from tests.contracts.sql import no_transactions
from tests.mutation.twins import without

NOTHING = "select 1"
SQL_SERVERS: dict[str, type] = {"postgresql": Postgresql, "mariadb": Mysql}


class Unhappy(Exception):
    """The application's own."""


@pytest.fixture
def books(store_url: str, partition: Partition) -> Books:
    return Books(store_url, partition)


@pytest.fixture
def _no_fence() -> Iterator[None]:
    with without("fence"):
        yield


def test_what_the_work_writes_and_the_changes_land_together(store: Store, books: Books) -> None:
    application.both_land(store, books)


@pytest.mark.parametrize(
    "error",
    [Unhappy("no"), KeyError("x"), ValueError("x"), SystemNotReady("x"), PersistenceError("x"), Fenced("x")],
    ids=["own", "key", "value", "not-ready", "persistence", "fenced"],
)
def test_an_exception_of_the_work_comes_out_unchanged_and_leaves_nothing(
    store: Store, books: Books, error: Exception
) -> None:
    application.a_failing_work_leaves_nothing(store, books, error)


def test_the_work_of_a_fenced_owner_is_never_called(store: Store, books: Books) -> None:
    application.a_fenced_owners_work_is_never_called(store, books)


@pytest.mark.usefixtures("_no_fence")
def test_without_the_fence_the_work_of_a_fenced_owner_lands(store_url: str, books: Books) -> None:
    with pytest.raises(AssertionError):
        application.a_fenced_owners_work_is_never_called(opened(store_url), books)


def test_a_claim_while_the_work_runs_waits_or_fences(store: Store, store_url: str, books: Books) -> None:
    application.a_claim_while_the_work_runs_waits_or_fences(store, opened(store_url), books)


@pytest.mark.usefixtures("_no_fence")
@pytest.mark.parametrize("backend", ["redis", "redis-cluster"], indirect=True)
def test_without_the_fence_a_claim_while_the_work_runs_finds_less_than_lands(store_url: str, books: Books) -> None:
    with pytest.raises(AssertionError):
        application.a_claim_while_the_work_runs_waits_or_fences(opened(store_url), opened(store_url), books)


def test_changes_that_no_store_takes_undo_the_work(store: Store, books: Books, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(5)))
    before = picture(store, partition)

    def work(session: Any) -> Changes:
        books.enter(session, "lost")
        return Changes(2, outbox=[row(5)])

    with pytest.raises(ValueError, match="numbers must grow"):
        store.commit_with(claim, work)
    assert (books.lines(), picture(store, partition)) == ([], before)
    assert store.commit(claim, Changes(2)).offset == 2


def test_a_work_that_writes_nothing_is_a_commit(store: Store, partition: Partition) -> None:
    done = store.commit_with(claimed(store, partition), lambda _: Changes(3, entries=[b"e"]))
    assert (done.offset, list(store.restore(done))) == (3, [b"e"])


def test_a_large_work_lands_whole(store: Store, books: Books, partition: Partition) -> None:
    def work(session: Any) -> Changes:
        for number in range(1000):
            books.enter(session, f"{number}-" + "x" * 150)
        return Changes(1000, entries=[b"e" * 1_000_000], outbox=rows(*range(1, 1001)))

    done = store.commit_with(claimed(store, partition), work)
    assert len(books.lines()) == 1000
    assert (seen(store, partition).unsent, done.offset) == (1000, 1000)


def test_one_unit_of_work_follows_another(store: Store, books: Books, partition: Partition) -> None:
    claim = claimed(store, partition)
    for number in range(5):
        claim = store.commit_with(claim, lambda session, n=number: (books.enter(session, str(n)), Changes(n))[1])
    assert sorted(books.lines()) == ["0", "1", "2", "3", "4"]
    assert claim.version == 5


def no_transaction(patch: pytest.MonkeyPatch, backend: str, store: Any) -> None:
    """The work's writes are done as they come."""
    if backend == "memory":
        patch.setattr(memory_values.Staged, "__setitem__", lambda self, name, value: self._values.update({name: value}))
    elif backend == "sqlite":
        no_transactions(patch.setattr)
        for name in ("SAVEPOINT", "RELEASE"):
            patch.setattr(statements, name, NOTHING)
    elif backend in SQL_SERVERS:
        patch.setattr(statements, "RELEASE", NOTHING)
        for name in ("begin_unit", "end_unit", "undo_unit"):
            patch.setattr(SQL_SERVERS[backend], name, ())
    elif backend == "mongodb":
        made = mongodb_unit.MongoSession
        patch.setattr(mongodb_unit, "MongoSession", lambda _session, database: made(None, database))
    else:
        at_once = lambda _queue, *args, **_options: store._server().execute_command(*args)  # noqa: E731
        patch.setattr(redis_unit.Queue, "pipeline_execute_command", at_once)


def test_without_the_transaction_a_failing_work_leaves_its_writes(
    backend: str, store_url: str, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(store_url)
    no_transaction(monkeypatch, backend, store)
    with pytest.raises(AssertionError):
        application.a_failing_work_leaves_nothing(store, books, Unhappy("no"))
