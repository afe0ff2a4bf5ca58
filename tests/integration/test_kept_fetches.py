"""A partition that is paused again and again fetches what it has fetched not again: a real broker, and the consumer of
such a partition alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluicegate.connectors.kafka import alone
from sluicegate.connectors.kafka.consumer import KafkaInput
from tests.chaos.worker import Worker
from tests.integration.test_unpacked_batches import keys, one_batch, send
from tests.servers.cluster import Cluster
from tests.unit.kafka.clients import COOPERATIVE, PROTOCOLS, fill, joined, numbers, read, turned
from tests.waiting import wait_until

RECORDS, SIZE = 256, 900_000
FEW = 3.0  # fetches of the batch: before the first pause, by the partition's own consumer; and other answers


def letters(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """The offset of each record that became one, and how many bytes the letter has."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    findings: list[tuple[int, int]] = []
    while batch := consumer.consume(1000, 3.0):
        for record in batch:
            headers: dict[str, Any] = dict(record.headers() or [])
            findings.append((int(headers["sluicegate-dead-offset"]), len(record.value() or b"")))
    consumer.close()
    return sorted(findings)


def fetched(cluster: Cluster, folder: Path, ns: str, without: str = "") -> float:
    """How often the worker got the bytes of the batch until each of its records was a letter."""
    make = Consumer({"bootstrap.servers": cluster.url, "group.id": ns})
    file = folder / "app.yaml"
    rule = {"from": f"{ns}-in", "aggregate": {"count": 1}, "to": f"{ns}-out", "dead_letters": f"{ns}-dead"}
    kafka, store = {"bootstrap.servers": cluster.bootstrap(0)}, f"sqlite:///{folder}/state.db"
    file.write_text(
        yaml.safe_dump({"app": ns, "kafka": kafka, "store": store, "http": {"port": 0}, "agents": {"sums": rule}})
    )
    one_batch(cluster.url, f"{ns}-in", "lz4", RECORDS, SIZE)
    send(cluster.url, f"{ns}-in", 1, [f"k{n}" for n in range(20)])
    before = cluster.ways[0][0].answered
    worker = Worker(file, "sums", "w", without=without)
    try:
        place = TopicPartition(f"{ns}-dead", 0)
        wait_until(lambda: make.get_watermark_offsets(place, timeout=5)[1] >= RECORDS, 240, "all letters")
        answered = cluster.ways[0][0].answered - before
    finally:
        worker.close()
        make.close()
    assert letters(cluster.url, f"{ns}-dead") == [(offset, SIZE) for offset in range(RECORDS)]
    assert keys(cluster.url, f"{ns}-out") == sorted(f"k{n}" for n in range(20))
    return answered / sum(path.stat().st_size for path in cluster.servers[0].place.data.glob(f"{ns}-in-0/*.log"))


@pytest.fixture
def topics(cluster: Cluster, ns: str) -> None:
    wanted = [
        NewTopic(f"{ns}-in", 2, config={"max.message.bytes": "60000000"}),
        NewTopic(f"{ns}-out", 1),
        NewTopic(f"{ns}-dead", 1),
    ]
    admin = AdminClient({"bootstrap.servers": cluster.url})
    for future in admin.create_topics(wanted).values():
        future.result(30)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("topics")
def test_a_batch_whose_records_wait_for_the_outbox_is_fetched_a_few_times(
    cluster: Cluster, tmp_path: Path, ns: str
) -> None:
    """230 MB in one batch. None of its records can be decoded, and the intake pauses after every sixteenth."""
    assert fetched(cluster, tmp_path, ns) < FEW


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("topics")
def test_without_a_consumer_of_its_own_it_is_fetched_at_each_pause(cluster: Cluster, tmp_path: Path, ns: str) -> None:
    assert fetched(cluster, tmp_path, ns, without="kept-fetches") > FEW


def alone_at(consumer: KafkaInput, topic: str, number: int, offset: int) -> None:
    consumer.pause([(topic, number)])
    consumer.resume_alone(topic, number, offset, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pauses_of_a_partition_that_is_read_alone_neither_lose_nor_repeat(
    kafka: str, ns: str, make_topic: Callable[..., str], protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "CALM", 0.2)
    make_topic(ns, 3)
    for partition in range(3):
        fill(kafka, ns, partition, numbers(0, 3_000))
    consumer = joined(kafka, ns, ns, 3, **PROTOCOLS[protocol])
    results: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for partition in range(3):
        consumer.start(ns, partition, 0, 0)
        alone_at(consumer, ns, partition, 0)  # the third one is one too many, and is read as before
    for turn in range(12):
        for partition, offset in read(consumer, 300):
            results[partition].append(offset)
        consumer.pause([(ns, turn % 3)])
        consumer.resume([(ns, (turn + 1) % 3), (ns, (turn + 2) % 3)])
    consumer.resume([(ns, 0), (ns, 1), (ns, 2)])
    for partition, offset in read(consumer, 9_000 - 12 * 300):
        results[partition].append(offset)
    assert results == {number: list(range(3_000)) for number in range(3)}
    assert turned(consumer, lambda: not consumer._apart)  # the consumer itself reads them again
    assert turned(consumer, lambda: {consumer.high(ns, number) for number in range(3)} == {3_000})
    for partition in range(3):
        fill(kafka, ns, partition, numbers(3_000, 3_100))
    assert sorted(read(consumer, 300)) == [(number, n) for number in range(3) for n in range(3_000, 3_100)]
    consumer.close()


def test_a_start_ends_the_consumer_of_the_partition_and_its_records(
    kafka: str, ns: str, make_topic: Callable[..., str]
) -> None:
    make_topic(ns)
    fill(kafka, ns, 0, numbers(0, 1_000))
    consumer = joined(kafka, ns, ns, **COOPERATIVE)
    consumer.start(ns, 0, 0, 0)
    alone_at(consumer, ns, 0, 0)
    assert read(consumer, 100) == [(0, offset) for offset in range(100)]
    consumer.start(ns, 0, 500, 0)
    assert read(consumer, 500) == [(0, offset) for offset in range(500, 1_000)]
    consumer.close()
