"""`dead retry` with the real command on a real broker: the agent that failed takes the record again, once, and no other
agent does."""

import json
import subprocess
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
store: {store}
http: false
agents:
  spend:
    from: {ns}-orders
    aggregate: {{count: 1000, timeout: {{after: 1h}}, compute: {{spent: {{sum: amount}}}}}}
    to: {{topic: {ns}-out}}
  ledger:
    from: {ns}-orders
    aggregate: {{count: 1000, timeout: {{after: 1h}}, compute: {{booked: {{sum: price}}}}}}
    to: {{topic: {ns}-out}}
"""
RECORDS = 7


@pytest.fixture(params=["sqlite", "redis"])
def file(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> str:
    store = "sqlite:///state.db" if request.param == "sqlite" else request.getfixturevalue("redis_url")
    path = tmp_path / "app.yaml"
    path.write_text(FILE.format(ns=ns, kafka=kafka, store=store))
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


@pytest.fixture
def failed(live: Run, file: str, kafka: str, ns: str) -> None:
    """`spend` has counted the records, `ledger` has given them up: they have no price."""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for _ in range(RECORDS):
        producer.produce(f"{ns}-orders", b'{"amount": 1}', b"bob")
    assert producer.flush(30) == 0
    wait_until(lambda: letters(file) == RECORDS, 60, "the dead letters of ledger")


def letters(file: str) -> int:
    return sum(each["agent"] == "ledger" for each in sluicegate("dead", "ls", file, "--json")["dead"])


def retry(file: str, *more: str) -> "subprocess.Popen[str]":
    command = [str(SLUICEGATE), "dead", "retry", file, "ledger", *(more or ["--all"])]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def orders(kafka: str, ns: str) -> list[Any]:
    """Every record of the input topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"{ns}-look", "enable.auto.commit": False})
    try:
        place = TopicPartition(f"{ns}-orders", 0, 0)
        _, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        found: list[Any] = []
        wait_until(lambda: found.extend(consumer.consume(1000, 0.2)) or len(found) >= high, 30, "all orders")
        return found
    finally:
        consumer.close()


def counted(file: str) -> int:
    """Records in the open group of `spend`."""
    return int(sum(each["count"] for each in sluicegate("groups", "ls", file, "spend", "--json")["groups"]))


def test_two_at_once_send_each_record_once_and_for_its_agent_alone(
    failed: None, file: str, kafka: str, ns: str
) -> None:
    # By name: the one that starts late must not take along the letters that the first retry has led to.
    ids = [f"{ns}-orders/0/{n}" for n in range(RECORDS)]
    both = [retry(file, *ids), retry(file, *ids)]
    said = [each.communicate(timeout=120) for each in both]
    assert sorted(each.returncode for each in both) in ([0, 0], [0, 5]), said
    names = [dict(each.headers() or ()).get("sluicegate-retried-from") for each in orders(kafka, ns)]
    assert sorted(filter(None, names)) == sorted(f"{ns}-orders/0/{n}".encode() for n in range(RECORDS))
    wait_until(lambda: letters(file) == 2 * RECORDS, 60, "ledger to give them up again")
    assert counted(file) == RECORDS
    again = retry(file)
    out, errors = again.communicate(timeout=120)
    assert f"{RECORDS} records sent" in out  # the new letters; the old ones were retried before
    assert (again.returncode, errors.count("was retried before")) == (5, RECORDS)


def test_a_reader_that_is_not_ours_is_named_and_asked_for(failed: None, file: str, kafka: str, ns: str) -> None:
    billing = Consumer({"bootstrap.servers": kafka, "group.id": f"{ns}-billing"})
    billing.commit(offsets=[TopicPartition(f"{ns}-orders", 0, 3)], asynchronous=False)
    billing.close()
    refused = retry(file)
    _, errors = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert f"{ns}-orders is also read by {ns}-billing" in errors
    assert "--yes" in errors
    assert len(orders(kafka, ns)) == RECORDS
    done = retry(file, "--all", "--yes", "--json")
    assert json.loads(done.communicate(timeout=60)[0])["sent"] == RECORDS
    assert done.returncode == 0
