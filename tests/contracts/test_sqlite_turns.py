"""Processes that write to one SQLite file take turns: one that commits seldom gets the lock beside one that commits all
the time."""

import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.sql import sqlite
from sluicegate.connectors.sql.database import Database
from sluicegate.streams.errors import PersistenceError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    store.migrate()
    store.close()
    return tmp_path / "store.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    made = Database(sqlite.Sqlite(path))
    yield made
    made.close()


@pytest.fixture
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process, with a transaction under way."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("begin immediate")
    yield connection
    connection.close()


def work(database: Database) -> int:
    timeout = database.run(lambda db: db.rows("pragma busy_timeout"), database.product.begin)
    return int(timeout[0][0])


def test_a_process_that_waits_tries_every_few_milliseconds(
    database: Database, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 100:
            other.execute("commit")

    monkeypatch.setattr(sqlite, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 1.0)  # of SQLite's own wait, without ours
    work(database)
    assert len(waits) == 100
    assert max(waits) <= 0.005


def test_a_process_that_waits_too_long_gives_up(
    database: Database, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count()
    monkeypatch.setattr(sqlite, "time", SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda _: None))
    with pytest.raises(PersistenceError, match="SQLITE_BUSY"):
        work(database)
    assert sqlite.BUSY_SECONDS <= next(seconds) <= sqlite.BUSY_SECONDS + 5


def test_within_a_transaction_sqlite_waits_as_before(database: Database) -> None:
    assert work(database) == 1000 * sqlite.BUSY_SECONDS
