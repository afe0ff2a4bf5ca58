"""Work on a `sqlalchemy.Connection` in a transaction of its own, on a file or on a server: what the leased contracts run on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Protocol, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from sluicegate.connectors.sessions import SqlSession, unchanged
from sluicegate.connectors.sql import sqlite_unit, statements, units
from sluicegate.connectors.sql.lending import Lender
from sluicegate.connectors.sql.server import Server
from sluicegate.connectors.sql.sqlite import Database

T = TypeVar("T")


class Transactions(Protocol):
    def run(self, work: Callable[[Connection], T]) -> T:
        """What `work` returns, committed; what it raises comes out unchanged, with nothing written. It may be called again, as a whole,
        after a deadlock and the like. Raises PersistenceError and SystemNotReady."""

    def now(self, connection: Connection) -> float:
        """The store's clock, seconds since 1970."""

    def open(self) -> AbstractContextManager[SqlSession]:
        """A transaction of the application's own, over its block; not repeated."""


@contextmanager
def _driver_errors() -> Iterator[None]:
    """The statements of `work` are ours: what the driver says of them is told as everywhere else."""
    try:
        yield
    except DBAPIError as error:
        raise (error.orig or error) from error


class OnServer:
    """PostgreSQL, MySQL or MariaDB."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def run(self, work: Callable[[Connection], T]) -> T:
        with self._server.translated(), _driver_errors():
            return unchanged(lambda: units.unit(self._server, lambda _: None, lambda it: work(it.connection), lambda _, made: made))

    def open(self) -> AbstractContextManager[SqlSession]:
        return units.transaction(self._server)

    def now(self, connection: Connection) -> float:
        return float(connection.execute(text(self._server.product.now.replace("::", r"\:\:"))).scalar_one())


class OnFile:
    """SQLite; `clock` gives seconds since 1970: all who have the file open share the machine's."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock

    @cached_property
    def _lender(self) -> Lender:
        return Lender("sqlite+pysqlite://")

    def run(self, work: Callable[[Connection], T]) -> T:
        with self._database.transaction(statements.BEGIN) as db, _driver_errors():
            return unchanged(lambda: sqlite_unit.worked(db, self._lender, lambda session: work(session.connection)))

    def open(self) -> AbstractContextManager[SqlSession]:
        return sqlite_unit.transaction(self._database, self._lender)

    def now(self, connection: Connection) -> float:
        return self._clock()
