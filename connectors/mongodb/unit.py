"""The application's operations in the transaction of a commit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from connectors.sessions import ENDED, REFUSED, MongoSession, Raised, working
from streams.errors import ConfigurationError, NotCommitted

ABORTED = "an error that the handler caught had ended the transaction: let errors of MongoDB through"

_NO_SUCH_TRANSACTION = 251
_ENDS = ("commit_transaction", "abort_transaction", "end_session")

T = TypeVar("T")


def worked(session: ClientSession, data: Database[dict[str, Any]], work: Callable[[MongoSession], T]) -> T:
    """What `work` made inside the transaction of `session`. Raises Raised for what it raised, but pymongo's errors that are worth
    another attempt, or mean that the server failed, as they are."""
    try:
        with _kept(session):
            made = working(work, MongoSession(session, data))
    except Raised as raised:
        if isinstance(raised.error, PyMongoError) and _retryable(raised.error):
            raise raised.error from None
        raise
    if not session.in_transaction:
        raise ConfigurationError(ENDED)
    return made


@contextmanager
def ours(attempt: int) -> Iterator[None]:
    """Our own writes after the work. A transaction that is gone then is tried once more: the server may have given it up, but it
    also ends when the handler catches an error of the server, each time. Raises NotCommitted for that."""
    try:
        yield
    except OperationFailure as error:
        if error.code == _NO_SUCH_TRANSACTION and attempt > 1:
            raise NotCommitted(f"mongodb: {ABORTED}") from error
        raise


def _retryable(error: PyMongoError) -> bool:
    return error.has_error_label("TransientTransactionError") or error.timeout or isinstance(error, ConnectionFailure)


@contextmanager
def _kept(session: ClientSession) -> Iterator[None]:
    """Nobody else ends the transaction, or the session, meanwhile."""
    for name in _ENDS:
        setattr(session, name, _refuse)
    try:
        yield
    finally:
        for name in _ENDS:
            delattr(session, name)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise ConfigurationError(REFUSED)
