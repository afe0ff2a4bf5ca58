"""`store` is one test's own on each backend in turn, with nobody else's rows: lanes belong to the whole store."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions, TimeoutOptions
from tests.contracts.outbox.conftest import store_url
from tests.contracts.timeouts.given import emptied

__all__ = ["store_url"]

LANES = 2
"""The keys `k` and `other` are in different ones; each claim of a lane is a transaction."""
OPTIONS = LeasedOptions(
    timeouts=TimeoutOptions(timedelta(seconds=30)),
    outbox=OutboxOptions(3, timedelta(milliseconds=50), timedelta(milliseconds=100)),
)


@pytest.fixture
def handle(store_url: str) -> Iterator[Callable[[], Any]]:
    """`handle()`: one more on the same data, as another process has it (in memory: the same)."""
    made: list[Any] = []

    def opened() -> Any:
        store: Any = open_store(store_url, options=OPTIONS)
        store.migrate()
        made.append(store)
        return store

    yield opened
    for case in made:
        case.close()


@pytest.fixture
def store(handle: Callable[[], Any]) -> Any:
    """With 3 attempts and back-offs of 50 to 100 ms."""
    made = handle()
    emptied(made.timeouts)
    made.outbox.set_lanes(LANES)
    return made
