"""SQL sessions: what SQLAlchemy and the drivers offer inside the engine's transaction, and what they are refused."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import sluicegate.connectors.sql.leased
from sluicegate.connectors.sessions import SqlSession
from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, NotCommitted
from tests.contracts.given import claimed, picture
from tests.contracts.notes import NOTES, doing, note, notes, nothing_landed, on_servers, outside, product, store, url  # noqa: F401
from tests.contracts.scenarios import error_of


class Model(DeclarativeBase):
    """Of the ORM."""


class Note(Model):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[int]


# -- what works
# ----------------------------------------------------------------------------------------------------------


def test_core_tables_and_text_read_what_the_same_work_wrote(store: Store, url: str, partition: Partition) -> None:
    def reads(session: SqlSession) -> None:
        assert session.connection.execute(select(NOTES.c.at).where(NOTES.c.id == 1)).scalar_one() == 11
        assert session.connection.execute(text("update notes set at = at + :by"), {"by": 1}).rowcount == 2

    store.commit_with(claimed(store, partition), doing(lambda s: note(s, 1, 11), lambda s: note(s, 2, 22), reads))
    assert notes(url) == [(1, 12), (2, 23)]


def test_the_drivers_connection_is_the_transactions_own(
    store: Store, url: str, partition: Partition, product: str
) -> None:
    mark = "?" if product == "sqlite" else "%s"

    def many(session: SqlSession) -> None:
        cursor = session.connection.connection.driver_connection.cursor()
        cursor.executemany(f"insert into notes values ({mark}, {mark})", [(number, 0) for number in range(500)])

    claim = claimed(store, partition)

    def fails(_: SqlSession) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.commit_with(claim, doing(many, fails))
    assert nothing_landed(store, url, partition)
    store.commit_with(claim, doing(many))
    assert len(notes(url)) == 500


def test_the_orm_works_on_the_sessions_connection(store: Store, url: str, partition: Partition) -> None:
    def keeps(session: SqlSession) -> None:
        with Session(session.connection) as orm:
            orm.add(Note(id=7, at=1))
            orm.commit()

    claim = claimed(store, partition)
    with pytest.raises(ZeroDivisionError):
        store.commit_with(claim, doing(keeps, lambda _: 1 // 0))
    assert nothing_landed(store, url, partition)
    store.commit_with(claim, doing(keeps))
    assert notes(url) == [(7, 1)]


def test_a_nested_transaction_that_fails_undoes_only_its_own(store: Store, url: str, partition: Partition) -> None:
    def nested(session: SqlSession) -> None:
        def fails() -> None:
            with session.connection.begin_nested():
                note(session, 2)
                note(session, 1)

        with pytest.raises(sqlalchemy.exc.IntegrityError):
            fails()

    store.commit_with(claimed(store, partition), doing(lambda s: note(s, 1), nested, lambda s: note(s, 3)))
    assert [number for number, _ in notes(url)] == [1, 3]


def test_an_error_of_the_driver_that_the_work_lets_through_comes_out_unchanged(
    store: Store, url: str, partition: Partition
) -> None:
    claim = claimed(store, partition)
    with pytest.raises(sqlalchemy.exc.IntegrityError) as caught:
        store.commit_with(claim, doing(lambda s: note(s, 1), lambda s: note(s, 1)))
    assert type(caught.value.orig).__module__.split(".")[0] in ("psycopg", "pymysql", "sqlite3")
    assert nothing_landed(store, url, partition)
    with pytest.raises(sqlalchemy.exc.ProgrammingError if "sqlite" not in url else sqlalchemy.exc.OperationalError):
        store.commit_with(
            claim, doing(lambda s: note(s, 1), lambda s: s.connection.execute(text("select * from nowhere")))
        )
    assert nothing_landed(store, url, partition)
    assert store.commit_with(claim, doing(lambda s: note(s, 1))).offset == 5


@on_servers
def test_after_an_exception_of_the_work_the_connection_serves_on(
    store: Store, partition: Partition, product: str
) -> None:
    served = []
    ask = text("select pg_backend_pid()" if product == "postgresql" else "select connection_id()")

    def work(session: SqlSession) -> Changes:
        served.append(session.connection.execute(ask).scalar_one())
        if len(served) == 1:
            raise RuntimeError
        return Changes(1)

    claim = claimed(store, partition)
    with pytest.raises(RuntimeError):
        store.commit_with(claim, work)
    store.commit_with(claim, work)
    assert served[0] == served[1]


# -- what is refused
# -----------------------------------------------------------------------------------------------------

ENDS: dict[str, Callable[[SqlSession], object]] = {
    "commit": lambda session: session.connection.commit(),
    "rollback": lambda session: session.connection.rollback(),
    "get_transaction": lambda session: session.connection.get_transaction().commit(),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_work_cannot_end_the_transaction(store: Store, url: str, partition: Partition, how: str) -> None:
    claim = claimed(store, partition)
    with pytest.raises(ConfigurationError, match="return from the handler to commit"):
        store.commit_with(claim, doing(lambda s: note(s, 1), ENDS[how], lambda s: note(s, 2)))
    assert nothing_landed(store, url, partition)
    assert store.commit(claim, Changes(1)).offset == 1


def test_the_work_cannot_begin_a_transaction_of_its_own(store: Store, url: str, partition: Partition) -> None:
    with pytest.raises(sqlalchemy.exc.InvalidRequestError):
        store.commit_with(claimed(store, partition), doing(lambda s: note(s, 1), lambda s: s.connection.begin()))
    assert nothing_landed(store, url, partition)


@pytest.mark.parametrize("statement", ["commit", "rollback"])
@pytest.mark.parametrize("again", [False, True], ids=["only", "begins-again"])
def test_a_transaction_that_a_statement_ended_is_found_out_and_nothing_of_ours_lands(
    store: Store, partition: Partition, statement: str, again: bool
) -> None:
    an_ended_transaction_lands_nothing_of_ours(store, partition, statement, again)


def test_without_the_savepoint_what_is_ours_lands_without_the_transaction(
    store: Store, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "RELEASE", "select 1")
    with pytest.raises(AssertionError):
        an_ended_transaction_lands_nothing_of_ours(store, partition, "commit", True)


def an_ended_transaction_lands_nothing_of_ours(store: Store, partition: Partition, statement: str, again: bool) -> None:
    def ends(session: SqlSession) -> None:
        session.connection.execute(text(statement))
        if again:
            session.connection.execute(text("begin"))

    claim = claimed(store, partition)
    before = picture(store, partition)
    raised = error_of(lambda: store.commit_with(claim, doing(ends)))
    assert picture(store, partition) == before
    assert raised is ConfigurationError
    assert store.commit(claim, Changes(1)).offset == 1


@pytest.mark.parametrize("product", ["sqlite"], indirect=True)
def test_sessions_on_sqlite_without_sqlalchemy_name_the_extra(
    store: Store, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sluicegate.connectors.sql.leased.lending", None)
    monkeypatch.delattr(sluicegate.connectors.sql.leased, "lending")
    with pytest.raises(ConfigurationError, match=r"sluicegate\[sqlite\]"):
        store.commit_with(claimed(store, partition), doing())
    assert store.commit(claimed(store, partition), Changes(1)).offset == 1


@pytest.mark.parametrize("product", ["mariadb"], indirect=True)
def test_a_statement_that_commits_implicitly_is_found_out(store: Store, url: str, partition: Partition) -> None:
    creates = lambda session: session.connection.execute(text("create table more (id integer)"))  # noqa: E731
    with pytest.raises(ConfigurationError, match="ended inside the handler"):
        store.commit_with(claimed(store, partition), doing(creates, lambda s: note(s, 1)))
    assert nothing_landed(store, url, partition)


def test_a_session_is_over_when_the_work_returns(store: Store, url: str, partition: Partition) -> None:
    kept: list[SqlSession] = []
    store.commit_with(claimed(store, partition), doing(kept.append))
    with pytest.raises(sqlalchemy.exc.ResourceClosedError):
        note(kept[0], 1)
    assert notes(url) == []


def test_a_work_that_closes_the_connection_ends_nothing(store: Store, url: str, partition: Partition) -> None:
    with pytest.raises(ConfigurationError):
        store.commit_with(claimed(store, partition), doing(lambda s: note(s, 1), lambda s: s.connection.close()))
    assert nothing_landed(store, url, partition)


@pytest.mark.parametrize("product", ["postgresql"], indirect=True)
def test_an_error_that_the_work_catches_outside_of_a_nested_transaction_is_not_committed(
    store: Store, url: str, partition: Partition
) -> None:
    def catches(session: SqlSession) -> None:
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            note(session, 1)

    claim = claimed(store, partition)
    with pytest.raises(NotCommitted, match="begin_nested"):
        store.commit_with(claim, doing(lambda s: note(s, 1), catches))
    assert nothing_landed(store, url, partition)
    assert store.commit(claim, Changes(1)).offset == 1


@pytest.mark.parametrize("product", ["postgresql", "sqlite"], indirect=True)
def test_a_deferred_constraint_at_the_commit_is_not_committed(
    store: Any, url: str, partition: Partition, product: str
) -> None:
    outside(url, "create table parts (note integer references notes (id) deferrable initially deferred)")
    if product == "sqlite":
        store._product.file.connection(create=False).execute("pragma foreign_keys = on")
    claim = claimed(store, partition)
    dangling = lambda session: session.connection.execute(text("insert into parts values (99)"))  # noqa: E731
    assert error_of(lambda: store.commit_with(claim, doing(dangling))) is NotCommitted
    assert nothing_landed(store, url, partition)
    assert outside(url, "select * from parts") == []
    assert store.commit_with(
        claim, doing(lambda s: note(s, 99), lambda s: s.connection.execute(text("insert into notes values (1, 1)")))
    )
