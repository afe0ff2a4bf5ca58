"""Transactions of the leased contracts: one per step, with times of the server's clock.

A process that is killed leaves its transaction open. The next process that wants the same lock ends it (left_open.py).
"""

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import TypeVar

from pymongo import ReturnDocument
from pymongo.client_session import ClientSession

from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.migrations import LEASED, LOCK, META, STEP
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady

CONFLICTS = 1000
"""Attempts of a step, unless its time is up before."""

TURNS = 64
"""The number of locks that the threads of this process share for all keys."""

T = TypeVar("T")


class StepRunner:
    """Runs the steps of the leased contracts on `data`. Any thread may call."""

    def __init__(self, server: connection.MongoServer, data: MongoDatabase) -> None:
        if not data.write_concern.acknowledged:
            raise ConfigurationError(
                "w=0 leaves the outcome of a write unknown: the leased contracts need an acknowledged write concern"
            )
        self.server, self.data = server, data
        self._ready = False
        self._turns = [threading.Lock() for _ in range(TURNS)]

    def run(self, work: Callable[[ClientSession], T], key: str = "") -> T:
        """Runs `work` in one transaction, and runs the whole transaction again after a conflict. Threads that need the
        lock of the same `key` wait for each other here: the server would fail their transactions instead. Raises
        PersistenceError, and SystemNotReady before `migrate`."""
        self.ready()
        with self._turn(key) if key else nullcontext(), self.server.start_session() as session:
            return connection.transact(session, self.data.write_concern, work, CONFLICTS)

    @contextmanager
    def _turn(self, key: str) -> Iterator[None]:
        turn = self._turns[zlib.crc32(key.encode()) % TURNS]
        if not turn.acquire(timeout=connection.REPLY_SECONDS):
            raise PersistenceError(
                f"mongodb: other threads of this process held the lock {key} for {connection.REPLY_SECONDS} s"
            )
        try:
            yield
        finally:
            turn.release()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The context of reads outside of a transaction. Raises the errors of `run`."""
        self.ready()
        with connection.answering():
            yield

    def ready(self) -> None:
        """Raises SystemNotReady before `migrate`. Once the store is ready, the question is not asked again."""
        if not self._ready:
            with connection.answering():
                self._ready = self.data[STEP].find_one({"_id": LEASED}) is not None
        if not self._ready:
            raise SystemNotReady(
                "the store lacks the collections of buffers, timeouts and outbox: run `sluicegate migrate`"
            )


NOTHING: Document = {}


def locked(data: MongoDatabase, key: str, session: ClientSession, change: Document = NOTHING) -> Document:
    """Locks this key and returns its document after the `change`, with the server's time as `now`. It is a
    transaction's first step, so that a conflict comes early."""
    update = {"$currentDate": {"now": True}} | change
    document = data[LOCK].find_one_and_update(
        {"_id": key}, update, upsert=True, return_document=ReturnDocument.AFTER, session=session
    )
    return document or {}


def server_time(data: MongoDatabase, session: ClientSession | None = None) -> datetime:
    """Takes no lock."""
    rows = list(data[META].aggregate([{"$match": {"_id": "outbox"}}, {"$project": {"now": "$$NOW"}}], session=session))
    if not rows:
        raise SystemNotReady("the store's data are gone: run `sluicegate migrate`")
    now: datetime = rows[0]["now"]
    return now


def until(now: datetime, lease: timedelta) -> datetime:
    """The end of a lease, cut to the milliseconds that BSON keeps."""
    end = now + lease
    return end.replace(microsecond=end.microsecond // 1000 * 1000)
