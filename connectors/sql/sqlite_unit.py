"""The application's statements in a transaction on a SQLite file."""

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from connectors.sessions import ENDED, Raised, SqlSession, working
from connectors.sql import statements
from connectors.sql.lending import Lender
from streams.errors import ConfigurationError

# Of the file or the disk, not of the statement.
OUTAGES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip

T = TypeVar("T")


def worked(db: sqlite3.Connection, lender: Lender, work: Callable[[SqlSession], T]) -> T:
    """What `work` made inside the transaction on `db`. Raises Raised for what it raised, sqlite3.Error when the file failed,
    ConfigurationError when it ended the transaction."""
    lender.learn(db)
    db.execute(statements.SAVEPOINT)
    try:
        with lender.lent(db) as lent:
            made = working(work, SqlSession(lent))
    except Raised as raised:
        _raise_outage(raised.error)
        raise
    try:
        db.execute(statements.RELEASE)
    except sqlite3.OperationalError as error:
        raise ConfigurationError(ENDED) from error
    return made


def _raise_outage(error: Exception) -> None:
    driver = getattr(error, "orig", error)
    if isinstance(driver, sqlite3.Error) and getattr(driver, "sqlite_errorcode", 0) & 0xFF in OUTAGES:
        raise driver from error
