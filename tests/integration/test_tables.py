"""A compacted topic as a table, on a real broker: workers are killed while rows change, and the topic is made anew."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from sluicegate.connectors.kafka.admin import existing
from sluicegate.connectors.kafka.probe import ApartSource
from sluicegate.connectors.kafka.table import KafkaTable
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_avro import command
from tests.mutation import twins
from tests.waiting import wait_until

ROWS, ORDERS = 20_000, 4_000
FILE = """\
app: NS
# Small queues make a worker that does not wait for its table slow to have it.
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000, queued.min.messages: 1, queued.max.messages.kbytes: 1}
store: sqlite:///state.db
dead_letters: NS-dead
http: {port: 0}
agents:
  price:
    from: NS-in
    lookup: {item: {topic: NS-items, key: sku, fields: [price]}}
    to: {topic: NS-out}
"""


class Shop:
    """Rows, orders, and what comes out of them."""

    def __init__(self, kafka: str, ns: str, folder: Path) -> None:
        self.kafka, self.ns = kafka, ns
        self.admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
        self.make_items(3)
        self.path = folder / "shop.yaml"
        self.path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka))
        self.feed = Producer(
            {"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0, "batch.num.messages": 100}
        )
        self.reader: Consumer = reader(kafka, f"{ns}-out")
        self.found: dict[int, Any] = {}
        self.sent = 0
        self.runs: list[Run] = []

    def make_items(self, partitions: int) -> None:
        topic = NewTopic(f"{self.ns}-items", partitions, 1, config={"cleanup.policy": "compact"})
        self.admin.create_topics([topic])[f"{self.ns}-items"].result(30)
        there = lambda: existing({"bootstrap.servers": self.kafka}, [topic.topic])[topic.topic]  # noqa: E731
        wait_until(there, 30, "the topic")

    def rows(self, price: int, count: int = ROWS) -> None:
        for number in range(count):
            self.feed.produce(f"{self.ns}-items", b'{"price": %d, "name": "n"}' % price, b"p-%d" % number)
            self.feed.poll(0)
        assert self.feed.flush(60) == 0

    def orders(self, count: int, most: int = ROWS) -> None:
        for _ in range(count):
            value = {"id": self.sent, "sku": f"p-{self.sent * 7 % most}"}
            self.feed.produce(f"{self.ns}-in", json.dumps(value).encode(), b"k%d" % (self.sent % 50))
            self.sent += 1
        assert self.feed.flush(60) == 0

    def start(self) -> Run:
        self.runs.append(Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(self.path)))
        return self.runs[-1]

    def came(self) -> int:
        for message in self.reader.consume(5_000, 0.2):
            value = json.loads(message.value())
            self.found.setdefault(value["id"], (value["item"] or {}).get("price"))
        return len(self.found)

    def all_came(self, seconds: float = 90.0) -> list[Any]:
        wait_until(lambda: self.came() >= self.sent, seconds, "an output of each order")
        return [self.found[number] for number in range(self.sent)]

    def close(self) -> None:
        for run in self.runs:
            run.close()
            print(*run.lines[-10:], *run.noise[-10:], sep="\n")
        self.reader.close()


@pytest.fixture
def shop(kafka: str, ns: str, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(kafka, ns, tmp_path)
    yield made
    made.close()


def killed_twice(shop: Shop) -> list[Any]:
    """The prices of all orders. The worker is killed, and starts again, while it reads them."""
    shop.rows(1)
    shop.orders(ORDERS)
    run = shop.start()
    for times in (1, 2):
        wait_until(lambda wanted=shop.sent - ORDERS // 2: shop.came() >= wanted, 90, "some outputs")
        os.kill(run.pids(times)[-1], signal.SIGKILL)
        shop.orders(ORDERS)
        run.wait("table.ready", times + 1, 60)
    return shop.all_came()


def test_a_key_that_was_there_at_the_start_is_never_missing(shop: Shop) -> None:
    assert set(killed_twice(shop)) == {1}


def test_twin_that_is_ready_before_the_end_misses_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("table-ready-early", log).items():
        monkeypatch.setenv(name, value)
    shop.rows(1)
    shop.orders(ORDERS)
    run = shop.start()
    assert None in shop.all_came()
    twins.check("table-ready-early", log, [run.process.pid, *(line["pid"] for line in run.events("worker.started"))])


def test_changes_and_tombstones_are_followed(shop: Shop) -> None:
    shop.rows(1, 10)
    run = shop.start()
    run.wait("table.ready", 1, 60)
    shop.orders(10, 10)
    assert set(shop.all_came()) == {1}
    shop.rows(2, 10)
    shop.feed.produce(f"{shop.ns}-items", None, b"p-0")
    assert shop.feed.flush(20) == 0

    def rows() -> list[str]:
        lines = run.get("/metrics")[1].splitlines()
        return [line.rpartition(" ")[2] for line in lines if line.startswith("sluicegate_table_rows{")]

    wait_until(lambda: rows() in (["9"], ["9.0"]), 30, "the rows")
    shop.orders(10, 10)
    prices = shop.all_came()[10:]
    assert sorted(prices, key=str) == [*[2] * 9, None]


def test_topics_makes_it_compacted_and_check_warns_of_one_that_is_not(shop: Shop) -> None:
    name = f"{shop.ns}-items"

    def said(*words: str) -> str:
        done = subprocess.run(command(*words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    check = ("check", str(shop.path), "--connect")
    assert f"topic {name} is looked up: it is compacted" in said(*check)
    shop.admin.delete_topics([name])[name].result(30)
    wait_until(lambda: name not in shop.admin.list_topics(timeout=5).topics, 30, "the end of the topic")
    said("topics", str(shop.path), "--create")
    assert f"topic {name} is looked up: it is compacted" in said(*check)
    plain = ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"cleanup.policy": "delete"})
    shop.admin.alter_configs([plain])[plain].result(30)
    wait_until(lambda: f"topic {name} is looked up: it is not compacted" in said(*check), 30, "the warning")
    assert "set cleanup.policy to compact" in said(*check)


def test_a_topic_that_is_made_anew_is_read_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.connectors.kafka.table.LOOK_EVERY", 0.2)
    shop.rows(1, 10)
    feed = KafkaTable({"bootstrap.servers": shop.kafka}, f"{shop.ns}-items")
    try:
        findings: list[Any] = []
        wait_until(lambda: findings.extend(feed.take()) or feed.complete, 30, "the end")
        assert (len(findings), feed.lag()) == (10, 0)
        shop.admin.delete_topics([f"{shop.ns}-items"])[f"{shop.ns}-items"].result(30)
        wait_until(lambda: _refused(feed), 30, "an error")
    finally:
        feed.close()


def test_a_topic_with_more_partitions_is_read_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from confluent_kafka.cimpl import NewPartitions

    monkeypatch.setattr("sluicegate.connectors.kafka.table.LOOK_EVERY", 0.2)
    feed = KafkaTable({"bootstrap.servers": shop.kafka}, f"{shop.ns}-items")
    try:
        wait_until(lambda: feed.take() == [] and feed.complete, 30, "the end of an empty topic")
        topic = f"{shop.ns}-items"
        shop.admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
        wait_until(lambda: "has more partitions" in _refused(feed), 30, "an error")
    finally:
        feed.close()


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_a_batch_that_is_larger_than_the_memory_ends_no_worker(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr("sluicegate.connectors.kafka.table.ApartSource", partial(ApartSource, memory=1))
    shop.rows(1, 10)
    feed = KafkaTable({"bootstrap.servers": shop.kafka}, f"{shop.ns}-items")
    try:
        wait_until(lambda: not feed.take() and feed.complete, 30, "the end")
    finally:
        feed.close()
    producer = Producer({"bootstrap.servers": shop.kafka, "compression.type": codec, "message.max.bytes": 300_000_000})
    producer.produce(f"{shop.ns}-items", b'{"price":"' + b"x" * 200_000_000 + b'"}', b"s-1")
    assert producer.flush(30) == 0
    feed = KafkaTable({"bootstrap.servers": shop.kafka}, f"{shop.ns}-items")
    try:
        why = wait_until(lambda: _refused(feed), 60, "the end of the process that reads first")
        assert why.startswith(f"unfetchable: topic {shop.ns}-items cannot be read beyond ")
    finally:
        feed.close()


def _refused(feed: KafkaTable) -> str:
    from sluicegate.streams.errors import SystemNotReady

    try:
        feed.take()
    except SystemNotReady as error:
        return str(error)
    return ""
