"""An application with books: its handler adds lines through a session of any store, and an auditor reads them from
outside."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pymongo
from sqlalchemy import text

from sluicegate.connectors.memory.state import shared
from sluicegate.connectors.mongodb import connection as mongodb
from sluicegate.connectors.redis import addresses
from sluicegate.connectors.redis.state import _keys
from sluicegate.connectors.sessions import MemorySession, MongoSession, RedisSession, SqlSession
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced
from tests.contracts.given import claimed, picture, rows, seen
from tests.contracts.scenarios import error_of
from tests.contracts.sql import execute

Enter = Callable[[Any, str], None]


class Books:
    """The lines of one test: a table, a collection, a list or a value named `ns`."""

    def __init__(self, url: str, partition: Partition) -> None:
        self.url, self.partition, self.name = url, partition, f"books_{partition.app}"
        if url.startswith("sqlite:"):
            with sqlite3.connect(self._file) as db:
                db.execute(f"create table if not exists {self.name} (line text)")
        elif url.startswith(("postgresql:", "mysql:", "mariadb:")):
            execute(url, f"create table if not exists {self.name} (line varchar(200))")

    @property
    def _file(self) -> str:
        return self.url.removeprefix("sqlite:///")

    def enter(self, session: Any, line: str) -> None:
        match session:
            case SqlSession(connection):
                connection.execute(text(f"insert into {self.name} (line) values (:line)"), {"line": line})
            case MongoSession(client_session, database):
                database[self.name].insert_one({"line": line}, session=client_session)
            case RedisSession(pipeline, key):
                pipeline.rpush(key(self.name), line)
            case MemorySession(values):
                values[self.name] = [*values.get(self.name, []), line]

    def lines(self) -> list[str]:
        if self.url.startswith("memory:"):
            return list(shared(self.url.removeprefix("memory://")).values.get(self.name, []))
        if self.url.startswith("sqlite:"):
            with sqlite3.connect(self._file) as db:
                return [line for (line,) in db.execute(f"select line from {self.name} order by rowid")]
        if self.url.startswith("mongodb:"):
            with pymongo.MongoClient(self.url) as client:
                documents = client.get_default_database(mongodb.DATABASE)[self.name].find().sort("_id")
                return [document["line"] for document in documents]
        if self.url.startswith("redis"):
            return [line.decode() for line in addresses.server(self.url)().lrange(self.key, 0, -1)]
        return [line for (line,) in execute(self.url, f"select line from {self.name}")]

    @property
    def key(self) -> str:
        return _keys(self.partition)[0].removesuffix("claim") + f"own:{self.name}"


def both_land(store: Store, books: Books) -> None:
    claim = claimed(store, books.partition)

    def work(session: Any) -> Changes:
        books.enter(session, "one")
        books.enter(session, "two")
        return Changes(7, entries=[b"e"], outbox=rows(1, 2))

    done = store.commit_with(claim, work)
    assert (done.version, done.offset, done.number, done.last) == (1, 7, 2, 1)
    assert sorted(books.lines()) == ["one", "two"]
    assert (seen(store, books.partition).claim.offset, seen(store, books.partition).entries) == (7, [b"e"])
    assert seen(store, books.partition).unsent == 2
    assert store.commit(done, Changes(8)).offset == 8


def a_failing_work_leaves_nothing(store: Store, books: Books, error: Exception) -> None:
    claim = store.commit(claimed(store, books.partition), Changes(1, entries=[b"e1"]))
    before = picture(store, books.partition)

    def work(session: Any) -> Changes:
        books.enter(session, "lost")
        raise error

    raised: Exception | None = None
    try:
        store.commit_with(claim, work)
    except Exception as caught:
        raised = caught
    assert (books.lines(), picture(store, books.partition)) == ([], before)
    assert raised is error
    store.commit_with(claim, lambda session: (books.enter(session, "kept"), Changes(2))[1])
    assert (books.lines(), seen(store, books.partition).claim.offset) == (["kept"], 2)


def a_fenced_owners_work_is_never_called(store: Store, books: Books) -> None:
    zombie = claimed(store, books.partition)
    claimed(store, books.partition)
    before, called = picture(store, books.partition), []

    def work(session: Any) -> Changes:
        called.append(session)
        books.enter(session, "late")
        return Changes(9, entries=[b"late"], outbox=rows(1))

    raised = error_of(lambda: store.commit_with(zombie, work))
    assert (called, books.lines(), picture(store, books.partition)) == ([], [], before)
    assert raised is Fenced


def a_claim_while_the_work_runs_waits_or_fences(store: Store, other: Store, books: Books) -> None:
    """Whatever the new claim shows is what is in the books."""
    claim = claimed(store, books.partition)
    asked = threading.Event()

    def take() -> Sequence[object]:
        asked.set()
        return claimed(other, books.partition).offset, claim.version

    with ThreadPoolExecutor() as pool:
        futures = []

        def work(session: Any) -> Changes:
            books.enter(session, "line")
            if not futures:
                futures.append(pool.submit(take))
                assert asked.wait(10)
                wait(futures, 0.5)
            return Changes(9, entries=[b"e"])

        raised = error_of(lambda: store.commit_with(claim, work))
        offset, _ = futures[0].result(30)
    landed = offset == 9
    assert raised is (None if landed else Fenced)
    assert books.lines() == (["line"] if landed else [])
    assert seen(store, books.partition).entries == ([b"e"] if landed else [])
