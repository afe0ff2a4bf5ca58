"""Transactions that run the application's statements: for a commit (fence, work, our writes, commit), and for the
application alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sluicegate.connectors.sessions import ENDED, Raised, SqlSession
from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.database import Database, RolledBack, StoreSession
from sluicegate.streams.errors import ConfigurationError, NotCommitted

ABORTED = (
    "an error that the handler caught aborted the transaction: use connection.begin_nested() around statements that "
    "may fail"
)

T = TypeVar("T")
R = TypeVar("R")


def unit(
    database: Database,
    fence: Callable[[StoreSession], object],
    work: Callable[[SqlSession], T],
    write: Callable[[StoreSession, T], R],
) -> R:
    """Runs `fence`, `work` and `write` in one transaction. `fence` raises when the claim is lost; `write` gets the
    result of `work`. The whole unit is repeated after a deadlock and the like. An error of `work` comes out as
    Raised."""

    def once(connection: Any) -> R:
        with _begun(database, connection, fence) as session:
            result = work(session)
        return _committed(database, connection, lambda db: write(db, result))

    return database.repeated(once)


@contextmanager
def transaction(database: Database) -> Iterator[SqlSession]:
    """A transaction of the application, not repeated. An error of the block comes out unchanged; an outage and a
    retryable error are a PersistenceError."""
    try:
        with database.connected() as connection:
            with _begun(database, connection, lambda _: None) as session:
                yield session
            _committed(database, connection, lambda _: None)
        return
    except Raised as raised:
        error = raised.error
    raise error


@contextmanager
def _begun(database: Database, connection: Any, fence: Callable[[StoreSession], object]) -> Iterator[SqlSession]:
    """Begins and fences; rolls back after an error of the block."""
    product = database.product
    product.lender.learn(connection)
    with product.session(connection) as db:
        for text in product.begin_unit:
            db.run(text)
        fence(db)
    # `release` of this savepoint fails when the transaction is not the same any more. Not pipelined: the flush at the
    # end of psycopg's pipeline stops PostgreSQL's timer of idle transactions, and a worker that was stopped inside its
    # work would hold the row.
    connection.cursor().execute(statements.SAVEPOINT)
    try:
        with product.lender.lent(connection) as lent:
            yield SqlSession(lent)
    except Exception as error:
        raise _rolled_back(database, connection, error) from error


def _rolled_back(database: Database, connection: Any, error: Exception) -> Raised:
    """Rolls back, and returns the error to raise. Retryable errors and outages are raised as the driver's own."""
    product = database.product
    driver = getattr(error, "orig", error)  # SQLAlchemy's errors have the driver's own
    if isinstance(driver, product.errors) and (
        product.code(driver) in product.retryable or product.outage(driver, connection)
    ):
        raise driver from error
    try:
        with product.session(connection) as db:
            for text in product.undo_unit:
                db.run(text)
    except product.errors as failed:
        if product.outage(failed, connection):
            raise
        return Raised(error)
    return RolledBack(error)


def _committed(database: Database, connection: Any, write: Callable[[StoreSession], R]) -> R:
    """Writes and commits. The commit is sent after our writes are answered, so its errors can be told from theirs."""
    product, written = database.product, False
    try:
        with product.session(connection) as db:
            db.run(statements.RELEASE)
            result = write(db)
            db.settle()
            written = True
            for text in product.end_unit:
                db.run(text)
        return result
    except product.errors as error:
        code = product.code(error)
        if written and code not in product.retryable and product.refused(error):
            raise NotCommitted(
                f"{product.name}: {type(error).__name__} {code}: {product.text_of(error)[:300]}"
            ) from error
        if not written and code in product.ended:
            raise ConfigurationError(ENDED) from error
        if not written and code in product.aborted:
            raise NotCommitted(f"{product.name}: {ABORTED}") from error
        raise
