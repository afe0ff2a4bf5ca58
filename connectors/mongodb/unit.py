"""The application's operations in the transaction of a commit, and in a transaction of their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import pymongo
from pymongo.client_session import ClientSession
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.connection import MongoDatabase
from sluicegate.connectors.sessions import ENDED, REFUSED, MongoSession, Raised, working
from sluicegate.streams.errors import ConfigurationError, NotCommitted

ABORTED = "an error that the handler caught had ended the transaction: let errors of MongoDB through"

_NO_SUCH_TRANSACTION = 251
_ENDS = ("commit_transaction", "abort_transaction", "end_session")

T = TypeVar("T")


def worked(session: ClientSession, data: MongoDatabase, work: Callable[[MongoSession], T]) -> T:
    """Returns the result of `work`, which runs in the transaction of `session`. Raises Raised for an error of `work`,
    and pymongo's own error when it is retryable or the server failed."""
    try:
        with _without_ends(session):
            result = working(work, MongoSession(session, data))
    except Raised as raised:
        if isinstance(raised.error, PyMongoError) and _retryable(raised.error):
            raise raised.error from None
        raise
    if not session.in_transaction:
        raise ConfigurationError(ENDED)
    return result


@contextmanager
def transaction(server: connection.MongoServer, data: MongoDatabase) -> Iterator[MongoSession]:
    """Commits at the end of the block. Raises NotCommitted when the server refused, and PersistenceError when the
    outcome is unknown."""
    with server.start_session() as session:
        session.start_transaction(ReadConcern("snapshot"), data.write_concern, pymongo.ReadPreference.PRIMARY)
        try:
            with _without_ends(session):
                yield MongoSession(session, data)
        except BaseException as error:
            with pymongo.timeout(connection.time_to_end(error)):
                session.abort_transaction()
            if isinstance(error, PyMongoError) and _retryable(error):
                with connection.answering():
                    raise
            raise
        with connection.answering():
            try:
                session.commit_transaction()
            except PyMongoError as error:
                if connection.gave_up(error):
                    text = f"mongodb: {type(error).__name__}: the server gave the transaction up"
                    raise NotCommitted(text) from error
                raise


@contextmanager
def joining(session: MongoSession, data: MongoDatabase) -> Iterator[None]:
    """Runs the block in the transaction of the session, which may have been begun through another handle of the same
    database. A retryable error comes out as pymongo's own."""
    if session.database.name != data.name:
        raise ConfigurationError(f"the session is of database {session.database.name}, this outbox lies in {data.name}")
    if not session.client_session.in_transaction:
        raise ConfigurationError("the session is over: use it inside of its transaction")
    try:
        yield
    except PyMongoError as error:
        if _retryable(error):
            raise
        with connection.answering():
            raise


@contextmanager
def ours(attempt: int) -> Iterator[None]:
    """Surrounds our own writes after the handler's. When the transaction is gone, it is run once more, because the
    server may have ended it. It is gone again if the handler caught an error of the server: raises NotCommitted."""
    try:
        yield
    except OperationFailure as error:
        if error.code == _NO_SUCH_TRANSACTION and attempt > 1:
            raise NotCommitted(f"mongodb: {ABORTED}") from error
        raise


def _retryable(error: PyMongoError) -> bool:
    return connection.gave_up(error) or error.timeout or isinstance(error, ConnectionFailure)


@contextmanager
def _without_ends(session: ClientSession) -> Iterator[None]:
    """Keeps the handler from ending the transaction or the session."""
    for name in _ENDS:
        setattr(session, name, _refuse)
    try:
        yield
    finally:
        for name in _ENDS:
            delattr(session, name)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise ConfigurationError(REFUSED)
