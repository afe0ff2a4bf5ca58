"""`store`, `buffer`: each backend in turn, opened with `types`; `another` opens more handles on the same data."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contracts.leasing import Clock, clock_of, decoders, leased_store


@pytest.fixture
def clock(backend: str) -> Clock:
    return clock_of(backend)


@pytest.fixture
def types() -> dict[str, Callable[[bytes], Any]]:
    """What the store decodes with; a test may change it while the store is open."""
    return decoders()


@pytest.fixture
def store(store_url: str, clock: Clock, types: dict[str, Callable[[bytes], Any]]) -> Iterator[Any]:
    made = leased_store(store_url, clock, types)
    yield made
    made.close()


@pytest.fixture
def another(
    backend: str, store: Any, store_url: str, clock: Clock, types: dict[str, Callable[[bytes], Any]]
) -> Iterator[Callable[[], Any]]:
    """Opens one more handle on the data of `store`; in memory it is the same one."""
    made: list[Any] = []

    def open_another() -> Any:
        if backend == "memory":
            return store
        made.append(leased_store(store_url, clock, types))
        return made[-1]

    yield open_another
    for case in made:
        case.close()


@pytest.fixture
def untyped(store_url: str, clock: Clock) -> Iterator[Any]:
    """The store opened without types."""
    made = leased_store(store_url, clock, None)
    yield made
    made.close()


@pytest.fixture
def buffer(store: Any) -> Any:
    return store.buffer
