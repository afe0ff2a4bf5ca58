"""Records that are small on the wire and larger than the store or the producer takes, on each store: the dead letter
has their beginning, the next record follows, and letters that Kafka refuses are bounded."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.headers import DEAD_DIGEST, DEAD_SIZE
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.outbox import relay, sizes
from tests.chaos.worker import Worker
from tests.waiting import wait_until

LARGE = 40_000_000
STORES = ("sqlite", "redis_url", "postgres_url", "mariadb_url", "mongodb_url")

# a broker that is slow refuses last what the producer's queue, the rows in memory, and the records of one batch hold
UNDER_WAY = (32 + 8 + 16) * 1024 * 1024


def sent(bootstrap: str, topic: str, values: list[bytes], number: int = 0) -> None:
    """In one compressed batch."""
    wide = {"message.max.bytes": 1_000_000_000, "batch.size": 2_000_000_000, "queue.buffering.max.kbytes": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "gzip", "linger.ms": 5_000, **wide})
    for value in values:
        producer.produce(topic, value, b"k", number)
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[Any] = []
    while batch := consumer.consume(1000, 2.0):
        records += batch
    consumer.close()
    return records


class App:
    """Two partitions of the input, which has Kafka's default for the size of a batch."""

    def __init__(
        self, folder: Path, kafka: str, ns: str, make_topic: Callable[..., str], url: str, **dead: int
    ) -> None:
        self.kafka, self.ns, self.file, self.url = kafka, ns, folder / "app.yaml", url
        make_topic(f"{ns}-in", partitions=2)
        make_topic(f"{ns}-out")
        make_topic(f"{ns}-dead", **dead)
        rule = {"from": f"{ns}-in", "aggregate": {"count": 1}, "to": f"{ns}-out", "dead_letters": f"{ns}-dead"}
        about = {"app": ns, "kafka": {"bootstrap.servers": kafka}, "store": url, "http": {"port": 0}}
        self.file.write_text(yaml.safe_dump({**about, "allow_plaintext": True, "agents": {"sums": rule}}))
        store = open_store(url)
        store.migrate()
        store.close()

    def letters(self) -> list[Any]:
        return read(self.kafka, f"{self.ns}-dead")

    def results(self) -> int:
        return len(read(self.kafka, f"{self.ns}-out"))

    def kept(self) -> int:
        """Bytes of dead and unsent rows of partition 0 in the store."""
        store, partition = open_store(self.url), Partition(self.ns, "sums", f"{self.ns}-in", 0)
        rows = [row for row, _ in store.dead(partition, 1_000)] + list(store.pending(partition, 0, 1_000))
        store.close()
        return sum(len(row.value or b"") for row in rows)


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.fixture
def run() -> Iterator[Callable[[App], Worker]]:
    started: list[Worker] = []

    def start(app: App) -> Worker:
        started.append(Worker(app.file, "sums", f"w{len(started)}"))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def test_a_record_of_forty_megabytes_is_one_dead_letter_and_the_next_record_follows(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], run: Any, url: str
) -> None:
    app, value = App(tmp_path, kafka, ns, make_topic, url), b'{"a":"' + b"x" * LARGE + b'"}'
    sent(kafka, f"{ns}-in", [value])
    sent(kafka, f"{ns}-in", [b'{"a":1}'])
    worker = run(app)
    wait_until(lambda: app.results() == 1, 90, "the result of the record behind it")
    [letter] = app.letters()
    headers = dict(letter.headers())
    assert letter.value() == value[: sizes.LONGEST_HEAD]
    assert headers["sluicegate-dead-reason"] == b"too-large"
    assert headers["sluicegate-dead-offset"] == b"0"
    assert headers[DEAD_SIZE] == b"%d" % len(value)
    assert headers[DEAD_DIGEST] == b"sha256:" + hashlib.sha256(value).hexdigest().encode()
    assert len(worker.events("partition.claimed")) == 2
    assert not worker.events("partition.unavailable")


def test_letters_that_kafka_refuses_halt_the_partition_before_they_fill_the_store(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], run: Any, url: str
) -> None:
    app = App(tmp_path, kafka, ns, make_topic, url, max_message_bytes=1_000)
    sent(kafka, f"{ns}-in", [b"{" + b"x" * 900_000] * 120)
    sent(kafka, f"{ns}-in", [b'{"a":1}'], 1)
    worker = run(app)
    (event,) = worker.wait("partition.halted", timeout=120)
    assert event["code"] == "produce-stopped"
    assert "MiB of dead rows" in event["error"]
    halted = f"halted {ns}-in/0: produce-stopped"
    wait_until(lambda: halted in json.dumps(worker.get("/readyz")[1]), 30, "/readyz names the halt")
    assert worker.get("/readyz")[0] == 503
    assert relay.MOST_DEAD - 1_000_000 < app.kept() < relay.MOST_DEAD + UNDER_WAY
    assert app.results() == 1
