"""SQL sessions when the server or the wire fails: deadlocks, killed connections, lost replies, stopped owners."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import text
from sqlalchemy.dialects.mysql.base import MySQLDialect
from sqlalchemy.dialects.postgresql.base import PGDialect

from sluicegate.connectors import open_store
from sluicegate.connectors.sessions import SqlSession
from sluicegate.connectors.sql import postgresql
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced, PersistenceError
from tests.contracts.application import Books
from tests.contracts.given import claimed, opened
from tests.contracts.notes import books, note, notes, nothing_landed, on_servers, outside, product, store, url  # noqa: F401
from tests.contracts.scenarios import error_of
from tests.contracts.sql import execute
from tests.contracts.test_sql_servers import _deliver as deliver
from tests.servers import Proxy
from tests.waiting import wait_until

# -- repeated as a whole
# -------------------------------------------------------------------------------------------------


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


# -- the connection fails
# ------------------------------------------------------------------------------------------------

KILL = {
    "postgresql": (
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname "
        "= current_database()"
    ),
    "mariadb": (
        "select concat('kill ', id) from information_schema.processlist where db = database() and id <> connection_id()"
    ),
}


def kill(url: str, product: str) -> None:
    rows = execute(url, KILL[product])
    if product == "mariadb":
        execute(url, *(order for (order,) in rows))


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


@on_servers
def test_a_connection_killed_before_the_first_work_is_an_outage_and_no_work_was_tried(
    store: Store, url: str, partition: Partition, product: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLAlchemy asks the server for its version there; a driver's error that it wraps was taken for the handler's."""
    dialect = {"postgresql": PGDialect, "mariadb": MySQLDialect}[product]
    asks, claim = dialect.initialize, claimed(store, partition)

    def dies(self: Any, connection: Any) -> None:
        monkeypatch.setattr(dialect, "initialize", asks)
        kill(url, product)
        asks(self, connection)

    monkeypatch.setattr(dialect, "initialize", dies)
    tries: list[SqlSession] = []
    assert (
        error_of(lambda: store.commit_with(claim, lambda session: (tries.append(session), Changes(5))[1]))
        is PersistenceError
    )
    assert not tries
    assert store.commit_with(claim, lambda session: Changes(5)).offset == 5


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


@pytest.mark.parametrize("product", ["postgresql"], indirect=True)
def test_a_work_that_hangs_before_its_first_statement_is_ended_by_the_server(
    store: Store, url: str, partition: Partition
) -> None:
    assert ended_by_the_server(store, url, partition)


@pytest.mark.parametrize("product", ["postgresql"], indirect=True)
def test_a_work_that_hangs_goes_on_holding_its_row_without_the_servers_timer(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        postgresql, "SETTINGS", ("set idle_in_transaction_session_timeout = '0'", *postgresql.SETTINGS[1:])
    )
    assert not ended_by_the_server(opened(url), url, partition)


def ended_by_the_server(store: Store, url: str, partition: Partition) -> bool:
    idle = "select 1 from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
    ended: list[bool] = []

    def hang(_: SqlSession) -> Changes:
        assert execute(url, idle)
        try:
            wait_until(lambda: not execute(url, idle), 6, "the end of the idle transaction", pause=0.2)
            ended.append(True)
        except TimeoutError:
            ended.append(False)
        return Changes(1)

    error = error_of(lambda: store.commit_with(claimed(store, partition), hang))
    return (ended, error) == ([True], PersistenceError)


@on_servers
def test_a_commit_whose_reply_is_lost_is_unknown_and_the_next_claim_shows_both(
    far: Store, wire: Proxy, books: Books
) -> None:
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
