"""A SQL server that ends a connection in the middle of a session: the log has no traceback of a library."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from sluicegate.connectors import open_store
from sluicegate.connectors.sql.leased import lending
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe import logs

THIS = {"postgresql": "select pg_backend_pid()", "mariadb": "select connection_id()"}
END = {"postgresql": "select pg_terminate_backend({})", "mariadb": "kill {}"}
URLS = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """Lines of JSON, as `sluicegate run` writes them."""
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    logs.configure(json=True, descriptor=descriptor)
    yield path
    logs.configure()
    os.close(descriptor)


def loses(kind: str, url: str, log: Path) -> str:
    """The log after two sessions lost their connection."""
    store, other = open_store(url), open_store(url)
    store.migrate()
    for session_of in (in_a_commit, in_a_transaction):
        with pytest.raises(PersistenceError):
            session_of(store, lambda connection: cut(other, kind, connection))
    store.close()  # type: ignore[attr-defined]
    other.close()  # type: ignore[attr-defined]
    return log.read_text()


def cut(other: Any, kind: str, connection: Any) -> None:
    number = connection.scalar(text(THIS[kind]))
    with other.transaction() as session:
        session.connection.execute(text(END[kind].format(number)))
    connection.execute(text("select 1"))


def in_a_commit(store: Any, lose: Callable[[Any], None]) -> None:
    claim = store.claim(Partition(os.urandom(8).hex(), "sums", "t", 0), os.urandom(8).hex(), "m")

    def work(session: Any) -> Changes:
        lose(session.connection)
        return Changes(1)

    store.commit_with(claim, work)


def in_a_transaction(store: Any, lose: Callable[[Any], None]) -> None:
    with store.transaction() as session:
        lose(session.connection)


@pytest.mark.parametrize("kind", URLS)
def test_a_lost_connection_leaves_no_traceback_of_a_library(
    kind: str, request: pytest.FixtureRequest, log: Path
) -> None:
    error = loses(kind, request.getfixturevalue(URLS[kind]), log)
    assert "library.logged" not in error
    assert "Traceback" not in error


def test_when_the_connection_is_closed_twice_there_is_one(
    mariadb_url: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "_stay_open", lambda driver: driver.close())
    assert "Already closed" in loses("mariadb", mariadb_url, log)
