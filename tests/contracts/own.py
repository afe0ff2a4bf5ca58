"""Where the tests of a leased contract find a store that is their own: lanes and due timeouts belong to the whole of
one."""

import os
import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.contracts.conftest import SERVERS
from tests.contracts.sql import database

_OWN: dict[tuple[str, str], str] = {}
"""URLs of this process' own databases on the run's servers, by suite and backend."""


def own_url(suite: str, backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    """On a server one for all tests of the suite in this process, else the test's own."""
    if backend not in SERVERS:
        return f"sqlite:///{tmp_path}/state.db" if backend == "sqlite" else f"memory://{ns}"
    url = request.getfixturevalue(SERVERS[backend])
    if (suite, backend) not in _OWN:
        _OWN[suite, backend] = made_url(suite, backend, url)
    return _OWN[suite, backend]


def made_url(suite: str, backend: str, url: str) -> str:
    """A database of its own on the server of `url`."""
    name = f"{suite}_{uuid.uuid4().hex[:12]}"
    if backend in ("postgresql", "mariadb"):
        return database(url, name)
    parts = urlsplit(url)
    if backend == "mongodb":
        return urlunsplit(parts._replace(path=f"/{name}"))
    # One of the server's sixteen for each process of a run; a cluster has one, and is this process' own.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return url if backend == "redis-cluster" else urlunsplit(parts._replace(path=f"/{1 + worker % 15}"))
