"""The books of an application: what its handlers wrote into the store, read with the store's own driver."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import pymongo
import redis

from tests.contracts.sql import execute

Entry = dict[str, Any]
TABLES = (
    "create table entries_{name} (line varchar(300) not null)",
    "create table balances_{name} (account varchar(100) primary key, amount bigint not null)",
    "create table ids_{name} (id varchar(100) primary key)",
)


class Books:
    """Those of the scenario `name` in the store at `url`."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name

    def make(self) -> None:
        if self._url.startswith("mongodb:"):
            with pymongo.MongoClient(self._url) as client:
                for name in ("entries", "balances"):
                    client.get_default_database().create_collection(f"{name}_{self._name}")
        elif not self._url.startswith("redis"):
            for statement in TABLES:
                self._rows(statement.format(name=self._name))

    def entries(self) -> list[Entry]:
        return [json.loads(line) for line in self._lines()]

    def _lines(self) -> Sequence[Any]:
        if self._url.startswith("mongodb:"):
            with pymongo.MongoClient(self._url) as client:
                return [document["line"] for document in client.get_default_database()[f"entries_{self._name}"].find()]
        if self._url.startswith("redis"):
            with redis.Redis.from_url(self._url) as server:
                return list(server.lrange(f"{self._name}:entries", 0, -1))  # type: ignore[arg-type]
        return [line for (line,) in self._rows(f"select line from entries_{self._name}")]

    def balances(self) -> dict[str, int]:
        if self._url.startswith("mongodb:"):
            with pymongo.MongoClient(self._url) as client:
                documents = client.get_default_database()[f"balances_{self._name}"].find()
                return {document["_id"]: document["amount"] for document in documents}
        if self._url.startswith("redis"):
            with redis.Redis.from_url(self._url) as server:
                keys = server.scan_iter(f"{self._name}:balance:*", count=10_000)
                return {key.decode().rsplit(":", 1)[1]: int(server.get(key) or 0) for key in keys}  # type: ignore[arg-type]
        return dict(self._rows(f"select account, amount from balances_{self._name}"))

    def _rows(self, statement: str) -> Sequence[Any]:
        if not self._url.startswith("sqlite:"):
            return execute(self._url, statement)
        with sqlite3.connect(self._url.removeprefix("sqlite:///"), timeout=20) as db:
            rows = db.execute(statement).fetchall()
        db.close()
        return rows
