"""A worker's process that dies: the process that the run starts in its place has its partitions at once."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.settings import INSTANCE
from sluicegate.streams.processes.child import FENCED
from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.unit.kafka.clients import BY_THE_BROKER, COOPERATIVE
from tests.waiting import wait_until

SESSION = 60.0  # seconds
FILE = (
    HEAD.replace("session.timeout.ms: 6000", f"session.timeout.ms: {1000 * SESSION:.0f}")
    + """\
agents:
  pairs:
    from: NS-in
    aggregate: {count: 2, timeout: 1d, compute: {n: count}}
    to: {topic: NS-out}
"""
)


class Scene:
    """Two runs of an app. `first` has a name; `command` starts it again."""

    def __init__(self, kafka: str, ns: str, folder: Path) -> None:
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
        path = folder / "shop.yaml"
        store = f"sqlite:///{folder / 'state.db'}"
        path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store))
        self.topic, self.feed = f"{ns}-in", Producer({"bootstrap.servers": kafka, "log_level": 0})
        self.results = reader(kafka, f"{ns}-out")
        self.command = (str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
        self.first, self.second = Run("env", "SLUICEGATE_INSTANCE=first", *self.command), Run(*self.command)
        runs = (self.first, self.second)
        wait_until(lambda: min(len(run.events("partition.claimed")) for run in runs) > 0, 60, "the owners")

    def wait_for_results(self, seconds: float) -> None:
        """Until each partition has a result of records that are sent now."""
        for number in range(PARTITIONS):
            for _ in range(2):
                self.feed.produce(self.topic, b"{}", b"k%d" % number, number)
        assert self.feed.flush(20) == 0
        keys: set[bytes] = set()

        def complete() -> bool:
            keys.update(message.key() for message in self.results.consume(100, 0.1))
            return len(keys) == PARTITIONS

        wait_until(complete, seconds, "a result of each partition")

    def start_again(self) -> None:
        self.first.signal(signal.SIGKILL)
        self.first.close()
        self.first = Run("env", "SLUICEGATE_INSTANCE=first", *self.command)

    def close(self) -> None:
        for part in (self.first, self.second, self.results):
            part.close()


@pytest.fixture
def scene(kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, ns, tmp_path)
    yield made
    made.close()


def test_the_next_process_of_a_worker_does_not_wait_for_the_session_of_the_dead_one(scene: Scene) -> None:
    """Another run is alive, and gets none of the partitions. When the first run ends, it gets them at once."""
    scene.wait_for_results(60)
    os.kill(scene.first.pids(1)[0], signal.SIGKILL)
    scene.wait_for_results(SESSION / 2)
    assert len(scene.first.events("worker.started")) == 2
    scene.start_again()
    scene.wait_for_results(SESSION / 2)
    scene.first.signal(signal.SIGTERM)
    assert scene.first.exit_code() == 0
    scene.wait_for_results(SESSION / 2)


def test_of_two_runs_with_one_name_one_ends_and_says_why_and_the_other_goes_on(scene: Scene) -> None:
    scene.second.signal(signal.SIGTERM)
    assert scene.second.exit_code() == 0
    scene.second.close()
    scene.second = Run("env", "SLUICEGATE_INSTANCE=first", *scene.command)
    runs = (scene.first, scene.second)
    wait_until(lambda: any(run.events("run.fenced") for run in runs), 120, "the end of a run")
    [ended] = [run for run in runs if run.events("run.fenced")]
    assert ended.exit_code(60) == FENCED
    scene.wait_for_results(SESSION)


def test_a_process_is_another_member_when_partitions_were_added(kafka: str, ns: str) -> None:
    """The group would give it the old partitions, and nobody the new ones."""
    create(kafka, ns, partitions=1)

    def instance(*topics: str) -> object:
        consumer = KafkaInput({"bootstrap.servers": kafka, **COOPERATIVE}, ns, topics, "m", instance="0-run")
        try:
            return consumer._wanted.get(INSTANCE)
        finally:
            consumer.close()

    before = instance(ns)
    assert str(before).startswith("0-run-")
    assert instance(ns) == before
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions(ns, 3)])[ns].result(20)
    wait_until(lambda: instance(ns) != before, 20, "another instance")
    assert instance(ns, f"^{ns}.*") is None
    assert instance(ns, f"{ns}-missing") is None


def test_a_process_that_reads_another_topic_gets_its_partitions_and_none_of_the_old_one(kafka: str, ns: str) -> None:
    """The file was changed while the process was down, and both topics have as many partitions."""
    create(kafka, f"{ns}-old", f"{ns}-new", partitions=2)
    settings = {"bootstrap.servers": kafka, **COOPERATIVE}

    def partitions(topic: str) -> list[tuple[str, int]]:
        """What a process of this topic has first. It ends without leaving its group, as a killed one."""
        consumer, places = KafkaInput(settings, ns, [topic], "m", instance="0-run"), list[tuple[str, int]]()

        def assigned() -> list[tuple[str, int]]:
            consumer.poll(0.1)
            places.extend(consumer.assigned())
            return places

        wait_until(assigned, SESSION / 2, "partitions")
        consumer._consumer.close()
        return sorted(places)

    assert partitions(f"{ns}-old") == [(f"{ns}-old", 0), (f"{ns}-old", 1)]
    assert partitions(f"{ns}-new") == [(f"{ns}-new", 0), (f"{ns}-new", 1)]


def test_a_group_by_the_protocol_of_the_brokers_has_no_static_members(kafka: str, ns: str) -> None:
    """There a member of an instance whose session has not ended is refused."""
    create(kafka, ns, partitions=1)
    consumer = KafkaInput({"bootstrap.servers": kafka, **BY_THE_BROKER}, ns, [ns], "m", instance="0-run")
    assert INSTANCE not in consumer._wanted
    consumer.close()
