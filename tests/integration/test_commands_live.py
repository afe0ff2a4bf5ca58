"""The commands that mend, on three live workers: what they change takes effect, once, and nothing else is touched."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: {store}
http: false
agents:
  sums:
    from: {ns}-in
    aggregate:
      count: 100
      timeout: {{after: 10m, since: first}}
      compute: {{total: {{sum: v}}}}
    to: {{topic: {ns}-out}}
"""
KEYS = [f"k{n}" for n in range(8)]


def sluicegate(*args: str) -> Any:
    """In this process: it starts a dozen times faster."""
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def file(tmp_path: Path, kafka: str, postgres_url: str, ns: str) -> str:
    path = tmp_path / "app.yaml"
    path.write_text(FILE.format(ns=ns, kafka=kafka, store=postgres_url))
    sluicegate("topics", str(path), "--create", "--partitions", "6", "--json")
    assert CliRunner().invoke(main, ["migrate", str(path)]).exit_code == 0
    return str(path)


@pytest.fixture
def live(file: str) -> Iterator[Run]:
    run = Run(str(SLUICEGATE), "run", file, "--workers", "3")
    try:
        run.wait("partition.claimed", 6, 60.0)
        yield run
    finally:
        run.close()
        print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])


class Results:
    def __init__(self, kafka: str, topic: str) -> None:
        self._consumer: Any = Consumer({"bootstrap.servers": kafka, "group.id": topic, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])
        self.found: list[tuple[str, str, int]] = []

    def draw(self) -> list[tuple[str, str, int]]:
        for message in self._consumer.consume(100, 0.3):
            if message.error() is None:
                document = json.loads(message.value())
                self.found.append((document["key"], document["reason"], document["total"]))
        return sorted(set(self.found))


def send(kafka: str, ns: str, value: int) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for key in KEYS:
        producer.produce(f"{ns}-in", json.dumps({"v": value}).encode(), key.encode())
    assert producer.flush(20) == 0


def held(file: str) -> int:
    return sum(group["count"] for group in sluicegate("groups", "ls", file, "sums", "--json")["groups"])


def test_groups_are_listed_explained_fired_and_dropped_while_three_workers_run(
    live: Run, file: str, kafka: str, ns: str
) -> None:
    results = Results(kafka, f"{ns}-out")
    send(kafka, ns, 1)
    send(kafka, ns, 2)
    wait_until(lambda: held(file) == 2 * len(KEYS), 60, "all to be read")
    [group] = sluicegate("groups", "why", file, "sums", "k3", "--json")["groups"]
    assert (group["count"], group["why"].split(", ")[0], bool(group["owner"])) == (2, "2 of 100", True)
    assert sluicegate("groups", "show", file, "sums", "k3", "--json")["groups"][0]["values"] == {"total": 3}
    sluicegate("groups", "fire", file, "sums", "k3", "--why", "asked for", "--json")
    sluicegate("groups", "fire", file, "sums", "k3", "--why", "once more", "--json")
    sluicegate("groups", "drop", file, "sums", "k4", "--yes", "--why", "a test", "--json")
    wait_until(lambda: results.draw() == [("k3", "manual", 3)], 60, "the group that was fired by hand")
    send(kafka, ns, 5)
    wait_until(lambda: held(file) == 2 * (len(KEYS) - 2) + len(KEYS), 60, "all to be read again")
    for key in KEYS:
        sluicegate("groups", "fire", file, "sums", key, "--json")
    others = [(key, "manual", 8) for key in KEYS if key not in ("k3", "k4")]
    wanted = sorted([("k3", "manual", 3), ("k3", "manual", 5), ("k4", "manual", 5), *others])
    wait_until(lambda: len(results.draw()) >= len(wanted), 60, "all groups")
    assert results.draw() == wanted
    changes = sluicegate("audit", file, "sums", "--json")["changes"]
    assert sorted((change["what"], change["key"]) for change in changes if change["why"]) == [
        ("groups drop", "k4"),
        ("groups fire", "k3"),
        ("groups fire", "k3"),
    ]
