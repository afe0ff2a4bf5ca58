"""Timeouts, and stores of them whose leases a test can see the end of."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sluicegate.connectors import open_store
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.options import LeasedOptions, TimeoutOptions
from tests.waiting import wait_until

MINUTES = timedelta(minutes=5)
SHORT = timedelta(milliseconds=400)


class Clock:
    """Of the stores in this process: it stands still unless a test moves it."""

    def __init__(self) -> None:
        self.now = float(int(time.time()))

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    """Where the timeouts of one test lie: memory and a file with the test's clock, servers with their own."""

    url: str
    clock: Clock = field(default_factory=Clock)
    opened: list[Any] = field(default_factory=list)

    @property
    def is_ours(self) -> bool:
        """Is the clock the test's?"""
        return self.url.startswith(("memory:", "sqlite:"))

    def store(self, lease: timedelta = MINUTES, batch_size: int = 500) -> Any:
        """One more handle on the same data."""
        options = LeasedOptions(timeouts=TimeoutOptions(lease, batch_size))
        made: Any
        if self.url.startswith("memory:"):
            made = self._memory(options)
        elif self.url.startswith("sqlite:"):
            made = SqlStore(Sqlite(Path(self.url.removeprefix("sqlite:///")), clock=self.clock), options=options)
        else:
            made = open_store(self.url, options=options)
        made.migrate()
        self.opened.append(made)
        return made

    def _memory(self, options: LeasedOptions) -> MemoryStore:
        if not self.opened:
            return MemoryStore(clock=self.clock, options=options)
        again = copy(self.opened[0])  # the same rows under other options
        again.timeouts = copy(self.opened[0].timeouts)
        again.timeouts._options = options.timeouts
        return again

    def timeouts(self, lease: timedelta = MINUTES, batch_size: int = 500) -> TimeoutStore:
        made: TimeoutStore = self.store(lease, batch_size).timeouts
        return made

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now if self.is_ours else time.time(), UTC)

    def until(self, when: datetime | None) -> None:
        """Let the time come, and a little more."""
        assert when is not None
        if self.is_ours:
            self.clock.now = max(self.clock.now, when.timestamp() + 0.01)
        wait_until(lambda: self.now() > when + timedelta(milliseconds=5), what=f"{when}")

    def due(self, seconds_ago: float = 60, **fields: Any) -> Timeout:
        """Due so long ago, in whole milliseconds: the least that any store keeps."""
        at = self.now() - timedelta(seconds=seconds_ago)
        standard = {
            "id": uuid4(),
            "destination": f"topic.{uuid4().hex}",
            "due_at": at.replace(microsecond=at.microsecond // 1000 * 1000),
        }
        return Timeout(**{**standard, **fields})

    def later(self, seconds: float = 3600, **fields: Any) -> Timeout:
        return self.due(-seconds, **fields)

    def close(self) -> None:
        for handle in self.opened:
            handle.close()


def ids(timeouts: Any) -> list[UUID]:
    return [timeout.id for timeout in timeouts]


def emptied(timeouts: TimeoutStore) -> None:
    """Of what earlier tests left on a server."""
    while rest := timeouts.find(limit=10_000):
        for item in rest:
            timeouts.cancel(item.id)


def error_of(action: Callable[[], object]) -> type[Exception] | None:
    try:
        action()
    except Exception as error:
        return type(error)
    return None
