"""A database server and the pool of connections to it: PostgreSQL, MySQL and MariaDB."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import QueuePool

from sluicegate.connectors.sql.database import Ask, ConnectionPool, Product, RolledBack
from sluicegate.connectors.sql.leased.lending import Lender
from sluicegate.streams.errors import PersistenceError

CONNECT_SECONDS = 5
REPLY_SECONDS = 20
FREE_SECONDS = 5
CONNECTIONS = 8
RECYCLE_SECONDS = 1800
BULK_BYTES = 1024 * 1024


class SqlServer(Product):
    lender: Lender
    clock: str
    """The query of the server's time."""

    def connect(self) -> Any:
        raise NotImplementedError

    def pool(self) -> ConnectionPool:
        return Connections(self)

    def now(self, ask: Ask) -> float:
        return float(ask(self.clock)[0][0])


class Connections:
    """At most CONNECTIONS at a time. An exception closes its connection, unless the transaction was rolled back."""

    def __init__(self, server: SqlServer) -> None:
        self._name = server.name
        self._pool = QueuePool(
            server.connect,
            pool_size=CONNECTIONS,
            max_overflow=0,
            timeout=FREE_SECONDS,
            recycle=RECYCLE_SECONDS,
            reset_on_return=None,
        )

    @contextmanager
    def lent(self) -> Iterator[Any]:
        try:
            connection = self._pool.connect()
        except NoneFree as error:
            raise PersistenceError(
                f"{self._name}: all {CONNECTIONS} connections were in use for {FREE_SECONDS} s"
            ) from error
        try:
            yield connection.driver_connection
        except RolledBack:
            raise
        except BaseException:
            connection.invalidate()
            raise
        finally:
            connection.close()

    def forget(self) -> None:
        """Closes the idle connections. After an outage of the server all connections are broken, not only the one that
        failed."""
        with suppress(Exception):
            self._pool.dispose()
        self._pool = self._pool.recreate()

    def close(self) -> None:
        self._pool.dispose()
