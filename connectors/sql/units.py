"""The application's statements in the transaction of a commit, on a server: fence, its work, our writes, commit."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

from sluicegate.connectors.sessions import ENDED, Raised, SqlSession
from sluicegate.connectors.sql import texts
from sluicegate.connectors.sql.server import Server, Session
from sluicegate.streams.errors import ConfigurationError, NotCommitted

ABORTED = "an error that the handler caught had ended the transaction: use connection.begin_nested() around statements that may fail"

T = TypeVar("T")
R = TypeVar("R")


def unit(server: Server, fence: Callable[[Session], None], work: Callable[[SqlSession], T], write: Callable[[Session, T], R]) -> R:
    """`fence` raises when the claim is lost, `write` gets what `work` made. Again as a whole after a deadlock and the like. Raises
    Raised for what `work` raised."""
    result = server.repeated(lambda connection: _once(server, connection, fence, work, write))
    if isinstance(result, Raised):
        raise result
    return result


def _once(
    server: Server,
    connection: Any,
    fence: Callable[[Session], None],
    work: Callable[[SqlSession], T],
    write: Callable[[Session, T], R],
) -> R | Raised:
    """What `work` raised is returned when it is rolled back, so that the connection lives; raised when the driver raised it."""
    product = server.product
    product.lender.learn(connection)
    _begin(server, connection, fence)
    try:
        with product.lender.lent(connection) as lent:
            made = work(SqlSession(lent))
    except Exception as error:
        return _undone(server, connection, error)
    return _ended(server, connection, lambda db: write(db, made))


@contextmanager
def transaction(server: Server) -> Iterator[SqlSession]:
    """One of the application's own, not repeated. What is raised in the block comes out unchanged, unless the server failed or wants
    it repeated: PersistenceError."""
    try:
        with server.connected() as connection:
            raised = yield from _block(server, connection)
    except Raised as dropped:
        raised = dropped
    if raised is not None:
        raise raised.error


def _block(server: Server, connection: Any) -> Generator[SqlSession, None, Raised | None]:
    """What its block raised, when it is rolled back and the connection lives."""
    server.product.lender.learn(connection)
    _begin(server, connection, lambda _: None)
    try:
        with server.product.lender.lent(connection) as lent:
            yield SqlSession(lent)
    except Exception as error:
        return _undone(server, connection, error)
    _ended(server, connection, lambda _: None)
    return None


def _undone(server: Server, connection: Any, error: Exception) -> Raised:
    """Rolled back."""
    product, raised = server.product, _raised(server, connection, error)
    try:
        _run(server, connection, product.undo_unit)
    except product.errors as failed:
        if product.outage(failed, connection):
            raise
        raise raised from error
    return raised


def _begin(server: Server, connection: Any, fence: Callable[[Session], None]) -> None:
    with server.product.session(connection) as db:
        for text in server.product.begin_unit:
            db.run(text)
        fence(db)
    # Tells whether this transaction is still the same. Not pipelined: the flush at the end of psycopg's pipeline stops PostgreSQL's timer
    # of idle transactions, and a worker that was stopped inside its work would hold the row.
    connection.cursor().execute(texts.SAVEPOINT)


def _run(server: Server, connection: Any, statements: Sequence[str]) -> None:
    with server.product.session(connection) as db:
        for text in statements:
            db.run(text)


def _raised(server: Server, connection: Any, error: Exception) -> Raised:
    """What is to be repeated, or means that the store failed, is raised as the driver's own error."""
    product = server.product
    driver = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(driver, product.errors):
        if product.code(driver) in product.retryable or product.outage(driver, connection):
            raise driver from error
        raise Raised(error) from error
    return Raised(error)


def _ended(server: Server, connection: Any, write: Callable[[Session], R]) -> R:
    """Our own writes, answered, and then the commit: so its errors are told from theirs."""
    product, written = server.product, False
    try:
        with product.session(connection) as db:
            db.run(texts.RELEASE)
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
