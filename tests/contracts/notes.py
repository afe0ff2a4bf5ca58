"""SQL databases of the test's own with a table `notes`, and what an application does to it; the files of SQL sessions
import these."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Column, Integer, MetaData, Table, insert, text

from sluicegate.connectors.sessions import SqlSession
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.application import Books
from tests.contracts.given import opened, rows, seen
from tests.contracts.sql import database, execute

SERVERS = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}
on_servers = pytest.mark.parametrize("product", SERVERS, indirect=True)
NOTES = Table("notes", MetaData(), Column("id", Integer, primary_key=True, autoincrement=False), Column("at", Integer))


@pytest.fixture(params=["sqlite", *SERVERS])
def product(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(product: str, request: pytest.FixtureRequest, ns: str, tmp_path: Path) -> str:
    """A database of the test's own with a table `notes`."""
    if product == "sqlite":
        made = f"sqlite:///{tmp_path}/state.db"
        opened(made).close()
    else:
        made = database(request.getfixturevalue(SERVERS[product]), ns)
    outside(made, "create table notes (id integer primary key, at integer)")
    return made


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = opened(url)
    yield made
    made.close()


@pytest.fixture
def books(url: str, partition: Partition) -> Books:
    return Books(url, partition)


def outside(url: str, statement: str) -> list[Any]:
    """Run by somebody else; the rows."""
    if not url.startswith("sqlite:"):
        return list(execute(url, statement))
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        table_rows = connection.execute(text(statement))
        return [tuple(row) for row in table_rows] if table_rows.returns_rows else []


def notes(url: str) -> list[Any]:
    return outside(url, "select id, at from notes order by id")


def note(session: SqlSession, number: int, at: int = 0) -> None:
    session.connection.execute(insert(NOTES).values(id=number, at=at))


def doing(*actions: Callable[[SqlSession], object]) -> Callable[[SqlSession], Changes]:
    """A work that does these one after the other."""

    def work(session: SqlSession) -> Changes:
        for action in actions:
            action(session)
        return Changes(5, entries=[b"e"], outbox=rows(1))

    return work


def nothing_landed(store: Store, url: str, partition: Partition) -> bool:
    view = seen(store, partition)
    return notes(url) == [] and (view.claim.offset, list(view.entries), view.unsent) == (-1, [], 0)
