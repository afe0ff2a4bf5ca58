"""What the console needs of the surroundings. The room that joins the connectors makes it."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.errors import PersistenceError, SystemNotReady
from sluicegate.streams.operations.dead.dead_changes import LetterTopics

PATIENCE = 10.0  # seconds that a question waits for the store while others use it


class ConsoleSystems(Protocol):
    """The systems of one app."""

    def open_store(self, app: App) -> Store:
        """Raises ConfigurationError for a store that no other process can reach, and what `open_store` raises."""

    def open_topics(self, app: App) -> LetterTopics:
        """Raises ConfigurationError for a broker that no other process can reach."""

    def open_outputs(self, app: App, agent: Agent) -> AbstractContextManager[OutputFacts | None]:
        """What describes the topics of an agent with `history`; None where it is not needed."""


class StoreDesk:
    """Lends the console's store to one question at a time. After an error of the store it is opened again."""

    def __init__(self, app: App, systems: ConsoleSystems) -> None:
        self.app = app
        self.systems = systems
        self._lock = threading.Lock()
        self._store: Store | None = None

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Raises SystemNotReady while others use it for PATIENCE, and what `open_store` raises."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise SystemNotReady("the console is busy: another question is still reading the store")
        try:
            if self._store is None:
                self._store = self.systems.open_store(self.app)
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
