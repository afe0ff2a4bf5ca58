"""The application's statements in a transaction on a SQLite file."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sluicegate.connectors.sessions import ENDED, Raised, SqlSession
from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.lending import Lender
from sluicegate.connectors.sql.sqlite import Database
from sluicegate.streams.errors import ConfigurationError

# Of the file or the disk, not of the statement.
OUTAGES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip

T = TypeVar("T")


def worked(db: sqlite3.Connection, lender: Lender, work: Callable[[SqlSession], T]) -> T:
    """What `work` made inside the transaction on `db`. Raises as `session` does."""
    with session(db, lender) as lent:
        return work(lent)


@contextmanager
def session(db: sqlite3.Connection, lender: Lender) -> Iterator[SqlSession]:
    """Inside the transaction on `db`. Raises Raised for what was raised in the block, sqlite3.Error when the file failed,
    ConfigurationError when the block ended the transaction."""
    lender.learn(db)
    db.execute(statements.SAVEPOINT)
    try:
        with lender.lent(db) as lent:
            yield SqlSession(lent)
    except Exception as error:
        _raise_outage(error)
        raise Raised(error) from error
    try:
        db.execute(statements.RELEASE)
    except sqlite3.OperationalError as error:
        raise ConfigurationError(ENDED) from error


@contextmanager
def transaction(database: Database, lender: Lender) -> Iterator[SqlSession]:
    """One of the application's own. What is raised in the block comes out unchanged, unless the file failed: PersistenceError."""
    try:
        with database.transaction(statements.BEGIN) as db, session(db, lender) as lent:
            yield lent
    except Raised as raised:
        error = raised.error
    else:
        return
    raise error


def _raise_outage(error: Exception) -> None:
    driver = getattr(error, "orig", error)
    if isinstance(driver, sqlite3.Error) and getattr(driver, "sqlite_errorcode", 0) & 0xFF in OUTAGES:
        raise driver from error
