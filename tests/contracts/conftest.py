"""`store` is each backend in turn; `store_url` opens more handles on the same data, from here or from another
process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from tests.conftest import missing
from tests.contracts.given import opened
from tests.contracts.stepping import Stepped
from tests.servers import Program, Server, Unavailable
from tests.servers.shared import own_folder
from tests.servers.valkey_sets import cluster, cluster_url

SERVERS = {
    "redis": "redis_url",
    "redis-cluster": "redis_cluster_url",
    "mongodb": "mongodb_url",
    "postgresql": "postgres_url",
    "mariadb": "mariadb_url",
}
"""Backends on the run's servers, and the fixture that has the URL."""
SHARED_BETWEEN_PROCESSES = ("sqlite", *SERVERS)


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> Stepped:
    made = Stepped()
    made.take_over(monkeypatch)
    return made


@pytest.fixture(params=["memory", *SHARED_BETWEEN_PROCESSES])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def redis_cluster_url() -> Iterator[str]:
    """Three primaries, each with a third of the keys."""
    made: list[Server] = []

    def start(kind: Callable[..., Program], **settings: Any) -> Server:
        made.append(Server(kind(**settings), own_folder()))
        return made[-1].start()

    try:
        yield cluster_url(cluster(start))
    except Unavailable as error:
        missing(error)
    finally:
        for server in made:
            server.destroy()


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    if backend in SERVERS:
        return request.getfixturevalue(SERVERS[backend])
    return f"sqlite:///{tmp_path}/state.db" if backend == "sqlite" else f"memory://{ns}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    made = opened(store_url)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests open many handles on SQL servers; their connections end with the test."""
    made: list[SqlStore] = []
    begin = SqlStore.__init__

    def init(self: SqlStore, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        made.append(self)

    monkeypatch.setattr(SqlStore, "__init__", init)
    yield
    for store in made:
        store.close()


@pytest.fixture
def partition(ns: str) -> Partition:
    return Partition(ns, "agent", "topic.x", 3)
