"""`place` is where one test's outbox lies on each backend in turn, empty at the start: lanes belong to the whole store,
so nobody else's rows may be there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.conftest import SERVERS
from tests.contracts.outbox.given import Place, Store, emptied
from tests.contracts.own import own_url


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    url = own_url("outbox", backend, request, tmp_path, ns)
    if backend in SERVERS:
        emptied(url)
    return url


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url)
    yield made
    made.close()


@pytest.fixture
def store(place: Place) -> Store:
    """With 10 attempts and back-offs of a minute."""
    return place.store()
