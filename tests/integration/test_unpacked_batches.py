"""A batch of records that is small on the broker and larger than the memory when it is unpacked: real processes, a real
broker, each codec. A watcher kills each process at a bound, as the kernel does."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from sluicegate.connectors.kafka.probe import ApartSource, KafkaProbe
from sluicegate.streams.cli import main
from sluicegate.streams.contracts import headers
from tests.chaos.memory import MemoryGroup, Watcher
from tests.chaos.worker import Worker
from tests.servers.cluster import Cluster
from tests.waiting import wait_until

BOUND = 120  # MiB of a worker, which has about 70 at rest
LIMIT = 215  # MiB of a supervisor, its worker and its dispatcher together, which have about 155 at rest
SIZES = {"gzip": 100, "lz4": 100, "zstd": 150, "snappy": 100}  # MB of a batch, in records of 1 MB


def send(bootstrap: str, topic: str, number: int, keys: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for key in keys:
        producer.produce(topic, b'{"a": 1}', key.encode(), number)
    producer.flush()


def one_batch(bootstrap: str, topic: str, codec: str, records: int = 0, size: int = 1_000_000) -> None:
    """All records in one batch of partition 0."""
    large = {"batch.size": 2_000_000_000, "message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 2_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 60_000, **large})
    for _ in range(records or SIZES[codec]):
        producer.produce(topic, b"x" * size, b"large", 0)
    assert producer.flush(90) == 0


def keys(bootstrap: str, topic: str) -> list[str]:
    """The key of each result, once. A process that is killed may have sent a result that it did not note, so the next
    process sends it again under the same id."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    results: dict[Any, str] = {}
    while batch := consumer.consume(1000, 2.0):
        results |= {dict(record.headers() or ())[headers.ID]: (record.key() or b"").decode() for record in batch}
    consumer.close()
    return sorted(results.values())


class App:
    """Two partitions: good records, the large batch and good records in the first, good records in the second. Without
    `at_once` the batch and the records behind it come with `attack`."""

    def __init__(
        self, folder: Path, kafka: str, ns: str, make_topic: Callable[..., str], codec: str, at_once: bool = True
    ) -> None:
        self.kafka, self.ns, self.file, self.codec = kafka, ns, folder / "app.yaml", codec
        make_topic(f"{ns}-in", partitions=2, max_message_bytes=60_000_000)
        for name in ("out", "dead"):
            make_topic(f"{ns}-{name}")
        rule = {"from": f"{ns}-in", "aggregate": {"count": 1}, "to": f"{ns}-out", "dead_letters": f"{ns}-dead"}
        settings = {"bootstrap.servers": kafka, "session.timeout.ms": 3000, "heartbeat.interval.ms": 500}
        about = {"app": ns, "kafka": settings, "store": f"sqlite:///{folder}/state.db", "http": {"port": 0}}
        self.file.write_text(yaml.safe_dump({**about, "agents": {"sums": rule}}))
        for number in (0, 1):
            send(kafka, f"{ns}-in", number, [f"{number}-before-{n}" for n in range(3)])
        if at_once:
            self.attack()

    def attack(self) -> None:
        one_batch(self.kafka, f"{self.ns}-in", self.codec)
        for number in (0, 1):
            send(self.kafka, f"{self.ns}-in", number, [f"{number}-after-{n}" for n in range(3)])

    def results(self) -> list[str]:
        return keys(self.kafka, f"{self.ns}-out")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., tuple[Worker, Watcher]]]:
    started: list[tuple[Worker, Watcher]] = []

    def start(app: App, without: str = "") -> tuple[Worker, Watcher]:
        worker = Worker(app.file, "sums", f"w{len(started)}", without=without)
        started.append((worker, Watcher(worker.process.pid, BOUND)))
        return started[-1]

    yield start
    for worker, watcher in started:
        watcher.close()
        worker.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("codec", SIZES)
def test_the_partition_halts_at_the_batch_all_others_go_on_and_an_operator_passes_over_it(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], run: Any, codec: str
) -> None:
    app = App(tmp_path, kafka, ns, make_topic, codec)
    worker, watcher = run(app)
    (event,) = worker.wait("partition.halted", timeout=150)
    assert event["code"] == "unfetchable"
    assert "offset 3" in event["error"]
    assert watcher.kills <= 2  # the first one commits where it begins
    if codec != "zstd":  # the client itself refuses to unpack so much
        assert watcher.probes >= 4
    names = [f"{number}-{when}-{n}" for number, when in ((0, "before"), (1, "after"), (1, "before")) for n in range(3)]
    wait_until(lambda: app.results() == sorted(names), 60, "the results of all records beside the batch")
    status, ready = worker.get("/readyz")
    assert status == 503
    assert f"halted {ns}-in/0: unfetchable" in json.dumps(ready)
    kills = watcher.kills
    send(kafka, f"{ns}-in", 1, ["1-later"])
    wait_until(lambda: "1-later" in app.results(), 60, "the other partition goes on")
    behind = str(3 + SIZES[codec])
    done = CliRunner().invoke(main, ["accept-gap", str(app.file), "sums", f"{ns}-in/0", "--to", behind, "--yes"])
    assert done.exit_code == 0, done.output
    wait_until(lambda: "0-after-2" in app.results(), 60, "the partition goes on behind the batch")
    assert watcher.kills == kills


@pytest.fixture
def memory_group(ns: str) -> Iterator[MemoryGroup]:
    try:
        group = MemoryGroup(ns, LIMIT << 20)
    except OSError as error:
        pytest.skip(f"no cgroup with a memory limit: {error}")
    yield group
    group.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("codec", SIZES)
def test_at_a_memory_limit_of_the_kernel_the_partition_halts_and_all_others_go_on(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], memory_group: MemoryGroup, codec: str
) -> None:
    """Nobody but the kernel ends a process here."""
    app = App(tmp_path, kafka, ns, make_topic, codec)
    worker = Worker(app.file, "sums", "w", enter=memory_group.join)
    try:
        (event,) = worker.wait("partition.halted", timeout=150)
        assert (event["code"], "offset 3" in event["error"]) == ("unfetchable", True)
        if codec != "zstd":  # the client itself refuses to unpack so much
            assert memory_group.kills() >= 1
        ends = len(worker.events("worker.ended"))
        assert ends <= 2
        names = [
            f"{number}-{when}-{n}" for number, when in ((0, "before"), (1, "after"), (1, "before")) for n in (0, 1, 2)
        ]
        wait_until(lambda: app.results() == sorted(names), 60, "the results of all records beside the batch")
        assert len(worker.events("worker.ended")) == ends
    finally:
        worker.close()


@pytest.mark.timeout(400)
def test_one_death_at_a_memory_limit_of_the_kernel_is_enough_if_the_partition_had_records_before(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], memory_group: MemoryGroup
) -> None:
    app = App(tmp_path, kafka, ns, make_topic, "lz4", at_once=False)
    worker = Worker(app.file, "sums", "w", enter=memory_group.join)
    try:
        for turn in range(8):  # more commits than those of a first fetch
            send(kafka, f"{ns}-in", 0, [f"0-turn-{turn}"])
            wait_until(lambda turn=turn: f"0-turn-{turn}" in app.results(), 60, f"the result of turn {turn}")
        app.attack()
        (event,) = worker.wait("partition.halted", timeout=150)
        assert event["code"] == "unfetchable"
        assert [end["code"] for end in worker.events("worker.ended")] == [-9]
        assert len(worker.events("worker.out_of_memory")) == 1
        wait_until(lambda: "1-after-2" in app.results(), 60, "the other partition goes on")
    finally:
        worker.close()


@pytest.mark.timeout(400)
def test_without_the_probe_each_process_dies(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], run: Any
) -> None:
    app = App(tmp_path, kafka, ns, make_topic, "lz4")
    worker, watcher = run(app, without="probe")
    wait_until(lambda: watcher.kills >= 7, 200, "more deaths than there are with the probe")
    assert not worker.events("partition.halted")


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_the_process_in_its_place_takes_no_more_memory_than_is_free(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], codec: str
) -> None:
    """Nobody kills it here: it dies at its own bound. With more memory it lives."""
    App(tmp_path, kafka, ns, make_topic, codec)
    for memory, shown in ((1, 3), (1 << 30, -1)):
        source = ApartSource({"bootstrap.servers": kafka}, ns, (f"{ns}-in", 0), memory)
        probe = KafkaProbe(source, 0)
        wait_until(lambda probe=probe: probe.result() is not None, 60, "the result of the probe")
        outcome = probe.result()
        assert outcome is not None
        assert outcome.until == shown, outcome


@pytest.mark.timeout(200)
def test_a_batch_that_takes_long_to_come_ends_the_process_in_its_place_too(cluster: Cluster, ns: str) -> None:
    """A processor that is shared unpacks a large batch in more than the five seconds of earlier releases."""
    admin = AdminClient({"bootstrap.servers": cluster.url})
    admin.create_topics([NewTopic(ns, 1)])[ns].result(30)
    one_batch(cluster.url, ns, "gzip")
    cluster.ways[0][0].delay(0.9)
    probe = KafkaProbe(ApartSource({"bootstrap.servers": cluster.bootstrap(0)}, ns, (ns, 0), 1), 0)
    result = wait_until(lambda: probe.result(), 150, "the result of the probe")
    assert (result.until, result.failure) == (0, "")
    assert result.why.startswith("the process that fetched it ended")
