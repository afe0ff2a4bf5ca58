"""Stores to test leased contracts with: decoders that a test may change, and a clock that it may move."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from sluicegate.connectors import open_store
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.contracts.leased_values import Types
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions
from tests.waiting import wait_until

FIVE_MINUTES = timedelta(minutes=5)
SHORT = timedelta(milliseconds=150)
"""Of a lease that a test lets run out."""
WHILE = timedelta(seconds=2)
"""Of a lease that lives through some calls on a busy machine, and is then let run out."""


class Clock(Protocol):
    def passed(self, time: timedelta) -> None:
        """So much later, by the store's clock."""

    def now(self) -> datetime: ...


class Injected:
    """For memory and SQLite: it stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def passed(self, time: timedelta) -> None:
        self.seconds += time.total_seconds() + 0.001

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


class Real:
    """For servers, which are on this machine."""

    def passed(self, time_: timedelta) -> None:
        end = time.monotonic() + time_.total_seconds() + 0.02
        wait_until(lambda: time.monotonic() >= end, time_.total_seconds() + 10, "the time")

    def now(self) -> datetime:
        return datetime.now(UTC)


def clock_of(backend: str) -> Clock:
    return Injected() if backend in ("memory", "sqlite") else Real()


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """`json` and `text` have a decoder; whatever else has none until the test adds one."""
    return {"json": json.loads, "text": bytes.decode}


def leased_store(url: str, clock: Clock, types: Types | None, outbox: OutboxOptions | None = None) -> Any:
    """The store behind the URL, migrated, on this clock where it may be given one. Each call makes another handle;
    those of a memory store have nothing in common."""
    options = LeasedOptions(types=types, outbox=outbox or OutboxOptions())
    made: Any
    if isinstance(clock, Injected) and url.startswith("memory:"):
        made = MemoryStore(clock, options=options)
    elif isinstance(clock, Injected):
        made = SqlStore(Sqlite(Path(url.removeprefix("sqlite:///")), clock), options=options)
    else:
        made = open_store(url, options=options)
    made.migrate()
    return made


def near(left: datetime | None, right: datetime, most: timedelta = timedelta(seconds=5)) -> bool:
    """Equal, but for the time that the calls took."""
    return left is not None and abs(left - right) <= most


def closing(stores: list[Any]) -> Iterator[None]:
    yield
    for store in stores:
        store.close()
