"""Sessions: a handler's writes through one are part of the engine's commit. Each kind of store has its own class.

Only the engine ends the transaction: return from the handler to commit, raise to roll back. A session ends with the
handler's call.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sluicegate.streams.errors import ConfigurationError

T = TypeVar("T")

ENDED = (
    "the engine's transaction ended inside the handler: by a commit, a rollback, an implicit commit, or an error "
    "that it caught"
)
REFUSED = "the transaction is the engine's: return from the handler to commit it, raise to roll it back"


@dataclass(frozen=True)
class SqlSession:
    """`connection` is a `sqlalchemy.Connection` inside the transaction; `commit()` and `rollback()` are refused,
    `begin_nested()` works.

    `connection.connection.driver_connection` is the driver's own connection (psycopg, PyMySQL, sqlite3), for example
    for psycopg's pipeline. PostgreSQL and MariaDB end a transaction that was idle for 4 s. On PostgreSQL an error that
    the handler catches outside of `begin_nested()` aborts the transaction: NotCommitted. On MySQL a statement that
    commits implicitly, like `create table`, ends it: ConfigurationError, and the earlier writes stay.
    """

    connection: Any

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a session has no {name}; session.connection is the connection of SQLAlchemy")


@dataclass(frozen=True)
class MongoSession:
    """`client_session` is pymongo's, inside the transaction: pass it as `session=` to every operation that belongs to
    the transaction. `database` is the store's own, with its read and write concerns. The whole commit has 10 s."""

    client_session: Any
    database: Any


@dataclass(frozen=True)
class RedisSession:
    """`pipeline` queues commands; the handler cannot read their results. MULTI and EXEC run them with the engine's
    commit. All commands run or none, but Redis does not roll back: when a command fails (WRONGTYPE, not an integer),
    the others and the commit stay. A PersistenceError then names the command; the message is not processed again.

    On a cluster every key must be in the partition's slot: `key(name)` puts it there. Other keys are refused before
    anything is sent.
    """

    pipeline: Any
    key: Callable[[str], str]


@dataclass(frozen=True)
class MemorySession:
    """`values` is a mapping of the whole store. Reading returns a copy; the commit applies what is set."""

    values: MutableMapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a session of the memory store has `values` and no `{name}`{_ELSEWHERE.get(name, '')}")


_REAL = "; a test of it needs a real server: TestDriver(app, store=open_store(URL))"
_ELSEWHERE = {
    "connection": "; a test of it begins with a step `setup: FILE.sql`, which gives it a SQLite file",
    **dict.fromkeys(("client_session", "database"), f": MongoDB's has{_REAL}"),
    **dict.fromkeys(("pipeline", "key"), f": Redis' has{_REAL}"),
}


class Raised(Exception):
    """Carries an error of `work` through code that translates the driver's errors."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def unchanged(run: Callable[[], T]) -> T:
    """The result of `run()`. An error that it carries in Raised comes out unchanged."""
    try:
        return run()
    except Raised as raised:
        error = raised.error
    raise error


def working(work: Callable[[Any], T], session: Any) -> T:
    """The result of `work(session)`. An error of `work` comes out as Raised."""
    try:
        return work(session)
    except Exception as error:
        raise Raised(error) from error


ALONE = (
    "outbox.add without a transaction: give it the session of `with store.transaction() as session:`, or "
    "require_transaction=False"
)


def joined(session: Any, kind: type, require_transaction: bool) -> bool:
    """Whether `outbox.add` joins the transaction of `session`. Raises ConfigurationError for a session of another kind
    of store, and for a missing one unless `require_transaction` is False."""
    if session is not None and not isinstance(session, kind):
        raise ConfigurationError(f"outbox.add takes a {kind.__name__} of this store, not a {type(session).__name__}")
    if session is None and require_transaction:
        raise ConfigurationError(ALONE)
    return session is not None
