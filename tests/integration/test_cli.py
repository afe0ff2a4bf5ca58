"""The command against real systems: what it finds, makes, refuses and runs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.servers import Valkey
from tests.unit.cli.files import FILE, written
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")


@pytest.fixture
def file(tmp_path, kafka, ns):
    """A file whose app and topics are the test's own."""
    text = FILE.replace("count: 2", "count: 2, on_missing: skip")
    for word in ("orders", "refunds", "shop", "alerts"):
        text = text.replace(word, f"{ns}-{word}")
    return written(
        tmp_path, kafka, text.replace("totals}", f"{ns}-totals}}").replace("from: totals", f"from: {ns}-totals")
    )


def sluicegate(*args):
    return subprocess.run([SLUICEGATE, *args], capture_output=True, text=True, timeout=90)


def test_topics_are_missing_then_made_then_left_alone(file, ns, make_topic):
    make_topic(f"{ns}-orders", 3)
    looked = sluicegate("topics", file, "--partitions", "2", "--json")
    assert looked.returncode == 3
    answers = {
        t["topic"].removeprefix(f"{ns}-"): (t["partitions"], t["wanted"]) for t in json.loads(looked.stdout)["topics"]
    }
    wanted = {"orders": (3, 3), "refunds": (None, 2)} | dict.fromkeys(
        ("totals", "alerts", "shop.dead", "alerts.dead"), (None, 3)
    )
    assert answers == wanted
    assert sluicegate("check", file, "--connect").returncode == 3

    made = sluicegate("topics", file, "--create", "--partitions", "2", "--json")
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    created = {t["topic"].removeprefix(f"{ns}-"): t["partitions"] for t in document["topics"] if t["created"]}
    assert created == {"refunds": 2, "totals": 3, "alerts": 3, "shop.dead": 3, "alerts.dead": 3}
    assert document["copartitioned"] == {"totals": False}

    again = sluicegate("topics", file, "--create")
    assert (again.returncode, "created" in again.stdout) == (0, False)
    wait_until(lambda: sluicegate("topics", file).returncode == 0, 20, "all topics to be there")


def test_check_connect_refuses_what_run_would_refuse(file, tmp_path, own_server):
    missing = sluicegate("check", file, "--connect")
    assert missing.returncode == 3
    assert f"run `sluicegate topics {file} --create`" in missing.stderr
    assert sluicegate("topics", file, "--create").returncode == 0
    wait_until(lambda: sluicegate("topics", file).returncode == 0, 20, "all topics to be there")
    good = sluicegate("check", file, "--connect")
    assert good.returncode == 0, good.stderr
    assert "store: level durable" in good.stdout
    assert "replication 1, min.insync.replicas 1; acknowledged records may be lost" in good.stdout
    assert not Path(file).with_name("state.db").exists()

    text = Path(file).read_text()
    Path(file).write_text(text + "auto_migrate: false\n")
    unmigrated = sluicegate("check", file, "--connect", "--json")
    assert unmigrated.returncode == 3
    assert json.loads(unmigrated.stdout)["ok"] is False
    assert sluicegate("migrate", file).returncode == 0
    assert sluicegate("check", file, "--connect").returncode == 0

    weak = own_server(Valkey, args=["--appendfsync", "everysec"])
    Path(file).write_text(text.replace("sqlite:///state.db", weak.url))
    lossy = sluicegate("check", file, "--connect")
    assert lossy.returncode == 3
    assert "write `accept_level: lossy`" in lossy.stderr
    assert sluicegate("run", file).returncode == 3
    Path(file).write_text(Path(file).read_text() + "accept_level: lossy\n")
    assert sluicegate("check", file, "--connect").returncode == 0


def test_a_missing_topic_ends_run_with_3_and_names_the_command(file, ns):
    result = sluicegate("run", file)
    assert result.returncode == 3
    assert f"{ns}-orders" in result.stderr
    assert f"sluicegate topics {file} --create" in result.stderr


def test_221_run_fires_what_the_file_says_and_status_watches_it(file, kafka, ns, tmp_path):
    assert sluicegate("topics", file, "--create", "--partitions", "1").returncode == 0
    wait_until(lambda: sluicegate("topics", file).returncode == 0, 20, "all topics to be there")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([SLUICEGATE, "run", file], stdout=subprocess.PIPE, stderr=log)
        watch = subprocess.Popen(
            [SLUICEGATE, "status", file, "--watch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    try:
        producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        for amount in (1, 2, 40):
            producer.produce(f"{ns}-orders", json.dumps({"amount": amount}).encode(), b"k")
        assert producer.flush(20) == 0
        assert [r["sum"] for r in consumed(kafka, f"{ns}-totals", 1)] == [3]

        def settled():
            rows = json.loads(sluicegate("status", file, "--json").stdout)["partitions"]
            row = next((r for r in rows if r["topic"] == f"{ns}-orders"), {})
            return row if row.get("open_groups") == 1 and not row.get("unsent") else None

        row = wait_until(settled, 30, "the open group in the status")
        assert (row["agent"], row["offset"], row["lag"], row["dead"]) == ("totals", 3, 0, 0)
        assert row["owner"]
        assert 0 < row["next_deadline"] <= 30
        assert json.loads(watch.stdout.readline())["app"] == f"{ns}-shop"
        process.send_signal(signal.SIGTERM)
        assert process.wait(45) == 0, (tmp_path / "log").read_text()
        logged = {line["event"]: line for line in map(json.loads, (tmp_path / "log").read_text().splitlines())}
        assert (logged["store.ready"]["durability"], logged["worker.running"]["durability"]) == ("durable", "durable")
        assert f"{ns}-totals" in logged["topics.fragile"]["topics"]
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(15) == 0, watch.stderr.read()
    finally:
        for item in (process, watch):
            if item.poll() is None:
                os.kill(item.pid, signal.SIGKILL)
            item.communicate()


def consumed(kafka, topic, count):
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    documents = []

    def enough():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            documents.append(json.loads(message.value()))
        return len(documents) >= count

    try:
        wait_until(enough, 40, f"{count} records of {topic}")
    finally:
        consumer.close()
    return documents
