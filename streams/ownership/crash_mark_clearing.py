"""Clears the names of this process from crash marks, because the process did not crash."""

import structlog

from sluicegate.streams.contracts.stores import CrashMarkStore
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import SluicegateError

AGAIN = 1.0  # seconds until a call that failed is repeated


class CrashMarkClearing:
    """The requests that the store has not acknowledged yet."""

    def __init__(self, store: CrashMarkStore) -> None:
        self._store = store
        self._waiting: list[tuple[Partition, str, tuple[str, ...]]] = []
        self._at = 0.0
        self._log = structlog.get_logger()

    def add(self, partition: Partition, token: str, names: tuple[str, ...], now: float) -> None:
        """Clear these names now, or with a later `settle` if the store fails. `token` belongs to the last claim of this
        process. Without names, only remove the owner of the partition."""
        self._waiting.append((partition, token, names))
        self._at = now
        self.settle(now)

    def settle(self, now: float) -> None:
        while self._waiting and now >= self._at:
            where, token, names = self._waiting[0]
            try:
                self._store.clear_crash_mark(where, token, names)
            except SluicegateError as error:
                self._log.debug(
                    "partition.crash_mark_not_cleared", topic=where.topic, partition=where.number, error=str(error)
                )
                self._at = now + AGAIN
                return
            del self._waiting[0]
