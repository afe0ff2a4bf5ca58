"""`place` is where one test's timeouts lie on each backend in turn: nobody else's are there, since a poll takes
whatever is due."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from tests.contracts.own import own_url
from tests.contracts.timeouts.given import Place, emptied


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    return own_url("timeouts", backend, request, tmp_path, ns)


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url)
    try:
        emptied(made.timeouts())
        yield made
    finally:
        made.close()


@pytest.fixture
def timeouts(place: Place) -> TimeoutStore:
    """With leases of five minutes and batches of 500."""
    return place.timeouts()
