"""SQL sessions: what SQLAlchemy and the drivers offer inside the engine's transaction, and what they are refused."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from connectors import open_store
from connectors.sessions import SqlSession
from streams.contracts import Store
from streams.errors import ConfigurationError, Fenced, NotCommitted, PersistenceError
from streams.values import Changes, Partition
from tests.contracts.application import Books
from tests.contracts.given import claimed, opened, picture, rows, seen
from tests.contracts.scenarios import error_of
from tests.contracts.sql import database, execute
from tests.contracts.test_sql_servers import _deliver as deliver
from tests.servers import Proxy
from tests.waiting import wait_until

SERVERS = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}
on_servers = pytest.mark.parametrize("product", SERVERS, indirect=True)
NOTES = Table("notes", MetaData(), Column("id", Integer, primary_key=True, autoincrement=False), Column("at", Integer))


class Model(DeclarativeBase):
    """Of the ORM."""


class Note(Model):
    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[int]


@pytest.fixture(params=["sqlite", *SERVERS])
def product(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(product: str, request: pytest.FixtureRequest, ns: str, tmp_path: Path) -> str:
    """A database of the test's own with a table `notes`."""
    if product == "sqlite":
        made = f"sqlite:///{tmp_path}/state.db"
        opened(made).close()
    else:
        made = database(request.getfixturevalue(SERVERS[product]), ns)
    outside(made, "create table notes (id integer primary key, at integer)")
    return made


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = opened(url)
    yield made
    made.close()


@pytest.fixture
def books(url: str, partition: Partition) -> Books:
    return Books(url, partition)


def outside(url: str, statement: str) -> list[Any]:
    """Run by somebody else; the rows."""
    if not url.startswith("sqlite:"):
        return list(execute(url, statement))
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        found = connection.execute(text(statement))
        return [tuple(row) for row in found] if found.returns_rows else []


def notes(url: str) -> list[Any]:
    return outside(url, "select id, at from notes order by id")


def note(session: SqlSession, number: int, at: int = 0) -> None:
    session.connection.execute(insert(NOTES).values(id=number, at=at))


def doing(*actions: Callable[[SqlSession], object]) -> Callable[[SqlSession], Changes]:
    """A work that does these one after the other."""

    def work(session: SqlSession) -> Changes:
        for action in actions:
            action(session)
        return Changes(5, entries=[b"e"], outbox=rows(1))

    return work


def nothing_landed(store: Store, url: str, partition: Partition) -> bool:
    view = seen(store, partition)
    return notes(url) == [] and (view.claim.offset, list(view.entries), view.unsent) == (-1, [], 0)


# -- what works ----------------------------------------------------------------------------------------------------------


def test_core_tables_and_text_read_what_the_same_work_wrote(store: Store, url: str, partition: Partition) -> None:
    def reads(session: SqlSession) -> None:
        assert session.connection.execute(select(NOTES.c.at).where(NOTES.c.id == 1)).scalar_one() == 11
        assert session.connection.execute(text("update notes set at = at + :by"), {"by": 1}).rowcount == 2

    store.commit_with(claimed(store, partition), doing(lambda s: note(s, 1, 11), lambda s: note(s, 2, 22), reads))
    assert notes(url) == [(1, 12), (2, 23)]


def test_the_drivers_connection_is_the_transactions_own(store: Store, url: str, partition: Partition, product: str) -> None:
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


def test_an_error_of_the_driver_that_the_work_lets_through_comes_out_unchanged(store: Store, url: str, partition: Partition) -> None:
    claim = claimed(store, partition)
    with pytest.raises(sqlalchemy.exc.IntegrityError) as caught:
        store.commit_with(claim, doing(lambda s: note(s, 1), lambda s: note(s, 1)))
    assert type(caught.value.orig).__module__.split(".")[0] in ("psycopg", "pymysql", "sqlite3")
    assert nothing_landed(store, url, partition)
    with pytest.raises(sqlalchemy.exc.ProgrammingError if "sqlite" not in url else sqlalchemy.exc.OperationalError):
        store.commit_with(claim, doing(lambda s: note(s, 1), lambda s: s.connection.execute(text("select * from nowhere"))))
    assert nothing_landed(store, url, partition)
    assert store.commit_with(claim, doing(lambda s: note(s, 1))).offset == 5


@on_servers
def test_after_an_exception_of_the_work_the_connection_serves_on(store: Store, partition: Partition, product: str) -> None:
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


# -- what is refused -----------------------------------------------------------------------------------------------------

ENDS: dict[str, Callable[[SqlSession], object]] = {
    "commit": lambda session: session.connection.commit(),
    "rollback": lambda session: session.connection.rollback(),
    "get_transaction": lambda session: session.connection.get_transaction().commit(),
    "orm": lambda session: Session(session.connection, join_transaction_mode="control_fully").commit(),
}


@pytest.mark.parametrize("how", [name for name in ENDS if name != "orm"])
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
    def ends(session: SqlSession) -> None:
        session.connection.execute(text(statement))
        if again:
            session.connection.execute(text("begin"))

    claim = claimed(store, partition)
    before = picture(store, partition)
    with pytest.raises(ConfigurationError, match="ended inside the handler"):
        store.commit_with(claim, doing(ends))
    assert picture(store, partition) == before
    assert store.commit(claim, Changes(1)).offset == 1


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
def test_a_deferred_constraint_at_the_commit_is_not_committed(store: Any, url: str, partition: Partition, product: str) -> None:
    outside(url, "create table parts (note integer references notes (id) deferrable initially deferred)")
    if product == "sqlite":
        store._database.connection(create=False).execute("pragma foreign_keys = on")
    claim = claimed(store, partition)
    dangling = lambda session: session.connection.execute(text("insert into parts values (99)"))  # noqa: E731
    assert error_of(lambda: store.commit_with(claim, doing(dangling))) is NotCommitted
    assert nothing_landed(store, url, partition)
    assert outside(url, "select * from parts") == []
    assert store.commit_with(claim, doing(lambda s: note(s, 99), lambda s: s.connection.execute(text("insert into notes values (1, 1)"))))


# -- repeated as a whole -------------------------------------------------------------------------------------------------


@on_servers
def test_a_deadlock_inside_the_work_repeats_it_as_a_whole_and_both_land(url: str, partition: Partition) -> None:
    outside(url, "insert into notes values (1, 0), (2, 0)")
    store = opened(url)
    gate, tries = threading.Barrier(2), []

    def crossing(number: int, order: tuple[int, int]) -> int:
        def work(session: SqlSession) -> Changes:
            tries.append(number)
            for at, which in enumerate(order):
                session.connection.execute(text("update notes set at = at + 1 where id = :id"), {"id": which})
                if at == 0 and len(tries) <= 2:
                    gate.wait(10)
            return Changes(number, entries=[b"e"])

        place = partition._replace(number=number)
        return store.commit_with(claimed(store, place), work).offset

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(crossing, number, order) for number, order in ((1, (1, 2)), (2, (2, 1)))]
        assert [done.result(60) for done in both] == [1, 2]
    assert len(tries) == 3
    assert notes(url) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("product", ["mariadb"], indirect=True)
def test_a_deadlock_that_the_work_catches_lands_nothing(url: str, partition: Partition) -> None:
    """The server has rolled back then; what follows must not land statement by statement."""
    outside(url, "insert into notes values (1, 0), (2, 0)")
    store = opened(url)
    gate, caught = threading.Barrier(2), []

    def crossing(number: int, order: tuple[int, int]) -> None:
        def work(session: SqlSession) -> Changes:
            session.connection.execute(text("update notes set at = at + 1 where id = :id"), {"id": order[0]})
            gate.wait(10)
            try:
                session.connection.execute(text("update notes set at = at + 1 where id = :id"), {"id": order[1]})
            except sqlalchemy.exc.OperationalError as error:
                caught.append(error)
                note(session, 100 + number)
            return Changes(number)

        store.commit_with(claimed(store, partition._replace(number=number)), work)

    with ThreadPoolExecutor() as pool:
        both = [pool.submit(error_of, lambda n=n, o=o: crossing(n, o)) for n, o in ((1, (1, 2)), (2, (2, 1)))]
        assert {done.result(60) for done in both} == {None, ConfigurationError}
    assert len(caught) == 1
    assert notes(url) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("product", ["postgresql"], indirect=True)
def test_a_work_that_never_gets_through_is_given_up(store: Store, url: str, partition: Partition) -> None:
    tries = []
    raises = text("do $$ begin raise exception 'again' using errcode = '40001'; end $$")

    def work(session: SqlSession) -> Changes:
        tries.append(1)
        note(session, 1)
        session.connection.execute(raises)
        return Changes(1)

    assert error_of(lambda: store.commit_with(claimed(store, partition), work)) is PersistenceError
    assert len(tries) == 4
    assert nothing_landed(store, url, partition)


# -- the connection fails ------------------------------------------------------------------------------------------------

KILL = {
    "postgresql": "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()",
    "mariadb": "select concat('kill ', id) from information_schema.processlist where db = database() and id <> connection_id()",
}


def kill(url: str, product: str) -> None:
    found = execute(url, KILL[product])
    if product == "mariadb":
        execute(url, *(order for (order,) in found))


@on_servers
@pytest.mark.parametrize("wrapped", [False, True], ids=["lets-through", "wraps"])
def test_a_connection_killed_inside_the_work_is_an_outage_and_after_a_new_claim_it_lands_once(
    store: Store, url: str, books: Books, product: str, wrapped: bool
) -> None:
    def dies(session: SqlSession) -> Changes:
        books.enter(session, "first")
        kill(url, product)
        try:
            books.enter(session, "second")
        except sqlalchemy.exc.DBAPIError as error:
            if wrapped:
                raise RuntimeError("the application's own") from error
            raise
        return Changes(5)

    claim = claimed(store, books.partition)
    assert error_of(lambda: store.commit_with(claim, dies)) is PersistenceError
    assert books.lines() == []
    claim = claimed(store, books.partition)
    assert claim.offset == -1
    store.commit_with(claim, lambda session: (books.enter(session, "again"), Changes(5))[1])
    assert books.lines() == ["again"]


@pytest.fixture
def wire(url: str, proxy: Callable[..., Proxy]) -> Proxy:
    return proxy(url)


@pytest.fixture
def far(url: str, wire: Proxy) -> Iterator[Store]:
    """A store whose connections go through `wire`."""
    opened(url).close()
    scheme, _, rest = url.partition("://")
    made = open_store(f"{scheme}://{rest.partition('@')[0]}@127.0.0.1:{wire.port}/{rest.rpartition('/')[2]}")
    yield made
    made.close()


@on_servers
def test_a_wire_that_breaks_inside_the_work_is_an_outage(far: Store, wire: Proxy, books: Books) -> None:
    def work(session: SqlSession) -> Changes:
        books.enter(session, "first")
        wire.reset()
        books.enter(session, "second")
        return Changes(5)

    assert error_of(lambda: far.commit_with(claimed(far, books.partition), work)) is PersistenceError
    assert (books.lines(), claimed(far, books.partition).offset) == ([], -1)


@on_servers
@pytest.mark.parametrize("at", ["work", "release savepoint", "commit"])
def test_an_owner_stopped_inside_its_unit_of_work_is_freed_within_seconds_and_lands_nothing_late(
    far: Store, wire: Proxy, url: str, books: Books, at: str
) -> None:
    zombie = claimed(far, books.partition)
    stopped, resumed = threading.Event(), threading.Event()

    def late(session: SqlSession) -> Changes:
        if at == "work":
            stopped.set()
            resumed.wait(60)
        books.enter(session, "late")
        if at != "work":
            wire.hold("to-server", at.encode())
        return Changes(5)

    with ThreadPoolExecutor() as pool:
        result = pool.submit(error_of, lambda: far.commit_with(zombie, late))
        assert stopped.wait(10) if at == "work" else wire.wait_held()
        direct = opened(url)
        owner = claimed(direct, books.partition)
        resumed.set()
        wire.release()
        assert result.result(30) is PersistenceError
    assert (owner.offset, books.lines()) == (-1, [])
    direct.commit_with(owner, lambda s: (books.enter(s, "owner"), Changes(5))[1])
    assert error_of(lambda: far.commit_with(zombie, lambda s: (books.enter(s, "late"), Changes(5))[1])) is Fenced
    assert books.lines() == ["owner"]


@on_servers
def test_a_commit_whose_reply_is_lost_is_unknown_and_the_next_claim_shows_both(far: Store, wire: Proxy, books: Books) -> None:
    def work(session: SqlSession) -> Changes:
        books.enter(session, "line")
        wire.hold("to-server", b"commit")
        return Changes(5)

    claim = claimed(far, books.partition)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(error_of, lambda: far.commit_with(claim, work))
        wire.wait_held()
        wire.drop_replies()
        wire._call(deliver(wire))
        wait_until(lambda: wire.dropped > 0, what="the lost reply")
        wire.reset()
        assert result.result(30) is PersistenceError
    wire.release()
    assert (claimed(far, books.partition).offset, books.lines()) == (5, ["line"])
