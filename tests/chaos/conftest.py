"""`scene(store=..., **options)`: a scenario of the test's own on the run's broker; `ledger(...)`: one whose agent is a
handler of payments; `store_url(kind)`: a store that is not shared."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors import open_store
from tests.chaos.ledger import PAUSE, Ledger, of_a_payment
from tests.chaos.scene import Scene

TOPICS = {"out": 2, "dead": 1, "totals": 1}


SERVERS = {"redis": "redis_url", "postgresql": "postgres_url", "mariadb": "mariadb_url", "mongodb": "mongodb_url"}


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    def make(kind: str) -> str:
        """`kind` may be a URL."""
        local = {"sqlite": f"sqlite:///{tmp_path}/state.db"}
        url = kind if "://" in kind else local.get(kind) or str(request.getfixturevalue(SERVERS[kind]))
        store = open_store(url)
        store.migrate()
        store.close()
        return url

    return make


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    ns: str,
    make_topic: Callable[..., str],
    store_url: Callable[[str], str],
) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(store: str = "sqlite", partitions: int = 2, bootstrap: str = "", **options: Any) -> Scene:
        """`store` is a kind or a URL."""
        name = f"{ns}{len(made) or ''}"
        bootstrap = bootstrap or str(request.getfixturevalue("kafka"))
        for topic, count in (("in", partitions), *TOPICS.items()):
            make_topic(f"{name}.{topic}", count, bootstrap)
        folder = tmp_path / name
        folder.mkdir()
        made.append(Scene(name, folder, bootstrap, store_url(store), partitions, **options))
        return made[-1]

    yield make
    for app in made:
        print(app.tail())
        app.close()


@pytest.fixture
def ledger(scene: Callable[..., Scene]) -> Callable[..., Ledger]:
    def make(store: str, *handlers: str, kafka: dict[str, Any] | None = None, **agent: Any) -> Ledger:
        """`agent` are further keys of the agent in the file; `handlers` are `book` unless named."""
        app = scene(store, kafka=kafka, effect=of_a_payment(2), pause=PAUSE)
        return Ledger(app, handlers or ("book",), agent)

    return make
