"""A real schema registry (Apicurio), with confluent-kafka's own serializers on the other side."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_avro import command
from tests.servers import Server
from tests.servers.apicurio import Apicurio
from tests.waiting import wait_until


def order(*more: dict[str, Any]) -> str:
    fields = [{"name": "amount", "type": "double"}, *more]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


ORDER, NEWER = order(), order({"name": "by", "type": "string", "default": ""})
FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
http: {port: 0}
schema_registry: {url: [URL, URL], timeout: 1s}
agents:
  amounts:
    from: NS-orders
    format: avro
    schema: order.avsc
    framing: confluent
    dead_letters: NS-dead
    aggregate: {count: 1, compute: {total: {sum: amount}}}
    to: {topic: NS-amounts, format: avro, framing: confluent, register: true}
"""


def taken(consumer: Consumer, into: list[Message]) -> int:
    """Takes what comes within a moment: under load there is always more."""
    into += consumer.consume(10_000, 0.2)
    assert not [message.error() for message in into if message.error() is not None]
    return len(into)


class Scene:
    """One registry, three topics, a file, and confluent-kafka's own clients."""

    def __init__(self, folder: Path, kafka: str, ns: str, server: Server) -> None:
        self.kafka, self.ns, self.server, self.file = kafka, ns, server, folder / "shop.yaml"
        create(kafka, *(f"{ns}-{name}" for name in ("orders", "amounts", "dead")))
        (folder / "order.avsc").write_text(ORDER)
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("URL", server.url)
        self.file.write_text(text)
        self.client = SchemaRegistryClient({"url": server.url, "max.retries": 0})
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self._at = SerializationContext(f"{ns}-orders", MessageField.VALUE)
        self.sent = 0
        self.results: list[Message] = []
        self.letters: list[Message] = []
        self._readers = [reader(kafka, f"{ns}-amounts"), reader(kafka, f"{ns}-dead")]

    def serializer(self, schema: str) -> Callable[..., None]:
        """A function that sends records by confluent-kafka's serializer, which registers the schema now."""
        made = AvroSerializer(self.client, schema)
        made({"amount": 0.0}, self._at)

        def send(count: int = 1, **more: Any) -> None:
            for _ in range(count):
                value = made({"amount": float(self.sent), **more}, self._at)
                self.producer.produce(f"{self.ns}-orders", value, key=f"k{self.sent % 5}")
                self.sent += 1
            assert self.producer.flush(20) == 0

        return send

    def came(self) -> int:
        """How many results there are; a copy of one, which a killed worker may leave, has the same id."""
        taken(self._readers[0], self.results)
        return len(self._distinct())

    def _distinct(self) -> dict[bytes, Message]:
        return {dict(message.headers())["sluicegate-id"]: message for message in self.results}

    def lettered(self) -> int:
        return taken(self._readers[1], self.letters)

    def totals(self) -> list[float]:
        """Read by the schema that the registry has for each result."""
        read = AvroDeserializer(SchemaRegistryClient({"url": self.server.url}))
        at = SerializationContext(f"{self.ns}-amounts", MessageField.VALUE)
        return sorted(read(message.value(), at)["total"] for message in self._distinct().values())

    def all_came(self, seconds: float = 90.0) -> None:
        """Each record once, and no dead letter."""
        wait_until(lambda: self.came() >= self.sent, seconds, "the results")
        assert self.lettered() == 0
        assert self.totals() == [float(number) for number in range(self.sent)]

    def run(self) -> Run:
        return Run(sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "run", str(self.file))

    def close(self) -> None:
        for consumer in self._readers:
            consumer.close()


@pytest.fixture
def scene(tmp_path: Path, kafka: str, ns: str, own_server: Callable[..., Server], apicurio: str) -> Iterator[Scene]:
    made = Scene(tmp_path, kafka, ns, own_server(Apicurio, version=apicurio))
    yield made
    made.close()


@pytest.fixture
def running(scene: Scene) -> Iterator[Callable[[], Run]]:
    runs: list[Run] = []

    def start() -> Run:
        runs.append(scene.run())
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def checked(scene: Scene, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        command("check", str(scene.file), "--json", *words), capture_output=True, text=True, timeout=60
    )
    return done.returncode, [system for system in json.loads(done.stdout)["systems"] if system["system"] == "registry"]


def test_records_of_several_versions_are_read_and_results_are_registered(
    scene: Scene, running: Callable[[], Run]
) -> None:
    scene.serializer(ORDER)(20)
    run = running()
    wait_until(lambda: scene.came() >= 20, 30, "the first results")
    scene.serializer(NEWER)(20, by="ann")
    scene.all_came()
    scene.producer.produce(f"{scene.ns}-orders", b"\0\0\x01\0\0\0", key="k")
    assert scene.producer.flush(20) == 0
    wait_until(lambda: scene.lettered() == 1, 30, "the dead letter of an unknown id")
    [letter] = scene.letters
    assert b"has no schema with id 65536" in dict(letter.headers())["sluicegate-dead-error"]
    assert scene.client.get_latest_version(f"{scene.ns}-amounts-value").version == 1
    run.signal(SIGTERM)
    assert run.exit_code(40) == 0
    assert checked(scene, "--connect") == (
        0,
        [
            {"system": "registry", "ok": True, "text": f"{scene.server.url}, {scene.server.url} answers", "hint": ""},
            {
                "system": "registry",
                "ok": True,
                "text": f"subject {scene.ns}-amounts-value takes the schema",
                "hint": "",
            },
        ],
    )


def test_a_registry_that_is_killed_and_comes_back_under_load_costs_no_record(
    scene: Scene, running: Callable[[], Run]
) -> None:
    known, new = scene.serializer(ORDER), scene.serializer(NEWER)
    known(10)
    run = running()
    wait_until(lambda: scene.came() >= 10, 30, "the first results")
    stop = threading.Event()

    def load() -> None:
        while not stop.wait(0.02):
            known()

    loading = threading.Thread(target=load)
    loading.start()
    try:
        scene.server.kill9()
        before = scene.sent
        wait_until(lambda: scene.came() > before, 30, "results of known schemas")
        stop.set()
        loading.join()
        new(5, by="ann")
        known(5)
        run.wait("record.unresolved", 2, timeout=60)
        away = "the schema registry does not answer"
        wait_until(lambda: run.get("/readyz")[0] == 503 and away in run.get("/readyz")[1], 20, "/readyz to tell")
        code, report = checked(scene, "--connect")
        assert (code, [item["ok"] for item in report]) == (3, [False])
        scene.server.restart()
    finally:
        stop.set()
        loading.join()
    new(20, by="bob")
    scene.all_came()
    wait_until(run.ready, 60, "readiness")


def test_a_worker_that_starts_while_the_registry_is_down_goes_on_from_the_store(
    scene: Scene, running: Callable[[], Run]
) -> None:
    first, then = scene.serializer(ORDER), scene.serializer(NEWER)
    first(20)
    then(20, by="ann")
    run = running()
    wait_until(lambda: scene.came() >= 40, 30, "the first results")
    wait_until(run.ready, 30, "readiness")
    scene.server.kill9()
    run.signal(SIGKILL)
    run.exit_code(20)
    run.close()
    first(20)
    then(20, by="bob")
    again = running()
    wait_until(lambda: scene.came() >= 80, 90, "the results")
    again.signal(SIGTERM)
    assert again.exit_code(40) == 0
    scene.server.restart()
    scene.all_came()


def test_a_schema_that_the_registry_refuses_ends_the_start_in_its_words(
    scene: Scene, running: Callable[[], Run]
) -> None:
    subject = f"{scene.ns}-amounts-value"
    scene.client.register_schema(subject, Schema(ORDER, "AVRO"))
    scene.client.set_compatibility(subject, "BACKWARD")
    code, report = checked(scene, "--connect")
    assert (code, [item["ok"] for item in report]) == (3, [True, False])
    run = running()
    assert run.exit_code(60) == 3
    text = " ".join(run.noise) + json.dumps(run.lines)
    assert f"subject {subject}" in text
    assert "Incompatible" in text
    assert "correct the schema, or the subject's compatibility level" in text


def test_a_schema_that_is_only_looked_up_must_be_there(scene: Scene, running: Callable[[], Run]) -> None:
    scene.file.write_text(scene.file.read_text().replace("register: true", "subject: topic-record"))
    run = running()
    assert run.exit_code(60) == 3
    text = " ".join(run.noise) + json.dumps(run.lines)
    assert f"subject {scene.ns}-amounts-sluicegate.amounts.Result" in text
    assert "register it, or write register: true" in text
