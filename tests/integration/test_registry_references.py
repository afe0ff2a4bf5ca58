"""Avro schemas that refer to other subjects of a real registry (Apicurio), over two levels, written by
confluent-kafka's own serializer."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_avro import command
from tests.integration.test_registry import taken
from tests.servers import Server
from tests.servers.apicurio import Apicurio
from tests.waiting import wait_until


def record(name: str, *fields: tuple[str, Any]) -> str:
    """Its fields name the types of other schemas, which are in the registry."""
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


MONEY = record("shop.money.Money", ("cents", "long"), ("unit", "shop.money.Unit"))
UNIT = json.dumps({"type": "enum", "name": "shop.money.Unit", "symbols": ["EUR", "USD"]})
TAX = {"type": "record", "name": "Tax", "fields": [{"name": "rate", "type": "double"}]}
LINE = record("shop.Line", ("sku", "string"), ("price", "shop.money.Money"), ("tax", ["null", TAX]))
ORDER = record(
    "shop.Order",
    ("total", "shop.money.Money"),
    ("lines", {"type": "array", "items": "shop.Line"}),
    ("discount", ["null", "shop.money.Money"]),
    ("by_unit", {"type": "map", "values": "shop.money.Unit"}),
)
SCHEMAS = {
    "shop.money.Unit": (UNIT, []),
    "shop.money.Money": (MONEY, ["shop.money.Unit"]),
    "shop.Line": (LINE, ["shop.money.Money"]),
}
FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
http: {port: 0}
schema_registry: {url: URL, timeout: 2s}
agents:
  sums:
    from: NS-orders
    start: earliest
    format: avro
    framing: confluent
    dead_letters: NS-dead
    aggregate: {count: 1, compute: {cents: {sum: total.cents}, rows: collect}}
    to: {topic: NS-sums}
"""


def order(number: int) -> dict[str, Any]:
    money = {"cents": number, "unit": "EUR"}
    return {
        "total": money,
        "lines": [
            {"sku": "a", "price": money, "tax": None},
            {"sku": "b", "price": {"cents": 1, "unit": "USD"}, "tax": {"rate": number / 4}},
        ],
        "discount": None if number % 2 else {"cents": 2, "unit": "USD"},
        "by_unit": {"first": "USD"},
    }


class Scene:
    def __init__(self, folder: Path, kafka: str, ns: str, url: str) -> None:
        self.ns, self.file = ns, folder / "shop.yaml"
        create(kafka, *(f"{ns}-{name}" for name in ("orders", "sums", "dead")))
        self.file.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("URL", url))
        self.client = SchemaRegistryClient({"url": url, "max.retries": 0})
        for subject, (text, names) in SCHEMAS.items():
            self.client.register_schema(subject, Schema(text, "AVRO", references(names)))
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self.results: list[Message] = []
        self.letters: list[Message] = []
        self.readers: list[Consumer] = [reader(kafka, f"{ns}-{name}") for name in ("sums", "dead")]

    def send(self, numbers: range, text: str = ORDER, **more: Any) -> None:
        schema = Schema(text, "AVRO", references(["shop.Line", "shop.money.Money", "shop.money.Unit"]))
        written = AvroSerializer(self.client, schema)
        at = SerializationContext(f"{self.ns}-orders", MessageField.VALUE)
        for number in numbers:
            self.producer.produce(f"{self.ns}-orders", written(order(number) | more, at), key="k")
        assert self.producer.flush(20) == 0

    def rows(self) -> list[dict[str, Any]]:
        taken(self.readers[0], self.results)
        return [json.loads(message.value())["rows"][0] for message in self.results]

    def no_letters(self) -> None:
        taken(self.readers[1], self.letters)
        assert [dict(message.headers())["sluicegate-dead-error"] for message in self.letters] == []

    def close(self) -> None:
        for consumer in self.readers:
            consumer.close()


def references(names: list[str]) -> list[SchemaReference]:
    return [SchemaReference(name, name, 1) for name in names]


@pytest.fixture
def scene(tmp_path: Path, kafka: str, ns: str, own_server: Callable[..., Server], apicurio: str) -> Iterator[Scene]:
    made = Scene(tmp_path, kafka, ns, own_server(Apicurio, version=apicurio).url)
    yield made
    made.close()


def test_records_of_a_schema_with_references_over_two_levels_are_read(scene: Scene) -> None:
    scene.send(range(10))
    checked = subprocess.run(
        command("check", str(scene.file), "--connect", "--sample", "10"), capture_output=True, text=True, timeout=90
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "undecodable" not in checked.stdout
    run = Run(*command("run", str(scene.file)))
    try:
        wait_until(lambda: len(scene.rows()) == 10, 60, "the first results")
        newer = json.loads(ORDER)
        newer["fields"].append({"name": "by", "type": ["null", "shop.Line"], "default": None})
        scene.send(range(10, 20), json.dumps(newer), by=order(1)["lines"][0])
        wait_until(lambda: len(scene.rows()) == 20, 60, "the results of the newer schema")
        assert scene.rows() == [order(number) for number in range(20)]  # as the pinned version has them
        scene.no_letters()
        run.signal(SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
