"""Finds a connection pooler that gives each transaction another connection of the server, such as PgBouncer with
pool_mode = transaction.

Behind such a pooler, the settings, the lock timeouts and the prepared statements of one process reach others. A pooler
whose connections stay with their client (pool_mode = session) changes nothing.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg

from sluicegate.streams.errors import PersistenceError, permanent

Link = psycopg.Connection[tuple[Any, ...]]

LOOKS = 50
SHARED = (
    "a connection pooler in front of PostgreSQL gives each transaction another connection (PgBouncer: pool_mode = "
    "transaction or statement), so settings and prepared statements of one process would reach others; set pool_mode = "
    "session for this database, or let the store's URL name PostgreSQL itself"
)


def backend(link: Link) -> int:
    """The number of the server's process that answers; raises the driver's errors."""
    row = link.execute(b"select pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])


def check(link: Link, again: Callable[[], Link]) -> bool:
    """Whether a pooler is in between. A server names its own process to its client; a pooler names another one. `again`
    opens a further connection. Raises PersistenceError, as permanent, for a pooler that shares connections."""
    own = backend(link)
    if own == link.info.backend_pid:
        return False
    with closing(again()) as other:
        try:
            # Twice in a row: a pooler with two connections may give ours to every other transaction.
            shared = any(backend(other) == own or {backend(link), backend(link)} != {own} for _ in range(LOOKS))
        except psycopg.errors.OperationalError:
            # No connection is free for the other one while ours is open: it stays with its client, unless it changes.
            shared = any(backend(link) != own for _ in range(LOOKS))
    if shared:
        raise permanent(PersistenceError(f"postgresql: {SHARED}"))
    return True
