"""PostgreSQL notifies listeners when rows are added to the outbox."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from sluicegate.connectors.sql.database import Waiter
from sluicegate.connectors.sql.leased.outbox_rows import CHANNEL


class Listener(Waiter):
    """Listens on a connection of its own, which the first call opens. A connection pooler in transaction mode loses
    notifications, so callers must poll, too."""

    def __init__(self, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        """Whether a notification came within `seconds`. False at once when the connection fails."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    self._connection.execute(f"listen {CHANNEL}")
                return bool(list(self._connection.notifies(timeout=seconds, stop_after=1)))
            except psycopg.Error:
                self.close()
                return False

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
