"""The transactions in which the leased contracts run their statements, on a `sqlalchemy.Connection`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from sluicegate.connectors.sessions import SqlSession, unchanged
from sluicegate.connectors.sql import units
from sluicegate.connectors.sql.database import Database

T = TypeVar("T")


class TransactionRunner:
    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, work: Callable[[Connection], T]) -> T:
        """Commits `work` and returns its result. An error of `work` comes out unchanged, and nothing is written. `work`
        is called again after a deadlock and the like. Raises PersistenceError and SystemNotReady."""
        with self._database.translated(), _driver_errors():
            return unchanged(
                lambda: units.unit(self._database, lambda _: None, lambda it: work(it.connection), lambda _, made: made)
            )

    def open(self) -> AbstractContextManager[SqlSession]:
        """The application's own transaction around its block. It is not repeated."""
        return units.transaction(self._database)

    def now(self, connection: Connection) -> float:
        """The store's clock, seconds since 1970."""
        return self._database.product.now(lambda text: connection.exec_driver_sql(text).all())


@contextmanager
def _driver_errors() -> Iterator[None]:
    """Raises the driver's own errors in place of SQLAlchemy's, for `Database.translated`."""
    try:
        yield
    except DBAPIError as error:
        raise (error.orig or error) from error
