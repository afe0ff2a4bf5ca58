"""Work on a `sqlalchemy.Connection` in a transaction of its own: what the leased contracts run on."""

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
        """What `work` returns, committed; what it raises comes out unchanged, with nothing written. It may be called
        again, as a whole, after a deadlock and the like. Raises PersistenceError and SystemNotReady."""
        with self._database.translated(), _driver_errors():
            return unchanged(
                lambda: units.unit(self._database, lambda _: None, lambda it: work(it.connection), lambda _, made: made)
            )

    def open(self) -> AbstractContextManager[SqlSession]:
        """A transaction of the application's own, over its block; not repeated."""
        return units.transaction(self._database)

    def now(self, connection: Connection) -> float:
        """The store's clock, seconds since 1970."""
        return self._database.product.now(lambda text: connection.exec_driver_sql(text).all())


@contextmanager
def _driver_errors() -> Iterator[None]:
    """The statements of `work` are ours: what the driver says of them is told as everywhere else."""
    try:
        yield
    except DBAPIError as error:
        raise (error.orig or error) from error
