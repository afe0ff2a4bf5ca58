"""Being told by PostgreSQL that rows were added."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from sluicegate.connectors.sql.outbox_rows import CHANNEL


class Listener:
    """A connection of its own, made by the first call; a proxy that shares connections out loses what it is told: poll,
    too."""

    def __init__(self, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._connect = connect
        self._held: psycopg.Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        """False after that long, and at once when the connection fails."""
        with self._lock:
            try:
                return self._told(seconds)
            except psycopg.Error:
                self.close()
                return False

    def _told(self, seconds: float) -> bool:
        if self._held is None:
            self._held = self._connect()
            self._held.execute(f"listen {CHANNEL}")
        return bool(list(self._held.notifies(timeout=seconds, stop_after=1)))

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            with suppress(psycopg.Error):
                held.close()
