"""The lag of a worker that stands at the end of a topic with transactions, partitions that are added to a topic, and
partitions that no worker reads."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.integration.supervised.run import Run
from tests.servers.process import free_port
from tests.waiting import wait_until

FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000}
store: sqlite:///state.db
dead_letters: NS.dead
http: {port: PORT}
agents:
  a:
    from: NS.in
    start: earliest
    aggregate: {count: 2, compute: {n: count}}
    to: {topic: NS.out}
"""
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))


class Started:
    """A run of the file."""

    def __init__(self, folder: Path, kafka: str, ns: str, port: int) -> None:
        self.kafka, self.topic, self.path = kafka, f"{ns}.in", folder / "lag.yaml"
        self.path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("PORT", str(port)))
        self.run = Run(SLUICEGATE, "run", str(self.path))
        self.run.wait("partition.claimed", timeout=40)

    def partitions(self) -> dict[int, dict[str, Any]]:
        """By number, as the worker reports them."""
        [worker] = [worker for worker in json.loads(self.run.get("/status")[1])["workers"] if worker["agent"] == "a"]
        return {partition["number"]: partition for partition in worker["partitions"]}

    def status(self) -> list[dict[str, Any]]:
        """As on another machine: no port of a run answers."""
        elsewhere = self.path.with_name("elsewhere.yaml")
        elsewhere.write_text(re.sub("port: [0-9]+", "port: 0", self.path.read_text()))
        done = subprocess.run(
            [SLUICEGATE, "status", elsewhere, "--json"], capture_output=True, text=True, timeout=60, check=True
        )
        partitions: list[dict[str, Any]] = json.loads(done.stdout)["partitions"]
        return partitions

    def lag_seconds(self) -> list[float]:
        lines = self.run.get("/metrics")[1].splitlines()
        return [float(line.split()[-1]) for line in lines if line.startswith("sluicegate_consumer_lag_seconds{")]


@pytest.fixture
def started(kafka: str, ns: str, make_topic: Callable[..., None], tmp_path: Path) -> Iterator[Started]:
    for name in ("in", "out", "dead"):
        make_topic(f"{ns}.{name}")
    made = Started(tmp_path, kafka, ns, free_port())
    yield made
    made.run.close()


def in_transactions(started: Started) -> None:
    """Records of two producers, and a tail that is aborted."""
    producers = [
        Producer({"bootstrap.servers": started.kafka, "transactional.id": f"{started.topic}-{number}", "log_level": 0})
        for number in (0, 1)
    ]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(started.topic, b"{}", key=b"k")
        producer.commit_transaction(30)
    for producer in producers:
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(started.topic, b"{}", key=b"k")
        producer.flush(10)
        producer.abort_transaction(30)


def test_a_worker_that_has_read_everything_has_no_lag(started: Started) -> None:
    in_transactions(started)
    wait_until(lambda: started.partitions()[0]["offset"] == 3, 30, "both records are committed")
    wait_until(lambda: started.partitions()[0]["lag"] == 0, 10, "the worker stands at the end")
    [row] = started.status()
    assert (row["offset"], row["high"], row["lag"]) == (3, 12, 0)
    assert started.lag_seconds() == [0.0]


def test_status_tells_records_that_wait_from_offsets_of_transactions_when_nothing_runs(started: Started) -> None:
    in_transactions(started)
    wait_until(lambda: started.partitions()[0]["offset"] == 3, 30, "both records are committed")
    started.run.signal(signal.SIGTERM)
    assert started.run.exit_code(40) == 0
    [row] = started.status()
    assert (row["owner"], row["high"], row["lag"]) == (None, 12, 0)
    open_ = Producer({"bootstrap.servers": started.kafka, "transactional.id": started.topic, "log_level": 0})
    open_.init_transactions(30)
    open_.begin_transaction()
    open_.produce(started.topic, b"{}", key=b"k")
    assert open_.flush(20) == 0
    [row] = started.status()
    assert (row["high"], row["lag"]) == (12, 0)  # no reader gets the record yet
    open_.commit_transaction(30)
    [row] = started.status()
    assert (row["high"], row["lag"]) == (14, 11)


def test_added_partitions_are_read_soon_by_a_worker_that_runs(started: Started) -> None:
    admin = AdminClient({"bootstrap.servers": started.kafka})
    admin.create_partitions([NewPartitions(started.topic, 2)])[started.topic].result(30)
    producer = Producer({"bootstrap.servers": started.kafka, "enable.idempotence": True})
    wait_until(lambda: len(producer.list_topics(started.topic).topics[started.topic].partitions) == 2, 20, "added")
    producer.produce(started.topic, b"{}", key=b"k", partition=1)
    assert producer.flush(10) == 0
    [_, unowned] = started.status()
    assert unowned["owner"] or unowned["note"].startswith("it has no owner: ")
    begin = time.monotonic()
    wait_until(lambda: started.partitions().get(1, {}).get("offset") == 1, 60, "the added partition is read")
    assert time.monotonic() - begin < 25


def test_readyz_names_a_partition_that_another_consumer_took(started: Started) -> None:
    admin = AdminClient({"bootstrap.servers": started.kafka})
    admin.create_partitions([NewPartitions(started.topic, 2)])[started.topic].result(30)
    wait_until(lambda: len(started.partitions()) == 2, 60, "both partitions are read")
    other = Consumer(
        {
            "bootstrap.servers": started.kafka,
            "group.id": f"{started.topic.removesuffix('.in')}.a",
            "client.id": "debugging",
            "log_level": 0,
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    other.subscribe([started.topic])

    def degraded() -> list[dict[str, str]]:
        other.poll(0.1)
        lines: list[dict[str, str]] = json.loads(started.run.get("/readyz")[1]).get("degraded", [])
        return lines

    reason = "is assigned to debugging, which is not a worker of this agent; end that consumer"
    wait_until(lambda: [entry["reason"][-len(reason) :] for entry in degraded()] == [reason], 120, "the reason")
    assert started.run.ready()
    other.close()
    wait_until(lambda: started.run.ready() and len(started.partitions()) == 2, 60, "both partitions are read again")
    wait_until(lambda: "degraded" not in json.loads(started.run.get("/readyz")[1]), 60, "no reason any more", pause=0.5)
