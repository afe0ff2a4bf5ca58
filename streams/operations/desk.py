"""The store of the HTTP port. Its calls use the store one after the other."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import PersistenceError, SystemNotReady

PATIENCE = 10.0  # seconds that a question waits for the store while others use it


class StoreDesk:
    """Lends a store to one question at a time. The first question opens the store. After an error of the store, the
    next question opens it again."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._store: Store | None = None

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store. Raises SystemNotReady while others use it for PATIENCE seconds, and the errors of `open_store`."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise SystemNotReady("the store is busy: another question is still reading it")
        try:
            if self._store is None:
                self._store = self._open_store()
            yield self._store
        except (PersistenceError, SystemNotReady):
            self._close()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
