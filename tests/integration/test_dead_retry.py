"""`dead retry` with the real command on a real broker: the agent that failed takes the record again, once, and no other
agent does."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.operations.dead import dead_records
from tests.bench.load import create
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
    return sum(letter["agent"] == "ledger" for letter in sluicegate("dead", "ls", file, "--all", "--json")["dead"])


def retry(file: str, *more: str) -> "subprocess.Popen[str]":
    command = [str(SLUICEGATE), "dead", "retry", file, "ledger", *(more or ["--all"])]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)


def orders(kafka: str, ns: str, topic: str = "orders") -> list[Any]:
    """Every record of the input topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"{ns}-look", "enable.auto.commit": False})
    try:
        place = TopicPartition(f"{ns}-{topic}", 0, 0)
        _, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        findings: list[Any] = []
        wait_until(lambda: findings.extend(consumer.consume(1000, 0.2)) or len(findings) >= high, 30, "all orders")
        return findings
    finally:
        consumer.close()


def counted(file: str) -> int:
    """Records in the open group of `spend`."""
    return int(sum(group["count"] for group in sluicegate("groups", "ls", file, "spend", "--json")["groups"]))


def test_two_at_once_send_each_record_once_and_for_its_agent_alone(
    failed: None, file: str, kafka: str, ns: str
) -> None:
    # By name: the one that starts late must not take along the letters that the first retry has led to.
    ids = [f"{ns}-orders/0/{n}" for n in range(RECORDS)]
    both = [retry(file, *ids), retry(file, *ids)]
    outputs = [process.communicate(timeout=120) for process in both]
    assert sorted(process.returncode for process in both) in ([0, 0], [0, 5]), outputs
    names = [dict(message.headers() or ()).get("sluicegate-retried-from") for message in orders(kafka, ns)]
    assert sorted(filter(None, names)) == sorted(f"{ns}-orders/0/{n}".encode() for n in range(RECORDS))
    wait_until(lambda: letters(file) == 2 * RECORDS, 60, "ledger to give them up again")
    assert counted(file) == RECORDS
    again = retry(file)
    out, errors = again.communicate(timeout=120)
    assert f"{RECORDS} records sent" in out  # the new letters; the old ones were retried before
    assert (again.returncode, "was retried before" in errors) == (0, False)


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


FORGED = [("payments", 0, 0), ("orders", 0, 2), ("orders", 0, 10**6), ("orders", 77, 0), ("orders", 0, -1)]
FORGED += [("orders", 0, 0)]  # an item of a group, which is no record
LISTED = [place for place in FORGED if place[2] >= 0]  # no record has a negative offset, so that one is no letter
EVIL = b'{"pay": "mallory"}'


def forged(file: str, kafka: str, ns: str) -> dict[str, Any]:
    """Retry all letters, of which FORGED were written by somebody who may write to the dead-letter topic: one names
    `payments`, which no agent of the file reads, the others a record that is another one, or none, or an item
    of a group."""
    dead = f"{ns}.dead"
    create(kafka, f"{ns}-payments")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    producer.produce(f"{ns}-payments", b"{}", b"first", 0)
    for number, (topic, partition, offset) in enumerate(FORGED):
        place = {"topic": f"{ns}-{topic}", "partition": partition, "offset": offset}
        says = {"app": ns, "agent": "ledger", **place, "stage": "handler", "reason": "r", "error": "e", "attempts": 1}
        headers = [("sluicegate-id", b"forged-%d" % number)]
        headers += [(f"sluicegate-dead-{name}", str(value).encode()) for name, value in says.items()]
        headers += [("sluicegate-dead-item", b"0")] if (topic, partition, offset) == FORGED[-1] else []
        producer.produce(dead, EVIL, b"bob", headers=headers)
    assert producer.flush(30) == 0
    wait_until(lambda: letters(file) == RECORDS + len(LISTED), 60, "the forged letters")
    done = CliRunner().invoke(main, ["dead", "retry", file, "ledger", "--all", "--yes", "--json"])
    return {"code": done.exit_code, **json.loads(done.stdout)}


def test_a_forged_letter_reaches_no_topic_and_the_others_are_sent(failed: None, file: str, kafka: str, ns: str) -> None:
    did = forged(file, kafka, ns)
    assert (did["code"], did["sent"], len(did["left_out"])) == (4, RECORDS, len(LISTED)), did
    assert [message.value() for message in orders(kafka, ns, "payments")] == [b"{}"]
    assert EVIL not in [message.value() for message in orders(kafka, ns)]


def test_twin_that_believes_letters_writes_to_any_topic(
    failed: None, file: str, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_records, "stray", lambda app, letter: None)
    monkeypatch.setattr(dead_records, "is_same_record", lambda letter, record: True)
    monkeypatch.setattr(dead_records, "whole", lambda letter, record: letter)
    monkeypatch.setattr(dead_records, "read", lambda source, letters: {})
    monkeypatch.setattr(Mac, "proves", lambda self, record: True)
    forged(file, kafka, ns)
    assert EVIL in [message.value() for message in orders(kafka, ns, "payments")]
    assert EVIL in [message.value() for message in orders(kafka, ns)]


def test_twin_that_believes_a_letter_without_a_mac_writes_what_it_says(
    failed: None, file: str, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mac, "proves", lambda self, record: True)
    forged(file, kafka, ns)
    assert [message.value() for message in orders(kafka, ns)].count(EVIL) == 1
