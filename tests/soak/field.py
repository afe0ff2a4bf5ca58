"""What a soak runs on: brokers, a store, three workers, and a proxy on each way between a worker and the others."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sluicegate.connectors import open_store
from tests.chaos.ledger import Ledger
from tests.chaos.scene import Scene
from tests.conftest import create_topic
from tests.servers import Mariadb, MongoDB, Postgres, Program, Proxy, Server, Valkey
from tests.servers.cluster import Cluster
from tests.servers.disk import Disk
from tests.soak.crew import Crew
from tests.soak.plan import SESSION, WORKERS

PARTITIONS = 4
TOPICS = {"in": PARTITIONS, "out": 3, "paid": 2, "dead": 1, "book-dead": 1, "totals": 1}
PROGRAMS: dict[str, type[Program]] = {"redis": Valkey, "postgresql": Postgres, "mariadb": Mariadb, "mongodb": MongoDB}
NAME = "soak"
KAFKA = {"reconnect.backoff.max.ms": 500, "session.timeout.ms": int(SESSION * 1000), "heartbeat.interval.ms": 500}


@dataclass(frozen=True)
class Setting:
    """`store` is sqlite or one of PROGRAMS; `pause` is how long the feed waits after each ten records, `pace` the
    seconds from one fault to the next; `twin` names protections to take out; a `calm` run has load and no fault; the
    first worker has the `failpoint`."""

    store: str = "redis"
    seconds: float = 90.0
    seed: int = 1
    brokers: int = 1
    pause: float = 0.04
    pace: float = 1.1
    twin: str = ""
    calm: bool = False
    failpoint: str = ""


class Field:
    """`close` ends and removes everything."""

    def __init__(self, setting: Setting, root: Path) -> None:
        self.setting = setting
        self._opened = ExitStack()
        self.disk: Disk | None = None
        try:
            self._open(setting, root)
        except BaseException:
            self._opened.close()
            raise

    def _open(self, setting: Setting, root: Path) -> None:
        opened = self._opened
        self.cluster = Cluster(root, setting.brokers, WORKERS)
        opened.callback(self.cluster.close)
        self.cluster.start()
        self.store: Server | None = None
        (root / "state").mkdir()
        url = f"sqlite:///{root}/state/state.db"
        if setting.store in PROGRAMS:
            self.store = Server(PROGRAMS[setting.store](), root / "store")
            opened.callback(self.store.destroy)
            url = self.store.start().url
        self.store_ways = [Proxy.before(url) for _ in range(WORKERS)] if self.store else []
        for way in self.store_ways:
            opened.callback(way.close)
        self.scene = self._scene(url, root)
        opened.callback(self.scene.close)
        self.crew = Crew(self.scene, self._address, setting.twin, setting.failpoint, self._enter)
        opened.callback(self.crew.close)

    def _scene(self, url: str, root: Path) -> Scene:
        app, self.ledger = scene(self.setting, self.cluster.url, url, root)
        return app

    def _enter(self) -> None:
        """Each worker begins with it."""
        if self.disk is not None:
            self.disk.enter()

    def _address(self, number: int) -> tuple[str, str]:
        url = self.scene.store
        if self.store_ways:
            parts = urlsplit(url)
            user = f"{parts.username}@" if parts.username else ""
            url = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{self.store_ways[number].port}"))
        return url, self.cluster.bootstrap(number)

    def link(self, target: str) -> Sequence[Proxy]:
        """The proxies of `broker-link-N` or `store-link-N`."""
        what, _, number = target.rpartition("-")
        return self.cluster.ways[int(number)] if what == "broker-link" else [self.store_ways[int(number)]]

    def links(self) -> Sequence[Proxy]:
        return [proxy for way in self.cluster.ways for proxy in way] + self.store_ways

    def on_link(self, target: str, action: Callable[[Proxy], object]) -> None:
        for proxy in self.link(target):
            action(proxy)

    def close(self) -> None:
        self._opened.close()


def scene(setting: Setting, bootstrap: str, url: str, root: Path) -> tuple[Scene, Ledger]:
    """Groups of the input, and a handler that books each group in the store and says so in a topic of its own."""
    for topic, partitions in TOPICS.items():
        create_topic(bootstrap, f"{NAME}.{topic}", partitions, {}, 3 if setting.brokers > 1 else 1)
    store = open_store(url)
    store.migrate()
    store.close()
    app = Scene(NAME, root, bootstrap, url, PARTITIONS, collect=True, kafka=KAFKA, pause=setting.pause)
    for topic in ("paid", "book-dead"):
        app.tap.follow(f"{NAME}.{topic}")
    app.between.append("out")
    sums: dict[str, Any] = app.spec["agents"]["sums"]
    sums["aggregate"]["compute"]["v"] = {"sum": "v"}
    ledger = Ledger(
        app, ["book"], {"retry": {"attempts": 5, "backoff": "50ms..1s"}, "dead_letters": f"{NAME}.book-dead"}
    )
    book = app.spec["agents"]["sums"] | {"from": f"{NAME}.out", "to": {"topic": f"{NAME}.paid"}}
    app.spec["agents"] = {"sums": sums, "book": book}
    return app, ledger
