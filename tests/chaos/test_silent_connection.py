"""The network of a run goes silent without an error: what it does not hear is no silence of the partition.

The run reaches its broker through a proxy that swallows all bytes. The store stays within its reach. Session timeout
and `idle` are the defaults, where a test does not say otherwise.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from tests.chaos.record import Seen
from tests.chaos.tap import Tap
from tests.chaos.worker import Worker
from tests.servers.cluster import Cluster
from tests.servers.shared import own_folder
from tests.waiting import wait_until

SHOP = {
    "settle": {
        "correlate": {
            "legs": {"order": {"from": "orders", "key": "id"}, "payment": {"from": "payments", "key": "id"}},
            "timeout": "12s",
        },
        "to": [{"topic": "unpaid", "where": "has(order) && !has(payment)"}, {"topic": "settled"}],
    }
}
WINDOWS = {
    "sums": {
        "from": "orders",
        "aggregate": {
            "window": {"tumbling": "1h", "time": {"field": "t", "unit": "s"}},
            "compute": {"orders": "count"},
        },
        "to": {"topic": "settled"},
    }
}
STORES = ["sqlite", pytest.param("redis", id="redis"), pytest.param("postgresql", id="postgresql")]


class Shop:
    """An app, its broker, and one way to the broker that can go silent."""

    def __init__(self, cluster: Cluster, folder: Path, store: str, agents: dict[str, Any]) -> None:
        self.cluster, self.folder, self.store, self.agents = cluster, folder, store, agents
        self.workers: list[Worker] = []
        self.tap = Tap(cluster.url, ["unpaid", "settled", "dead"])
        self._producer: Any = Producer({"bootstrap.servers": cluster.url, "linger.ms": 0, "log_level": 0})

    def run(self, name: str, bootstrap: str, without: str = "") -> Worker:
        spec = {
            "app": "shop",
            "kafka": {"bootstrap.servers": bootstrap},
            "store": self.store,
            "http": {"port": 0},
            "start_timeout": "30s",
            "dead_letters": "dead",
            "outbox": False,
            "timeouts": False,
            "agents": self.agents,
        }
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(spec))
        self.workers.append(Worker(file, "", name, without=without))
        return self.workers[-1]

    def send(self, topic: str, id: str, **more: Any) -> float:
        """Returns the time at which the record was in the log."""
        self._producer.produce(topic, json.dumps({"id": id, **more}).encode(), b"k")
        assert self._producer.flush(20) == 0
        return time.monotonic()

    def came(self, topic: str) -> list[dict[str, Any]]:
        self.tap.draw()
        return [json.loads(message.value or b"null") for message in self.tap.seen(topic)]

    def late(self) -> list[Seen]:
        self.tap.finish()
        return [message for message in self.tap.seen("dead") if message.headers["sluicegate-dead-reason"] == "late"]

    def close(self) -> None:
        for worker in self.workers:
            print(worker.tail())
            worker.close()
        self.tap.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(own_folder(), ways=1)
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def shop(
    cluster: Cluster, tmp_path: Path, make_topic: Callable[..., str], store_url: Callable[[str], str]
) -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def make(store: str, agents: dict[str, Any]) -> Shop:
        for topic in ("orders", "payments", "unpaid", "settled", "dead"):
            make_topic(topic, 1, cluster.url)
        made.append(Shop(cluster, tmp_path, store_url(store), agents))
        return made[-1]

    yield make
    for case in made:
        case.close()


def until(begin: float, seconds: float) -> None:
    time.sleep(max(0.0, begin + seconds - time.monotonic()))


def silent(shop: Shop, swallows: bool) -> None:
    for proxies in shop.cluster.ways:
        for proxy in proxies:
            if swallows:
                proxy.swallow()
            else:
                proxy.release()
                proxy.reset()


def results(shop: Shop, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {document["key"]: document for document in shop.came("settled") if document["key"] in ids}


@pytest.mark.parametrize("store", STORES)
def test_an_order_that_is_paid_in_time_is_not_called_unpaid(shop: Callable[..., Shop], store: str) -> None:
    app = shop(store, SHOP)
    app.run("cut", app.cluster.bootstrap(0))
    app.send("orders", "first")
    app.send("payments", "first")
    wait_until(lambda: app.came("settled"), 60, "the first result", pause=0.1)
    app.send("orders", "o-1")
    begin = app.send("payments", "other")
    until(begin, 7)
    silent(app, True)
    app.run("whole", app.cluster.url)
    until(begin, 9)
    app.send("payments", "o-1")
    for second in range(10, 45):  # the orders go on
        until(begin, second)
        app.send("orders", f"later-{second}")
    wait_until(lambda: "o-1" in results(app, ["o-1"]), 60, "the paid order", pause=0.2)
    assert results(app, ["o-1"])["o-1"]["reason"] == "until"
    assert [document["key"] for document in app.came("unpaid") if document["key"] == "o-1"] == []
    assert app.late() == []


@pytest.mark.parametrize(
    ("idle", "silence", "hole"), [("3s", 1.0, 9.0), pytest.param("1m", 54.0, 8.0, id="1m")], ids=["3s", "1m"]
)
def test_a_window_is_not_closed_by_what_its_owner_does_not_hear(
    shop: Callable[..., Shop], idle: str, silence: float, hole: float
) -> None:
    app = windows(shop, idle, silence, hole)
    assert len(app.came("settled")) == 1
    silent(app, False)
    wait_until(lambda: len(app.came("settled")) > 1, 90, "the window", pause=0.2)
    [_, window] = app.came("settled")
    assert (window["orders"], window["window"]["closed_by"]) == (3, "idle")
    assert app.late() == []


def test_twin_that_believes_what_the_broker_said_before(shop: Callable[..., Shop]) -> None:
    app = windows(shop, "3s", 1.0, 9.0, "asked-end")
    silent(app, False)
    wait_until(app.late, 90, "the late record", pause=0.2)


def windows(shop: Callable[..., Shop], idle: str, silence: float, hole: float, without: str = "") -> Shop:
    """A record comes in time while the network is silent, after so many seconds of true silence."""
    app = shop("sqlite", WINDOWS)
    app.agents["sums"]["aggregate"]["window"]["idle"] = idle
    app.run("cut", app.cluster.bootstrap(0), without)
    app.send("orders", "a", t=1_000)
    app.send("orders", "a", t=9_000)
    wait_until(lambda: app.came("settled"), 60, "the first window", pause=0.1)
    begin = app.send("orders", "a", t=9_001)
    until(begin, silence)
    silent(app, True)
    until(begin, silence + 1)
    app.send("orders", "a", t=9_002)
    until(begin, silence + hole)
    return app
