"""A real Faust worker on the real broker fills a buffer: whatever kills it, each record is there once."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased_values import entry_key
from sluicegate.streams.contracts.messages import StoredMessage
from tests.contracts.own import own_url
from tests.mutation import twins
from tests.servers.process import die_with_parent
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 2
SOON = 60.0  # a worker is ready after about 3 s on a machine that is not busy


class Scene:
    """A topic, a group and a buffer of one name, and what is in the store."""

    def __init__(self, bootstrap: str, topic: str, folder: Path, url: str) -> None:
        self.bootstrap, self.topic, self.folder, self.url = bootstrap, topic, folder, url
        self.store = open_store(self.url)
        self.store.migrate()
        self.fed = [0] * PARTITIONS
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._asking = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})

    def close(self) -> None:
        self._asking.close()
        self.store.buffer.remove_all(self.topic)
        self.store.outbox.drop([row.message.id for row in self.told()])
        self.store.close()

    def feed(self, count: int) -> None:
        """So many records to each partition, of seven keys."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for number in range(count):
            for partition in range(PARTITIONS):
                producer.produce(self.topic, b"{}", key=b"k%d" % (number % 7), partition=partition)
        producer.flush(30)
        self.fed = [fed + count for fed in self.fed]

    def committed(self) -> int:
        """Records that Kafka would not give to this group again."""
        asked = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        return sum(max(0, place.offset) for place in self._asking.committed(asked, timeout=30))

    def owners(self) -> int:
        """How many members of the group have a partition."""
        group = self._admin.describe_consumer_groups([self.topic])[self.topic].result(30)
        return sum(bool(member.assignment and member.assignment.topic_partitions) for member in group.members)

    def told(self) -> list[StoredMessage]:
        """One for each completed batch."""
        return [row for row in self.store.outbox.find(limit=100_000) if row.message.topic == f"{self.topic}.done"]

    def found(self) -> Counter[str]:
        """How often each record is in a completed batch or still in the buffer."""
        completed = [json.loads(row.message.value or b"[]") for row in self.told()]
        idempotency_keys = [entry.idempotency_key for entry in self.store.buffer.get_data(self.topic)]
        return Counter([key for keys in completed for key in keys] + idempotency_keys)

    def expected(self) -> Counter[str]:
        return Counter(
            entry_key(self.topic, number, offset) for number, fed in enumerate(self.fed) for offset in range(fed)
        )

    @contextmanager
    def worker(self, failpoints: str = "", without: str = "", **orders: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A Faust worker, killed with -9 at the end of the block."""
        facts = {
            "group": self.topic,
            "topic": self.topic,
            "bootstrap": self.bootstrap,
            "store": self.url,
            "folder": str(self.folder),
        }
        environment = {**os.environ, "SLUICEGATE_FAILPOINTS": failpoints}
        edited = self.folder / "twin"
        if without:
            environment |= twins.environment(without, edited)
        command = [
            sys.executable,
            "-m",
            "tests.integration.filling.worker",
            json.dumps({**facts, "instance": "one", **orders}),
        ]
        with open(self.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, preexec_fn=die_with_parent(9)
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()
        if without:
            twins.check(without, edited, [process.pid])


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, kafka: str, ns: str, make_topic: Callable[..., str], tmp_path: Path
) -> Iterator[Scene]:
    """On SQLite unless another store is asked for."""
    url = own_url("faust", getattr(request, "param", "sqlite"), request, tmp_path, ns)
    made = Scene(kafka, make_topic(ns, PARTITIONS), tmp_path, url)
    yield made
    made.close()


def test_a_worker_that_is_killed_again_and_again_loses_and_repeats_nothing(scene: Scene) -> None:
    scene.feed(400)
    for at in ("faust-received=kill@3", "faust-inserted=kill@4"):
        with scene.worker(at, most=50) as worker:
            assert wait_until(lambda worker=worker: worker.poll() is not None, SOON, f"the death at {at}")
            assert worker.returncode == -9
    with scene.worker():
        wait_until(lambda: scene.committed() == sum(scene.fed), SOON, "the commit of everything")
    assert scene.found() == scene.expected()


@pytest.mark.parametrize("scene", ["redis"], indirect=True)
def test_what_one_of_two_workers_leaves_at_its_death_the_other_takes(scene: Scene) -> None:
    scene.feed(200)
    with scene.worker(instance=None):
        wait_until(lambda: scene.found().total() > 0, SOON, "the first worker's batch")
        with scene.worker(instance=None, most=20):
            wait_until(lambda: scene.owners() == 2, SOON, "a partition for each")
            scene.feed(200)
            wait_until(lambda: scene.found().total() > 450, SOON, "what both take in")
        wait_until(lambda: scene.committed() == sum(scene.fed), SOON, "the commit of everything")
    assert scene.found() == scene.expected()


@pytest.mark.parametrize("without", ["", "faust-order"], ids=["", "twin"])
def test_nothing_is_acknowledged_before_it_is_durable(scene: Scene, without: str) -> None:
    """The third insert never returns; what Kafka was told meanwhile is not read again."""
    scene.feed(300)
    with scene.worker(without=without, stall=3, most=20):
        wait_until((scene.folder / "stalled").exists, SOON, "the insert that never returns")
        wait_until(lambda: scene.committed() >= scene.found().total() > 0, SOON, "the commit of what is durable")
        if without:
            wait_until(lambda: scene.committed() > scene.found().total(), SOON, "the commit of what is not durable")
    with scene.worker(without=without):
        wait_until(lambda: scene.committed() == sum(scene.fed), SOON, "the commit of everything")
    lost = scene.expected() - scene.found()
    assert bool(lost) is bool(without)
    assert not scene.found() - scene.expected()


def test_what_was_completed_and_is_read_again_does_not_come_in_again(scene: Scene) -> None:
    """The first worker dies before its first commit to Kafka, with all of it in completed batches. (The twin:
    tests/unit.)"""
    scene.feed(140)
    with scene.worker(commit=3600.0):
        wait_until(lambda: len(scene.told()) == 28, SOON, "all full batches")
    assert scene.committed() == 0
    assert scene.store.buffer.count(scene.topic) == 0
    with scene.worker() as worker:
        wait_until(lambda: scene.committed() == sum(scene.fed), SOON, "the commit of everything")
        worker.terminate()
        assert worker.wait(60) == 0
    assert scene.found() == scene.expected()
    assert "Traceback" not in (scene.folder / "worker.log").read_text()
