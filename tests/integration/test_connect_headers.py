"""`dead_letters: {headers: connect}` with the real command on a real broker: what a reader of Kafka Connect's dead
letters finds, and what `dead ls` and `dead retry` make of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.supervised.run import Run
from tests.integration.test_commands_live import SLUICEGATE, sluicegate
from tests.waiting import wait_until

FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: sqlite:///state.db
http: false
dead_letters: {{topic: {ns}-dead, headers: connect}}
agents:
  spend:
    from: {ns}-orders
    aggregate: {{count: 1, compute: {{spent: {{sum: amount}}}}}}
    to: {{topic: {ns}-out}}
  plain:
    from: {ns}-orders
    aggregate: {{count: 1, compute: {{spent: {{sum: amount}}}}}}
    to: {{topic: {ns}-out}}
    dead_letters: {{topic: {ns}-plain, headers: sluicegate}}
"""
OWN: list[tuple[str, bytes]] = [("h", b"\xff"), ("__connect.errors.topic", b"their own")]


@pytest.fixture
def file(tmp_path: Path, kafka: str, ns: str) -> str:
    path = tmp_path / "app.yaml"
    path.write_text(FILE.format(ns=ns, kafka=kafka))
    sluicegate("topics", str(path), "--create", "--partitions", "1", "--json")
    return str(path)


@pytest.fixture
def live(file: str) -> Iterator[Run]:
    run = Run(str(SLUICEGATE), "run", file)
    try:
        run.wait("partition.claimed", 2, 60.0)
        yield run
    finally:
        run.close()
        print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])


def messages(kafka: str, topic: str) -> list[Any]:
    """Every message of the topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"{topic}-look", "enable.auto.commit": False})
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        findings: list[Any] = []
        wait_until(lambda: findings.extend(consumer.consume(1000, 0.2)) or len(findings) >= high, 30, f"all of {topic}")
        return findings
    finally:
        consumer.close()


def listed(file: str, agent: str) -> list[Any]:
    return [letter for letter in sluicegate("dead", "ls", file, "--all", "--json")["dead"] if letter["agent"] == agent]


def test_a_dead_letter_of_kafka_connect_is_listed_and_goes_back(live: Run, file: str, kafka: str, ns: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    producer.produce(f"{ns}-orders", b"{bad", b"k", headers=OWN)
    assert producer.flush(30) == 0
    wait_until(lambda: listed(file, "spend") and listed(file, "plain"), 60, "both dead letters")
    [letter], [plain] = messages(kafka, f"{ns}-dead"), messages(kafka, f"{ns}-plain")
    assert (letter.key(), letter.value()) == (b"k", b"{bad")
    values = {name: value for name, value in letter.headers() if name.startswith("__connect.errors.")}
    error = dict(letter.headers())["sluicegate-dead-error"]
    assert values == {
        "__connect.errors.topic": f"{ns}-orders".encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"0",
        "__connect.errors.connector.name": f"{ns}.spend".encode(),
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"sluicegate.decode",
        "__connect.errors.exception.class.name": b"sluicegate.undecodable",
        "__connect.errors.exception.message": error,
        "__connect.errors.exception.stacktrace": b"sluicegate.undecodable: " + error + b"\n",
    }
    assert [header for header in plain.headers() if header[0].startswith("__connect")] == OWN[1:]
    assert sluicegate("dead", "retry", file, "spend", "--all", "--json")["sent"] == 1
    _, back = messages(kafka, f"{ns}-orders")
    assert (back.key(), back.value()) == (b"k", b"{bad")
    assert [header for header in back.headers() if not header[0].startswith("sluicegate-")] == OWN
    wait_until(lambda: len(listed(file, "spend")) == 2, 60, "the agent to give it up again")
