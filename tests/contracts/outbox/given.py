"""Outboxes, messages and what is done with them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pymongo
import redis

from sluicegate.connectors import open_store
from sluicegate.connectors.mongodb import connection as mongodb
from sluicegate.connectors.redis import addresses
from sluicegate.connectors.sql import tables
from sluicegate.streams.contracts.messages import LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions
from tests.contracts.sql import other

Store = Any
"""A store with the leased contracts and transactions."""
LONG, SHORT = timedelta(minutes=5), timedelta(milliseconds=150)
LANE = 13
"""Of the key `k`, with 16 lanes."""


class Place:
    """Where the data lie; any number of handles on them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._made: list[Store] = []

    def store(self, attempts: int = 10, backoff: timedelta = timedelta(minutes=1)) -> Store:
        """A handle of its own (in memory: the first one's)."""
        made: Store = open_store(
            self.url, options=LeasedOptions(outbox=OutboxOptions(attempts, backoff, max(backoff, LONG)))
        )
        made.migrate()
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


def emptied(url: str) -> None:
    """Nothing of an outbox is left in a database of the test's own."""
    kind = urlsplit(url).scheme
    if kind.startswith("redis"):
        client = addresses.server(url)()
        client.flushall(target_nodes="primaries") if isinstance(client, redis.RedisCluster) else client.flushdb()
    elif kind == "mongodb":
        with pymongo.MongoClient(url) as client:
            client.drop_database(client.get_default_database(mongodb.DATABASE).name)
    else:
        with other(url) as cursor:
            for table in (
                tables.MESSAGE,
                tables.PENDING,
                tables.SENT,
                tables.DEAD_MESSAGE,
                tables.ATTEMPT,
                tables.LANE,
            ):
                _run(cursor, f"delete from {table.name}")
            _run(cursor, "update sluicegate_meta set value = '16' where name = 'lanes'")


def _run(cursor: Any, statement: str) -> None:
    """Before the first migration there is no such table."""
    try:
        cursor.execute(statement)
    except Exception as error:
        if "exist" not in str(error):
            raise


def message(number: int, key: bytes | None = b"k", **fields: Any) -> OutboxMessage:
    return OutboxMessage(**{"topic": "t", "key": key, "value": b"v%d" % number, "id": f"m{number}", **fields})


def messages(*numbers: int, **fields: Any) -> list[OutboxMessage]:
    return [message(number, **fields) for number in numbers]


def added(store: Store, *numbers: int, **fields: Any) -> list[OutboxMessage]:
    made = messages(*numbers, **fields)
    store.outbox.add(None, made, require_transaction=False)
    return made


def claimed(
    store: Store, lane: int = LANE, token: str = "mine", limit: int = 100, after: int = 0, lease: timedelta = LONG
) -> LaneBatch:
    """A batch of a lane that is to be had."""
    batch = store.outbox.claim(lane, token, limit, after, lease)
    assert batch is not None
    return batch


def ids(rows: Sequence[Any]) -> list[str]:
    return [row.message.id for row in rows]


def numbers(batch: LaneBatch) -> list[int]:
    return [row.number for row in batch.rows]


def marked(store: Store, batch: LaneBatch, kind: Any = "dispatched", error: str = "") -> None:
    """All of its rows."""
    store.outbox.mark(batch, [Outcome(row.message.id, kind, error) for row in batch.rows])


def found(store: Store, id: str) -> StoredMessage:
    [row] = [row for row in store.outbox.find() if row.message.id == id]
    assert store.outbox.get(id) == row
    assert store.outbox.get(f"not {id}") is None
    return row


def counts(store: Store) -> tuple[int, int, int]:
    """Pending, dispatched, dead."""
    return tuple(store.outbox.count(state) for state in ("pending", "dispatched", "dead"))
