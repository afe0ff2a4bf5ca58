"""The application's statements in the transaction of a commit: fence, its work, our writes, commit."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sluicegate.connectors.sessions import ENDED, Raised, SqlSession
from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.database import Database, StoreSession
from sluicegate.streams.errors import ConfigurationError, NotCommitted

ABORTED = (
    "an error that the handler caught had ended the transaction: use connection.begin_nested() around "
    "statements that may fail"
)

T = TypeVar("T")
R = TypeVar("R")


def unit(
    database: Database,
    fence: Callable[[StoreSession], None],
    work: Callable[[SqlSession], T],
    write: Callable[[StoreSession, T], R],
) -> R:
    """`fence` raises when the claim is lost, `write` gets what `work` made. Again as a whole after a deadlock and the
    like. Raises Raised for what `work` raised."""
    result = database.repeated(lambda connection: _once(database, connection, fence, work, write))
    if isinstance(result, Raised):
        raise result
    return result


def _once(
    database: Database,
    connection: Any,
    fence: Callable[[StoreSession], None],
    work: Callable[[SqlSession], T],
    write: Callable[[StoreSession, T], R],
) -> R | Raised:
    """What `work` raised is returned when it is rolled back, so that the connection lives; raised when the driver
    raised it."""
    product = database.product
    product.lender.learn(connection)
    _begin(database, connection, fence)
    try:
        with product.lender.lent(connection) as lent:
            made = work(SqlSession(lent))
    except Exception as error:
        return _undone(database, connection, error)
    return _ended(database, connection, lambda db: write(db, made))


@contextmanager
def transaction(database: Database) -> Iterator[SqlSession]:
    """One of the application's own, not repeated. What is raised in the block comes out unchanged, unless the server
    failed or wants it repeated: PersistenceError."""
    try:
        with database.connected() as connection:
            raised = yield from _block(database, connection)
    except Raised as dropped:
        raised = dropped
    if raised is not None:
        raise raised.error


def _block(database: Database, connection: Any) -> Generator[SqlSession, None, Raised | None]:
    """What its block raised, when it is rolled back and the connection lives."""
    database.product.lender.learn(connection)
    _begin(database, connection, lambda _: None)
    try:
        with database.product.lender.lent(connection) as lent:
            yield SqlSession(lent)
    except Exception as error:
        return _undone(database, connection, error)
    _ended(database, connection, lambda _: None)
    return None


def _undone(database: Database, connection: Any, error: Exception) -> Raised:
    """Rolled back."""
    product, raised = database.product, _raised(database, connection, error)
    try:
        _run(database, connection, product.undo_unit)
    except product.errors as failed:
        if product.outage(failed, connection):
            raise
        raise raised from error
    return raised


def _begin(database: Database, connection: Any, fence: Callable[[StoreSession], None]) -> None:
    with database.product.session(connection) as db:
        for text in database.product.begin_unit:
            db.run(text)
        fence(db)
    # Tells whether this transaction is still the same. Not pipelined: the flush at the end of psycopg's pipeline stops
    # PostgreSQL's timer of idle transactions, and a worker that was stopped inside its work would hold the row.
    connection.cursor().execute(statements.SAVEPOINT)


def _run(database: Database, connection: Any, texts: Sequence[str]) -> None:
    with database.product.session(connection) as db:
        for text in texts:
            db.run(text)


def _raised(database: Database, connection: Any, error: Exception) -> Raised:
    """What is to be repeated, or means that the store failed, is raised as the driver's own error."""
    product = database.product
    driver = getattr(error, "orig", error)  # SQLAlchemy's errors have the driver's own
    if isinstance(driver, product.errors):
        if product.code(driver) in product.retryable or product.outage(driver, connection):
            raise driver from error
        raise Raised(error) from error
    return Raised(error)


def _ended(database: Database, connection: Any, write: Callable[[StoreSession], R]) -> R:
    """Our own writes, answered, and then the commit: so its errors are told from theirs."""
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
            raise NotCommitted(f"{product.name}: {type(error).__name__} {code}: {product.said(error)[:300]}") from error
        if not written and code in product.ended:
            raise ConfigurationError(ENDED) from error
        if not written and code in product.aborted:
            raise NotCommitted(f"{product.name}: {ABORTED}") from error
        raise
