"""`place` is where one test's outbox lies on each backend in turn, empty at the start: lanes belong to the whole store, so nobody
else's rows may be there."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.contracts.conftest import SERVERS
from tests.contracts.outbox.given import Place, Store, emptied
from tests.contracts.sql import database

OWN: dict[str, str] = {}
"""URLs of this process' own databases on the run's servers."""


def own(backend: str, url: str) -> str:
    name = "outbox_" + uuid.uuid4().hex[:12]
    if backend in ("postgresql", "mariadb"):
        return database(url, name)
    parts = urlsplit(url)
    if backend == "mongodb":
        return urlunsplit(parts._replace(path=f"/{name}"))
    # One of the server's sixteen for each process of a run; a cluster has one, and is this process' own.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return url if backend == "redis-cluster" else urlunsplit(parts._replace(path=f"/{1 + worker % 15}"))


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    if backend not in SERVERS:
        return f"sqlite:///{tmp_path}/state.db" if backend == "sqlite" else f"memory://{ns}"
    url = request.getfixturevalue(SERVERS[backend])
    if backend not in OWN:
        OWN[backend] = own(backend, url)
    emptied(OWN[backend])
    return OWN[backend]


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url)
    yield made
    made.close()


@pytest.fixture
def store(place: Place) -> Store:
    """With 10 attempts and back-offs of a minute."""
    return place.store()
