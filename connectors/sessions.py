"""What a handler writes through so that its writes are part of the engine's commit: one small class per kind of store.

Nobody ends the transaction but the engine: return to commit, raise to undo. A session is over when `work` returns.
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

    `connection.connection.driver_connection` is the driver's own (psycopg, PyMySQL, sqlite3), for what is faster there:
    psycopg's `executemany` and pipeline. PostgreSQL and MariaDB end a transaction that was idle for 4 s. On PostgreSQL
    an error that the handler catches outside of `begin_nested()` ends the transaction: NotCommitted. On MySQL a
    statement that commits implicitly, like `create table`, ends it, too: ConfigurationError, and what was written
    before it stays.
    """

    connection: Any


@dataclass(frozen=True)
class MongoSession:
    """`client_session` is pymongo's, inside the transaction: pass it as `session=` to every operation, else that one is
    not part of it. `database` is the store's own, with its concerns. The whole commit has 10 s."""

    client_session: Any
    database: Any


@dataclass(frozen=True)
class RedisSession:
    """`pipeline` queues commands (their results are not known to the handler); MULTI and EXEC apply them with the
    engine's commit.

    All of them run or none, but Redis takes nothing back: a command that it refuses while the others run (WRONGTYPE, no
    integer) is left out, the others and the commit stay. That is a PersistenceError that names the command, after the
    fact; the message is not repeated. On a cluster every key must lie with the partition: `key(name)` puts it there,
    others are refused before anything is sent.
    """

    pipeline: Any
    key: Callable[[str], str]


@dataclass(frozen=True)
class MemorySession:
    """`values` is a mapping of the whole store; what is read from it is a copy, what is set is there after the
    commit."""

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
    """What `work` raised, on its way through a store that translates its driver's errors."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def unchanged(run: Callable[[], T]) -> T:
    """`run()`, with what its work raised as it was."""
    try:
        return run()
    except Raised as raised:
        error = raised.error
    raise error


def working(work: Callable[[Any], T], session: Any) -> T:
    """`work(session)`; what it raises is Raised."""
    try:
        return work(session)
    except Exception as error:
        raise Raised(error) from error


ALONE = (
    "outbox.add without a transaction: give it the session of `with store.transaction() as session:`, or "
    "require_transaction=False"
)


def joined(session: Any, kind: type, require_transaction: bool) -> bool:
    """Whether `outbox.add` joins the transaction of `session`. Raises ConfigurationError for another store's session,
    and for none unless the caller said that it needs none."""
    if session is not None and not isinstance(session, kind):
        raise ConfigurationError(f"outbox.add takes a {kind.__name__} of this store, not a {type(session).__name__}")
    if session is None and require_transaction:
        raise ConfigurationError(ALONE)
    return session is not None
