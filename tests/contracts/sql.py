"""What a test does to a SQL server behind the store's back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.sqlite import Sqlite


def connected(url: str) -> Any:
    """An autocommitting connection of the test's own."""
    if url.startswith("postgresql:"):
        return psycopg.connect(url, autocommit=True)
    target = urlsplit(url)
    return pymysql.connect(
        host=target.hostname, port=target.port, user=target.username, database=target.path[1:], autocommit=True
    )


@contextmanager
def other(url: str) -> Iterator[Any]:
    """A cursor of somebody else."""
    connection = connected(url)
    try:
        yield connection.cursor()
    finally:
        connection.close()


def execute(url: str, *texts: str) -> Sequence[tuple[Any, ...]]:
    """The rows of the last statement."""
    with other(url) as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall()) if cursor.description else []


def database(url: str, name: str) -> str:
    """The URL of a new, empty database on the same server."""
    execute(url, f"create database {name}")
    return url.rpartition("/")[0] + f"/{name}"


def no_transactions(replace: Callable[[object, str, object], object]) -> None:
    """SQLite: each statement is committed by itself. `replace` is setattr, or a patch's."""
    for name in ("COMMIT", "ROLLBACK"):
        replace(statements, name, "select 1")
    for name in ("begin", "begin_reading", "begin_unit", "end_unit", "undo_unit"):
        replace(Sqlite, name, ("select 1",))
