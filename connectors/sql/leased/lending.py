"""Lends a `sqlalchemy.Connection` on our driver's connection: it joins our transaction, but cannot end it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from sluicegate.connectors.sessions import REFUSED
from sluicegate.streams.errors import ConfigurationError

_OVER = "sluicegate-over"


class Lender:
    """`url` names the dialect and the driver, `options` are the dialect's. Any thread may call."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url = make_url(url)
        kind: Any = self._url.get_dialect()
        self._dialect = kind(dbapi=kind.import_dbapi(), **options)
        for name in ("do_commit", "do_rollback"):
            setattr(self._dialect, name, _refuse)
        for name in ("do_close", "do_terminate"):
            setattr(self._dialect, name, _stay_open)
        self._engine = Engine(StaticPool(_nothing), self._dialect, self._url, hide_parameters=True)
        self._known = False
        self._lock = threading.Lock()

    def learn(self, driver: Any) -> None:
        """Lets SQLAlchemy ask for the server's version and settings, once, outside of any transaction. Raises the
        driver's errors."""
        if self._known:
            return
        with self._lock:
            if not self._known:
                try:
                    with self.lent(driver) as connection:
                        self._dialect.initialize(connection)
                except DBAPIError as error:
                    raise (error.orig or error) from error
                self._known = True

    @contextmanager
    def lent(self, driver: Any) -> Iterator[Connection]:
        """The connection ends with the block. `driver` stays open and in its transaction."""
        pool = StaticPool(lambda: driver, reset_on_return=None, dialect=self._dialect)
        connection = Connection(self._engine, pool.connect())
        connection.begin()
        info = connection.info
        try:
            yield connection
        finally:
            info[_OVER] = True
            connection.close()


def _nothing() -> Any:
    raise ConfigurationError("the engine of a session's connection opens no connections of its own")


def _stay_open(driver: Any) -> None:
    """Our own pool closes the connection, even a lost one. PyMySQL refuses a second close, and SQLAlchemy would log
    that with a traceback."""


def _refuse(connection: Any) -> None:
    if not connection.info.get(_OVER):
        raise ConfigurationError(REFUSED)
