"""The application's statements in the transaction of a commit, on a server: fence, its work, our writes, commit."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

from connectors.sessions import ENDED, Raised, SqlSession
from connectors.sql import texts
from connectors.sql.server import Server, Session
from streams.errors import ConfigurationError, NotCommitted

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
    _run(server, connection, fence, product.begin_unit)
    try:
        with product.lender.lent(connection) as lent:
            made = work(SqlSession(lent))
    except Exception as error:
        raised = _raised(server, connection, error)
        try:
            _run(server, connection, lambda db: None, product.undo_unit)
        except product.errors as failed:
            if product.outage(failed, connection):
                raise
            raise raised from error
        return raised
    result = _written(server, connection, lambda db: write(db, made))
    _end(server, connection)
    return result


def _run(server: Server, connection: Any, work: Callable[[Session], T], before: Sequence[str]) -> T:
    with server.product.session(connection) as db:
        for text in before:
            db.run(text)
        return work(db)


def _raised(server: Server, connection: Any, error: Exception) -> Raised:
    """What is to be repeated, or means that the store failed, is raised as the driver's own error."""
    product = server.product
    driver = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(driver, product.errors):
        if product.code(driver) in product.retryable or product.outage(driver, connection):
            raise driver from error
        raise Raised(error) from error
    return Raised(error)


def _written(server: Server, connection: Any, write: Callable[[Session], R]) -> R:
    """Our own writes, answered: what fails after them is the commit itself."""
    product = server.product
    try:
        return _run(server, connection, write, (texts.RELEASE,))
    except product.errors as error:
        if product.code(error) in product.ended:
            raise ConfigurationError(ENDED) from error
        if product.code(error) in product.aborted:
            raise NotCommitted(f"{product.name}: {ABORTED}") from error
        raise


def _end(server: Server, connection: Any) -> None:
    product = server.product
    try:
        _run(server, connection, lambda db: None, product.end_unit)
    except product.errors as error:
        if product.code(error) not in product.retryable and product.refused(error):
            raise NotCommitted(f"{product.name}: {type(error).__name__} {product.code(error)}: {product.said(error)[:300]}") from error
        raise
