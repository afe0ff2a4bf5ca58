"""Waits for new rows with a change stream, where the deployment and the user's rights allow one."""

import threading
import time

from pymongo.change_stream import CollectionChangeStream
from pymongo.collection import Collection
from pymongo.errors import PyMongoError

from sluicegate.connectors.mongodb.connection import Document

_ASK_MS = 100
"""How long the server may hold one request. A `wait` takes at most so much longer."""
_ADDED: list[Document] = [
    {"$match": {"operationType": "insert", "fullDocument.numbered": False}},
    {"$project": {"_id": 1}},
]


class Wakeups:
    """The stream stays open between two calls, so that rows that are added between them are not missed."""

    def __init__(self, rows: Collection[Document]) -> None:
        self._rows = rows
        self._stream: CollectionChangeStream[Document] | None = None
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        """True: a row was added since the last call. False: none was added within that time, or it is unknown."""
        until = time.monotonic() + seconds
        if not self._lock.acquire(timeout=max(0.0, seconds)):
            return False
        try:
            return self._take_notice(until)
        except PyMongoError:
            self._stream = None
            return False
        finally:
            self._lock.release()

    def _take_notice(self, until: float) -> bool:
        if self._stream is None:
            self._stream = self._rows.watch(_ADDED, max_await_time_ms=_ASK_MS)
        while self._stream.try_next() is None:
            if time.monotonic() >= until:
                return False
        # This call reports all rows that the stream holds now. The next call reports later ones.
        self._stream.close()
        self._stream = self._rows.watch(_ADDED, max_await_time_ms=_ASK_MS)
        return True
