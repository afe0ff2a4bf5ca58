"""Protobuf and JSON Schema with a real schema registry (Apicurio), and confluent-kafka's own serializers and
deserializers on the other side."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sluicegate.connectors import open_registry, open_store
from sluicegate.schemas import SchemaOptions
from sluicegate.schemas.protobuf_schema import files
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Reducer, Registry
from sluicegate.streams.cli.opening.registry import findings
from sluicegate.streams.versions import catalogue
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_avro import command
from tests.integration.test_registry import taken
from tests.servers import Server
from tests.servers.apicurio import Apicurio
from tests.unit.schemas.protos import descriptors, encoded, kind
from tests.waiting import wait_until

PARTS = {"money": 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'}
ORDER = """
syntax = "proto3"; package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Order { double amount = 1; Money money = 2; google.protobuf.Timestamp at = 3; }
message Other { int32 n = 1; }
"""
NEWER = ORDER.replace("message Order {", "message First { int32 n = 1; } message Order { string by = 4;")
RESULT = """
syntax = "proto3"; package shop;
message Result {
  string key = 1; int64 count = 2; string reason = 3; string opened_at = 4; string closed_at = 5; double total = 6;
}
"""
JSON_ORDER = {"title": "Order", "type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
JSON_RESULT = {"title": "Result", "type": "object", "properties": {"total": {"type": "number"}}}
FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
http: {port: 0}
schema_registry: {url: URL, timeout: 1s}
agents:
  amounts:
    from: NS-orders
    format: FORMAT
    INPUT
    framing: confluent
    dead_letters: NS-dead
    aggregate: {count: 1, compute: {total: {sum: amount}}}
    to: {topic: NS-amounts, format: FORMAT, OUTPUT, framing: confluent, register: true}
"""
DIALECT = "http://json-schema.org/draft-07/schema#"
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]}
NEWER_AVRO = {**AVRO, "fields": [*AVRO["fields"], {"name": "by", "type": "string", "default": ""}]}
KEYS = {
    "avro": ("# no schema: the newest one", "subject: topic"),
    "protobuf": ("schema: order.desc\n    message: shop.Order", "schema: result.desc"),
    "json-schema-by-id": ("validate: true", "schema: result.json, validate: true"),
    "json-schema": ("schema: order.json\n    validate: true", "schema: result.json, validate: true"),
}


class Scene:
    def __init__(self, folder: Path, kafka: str, ns: str, server: Server, version: str, form: str) -> None:
        self.ns, self.server, self.version, self.file = ns, server, version, folder / "shop.yaml"
        create(kafka, *(f"{ns}-{name}" for name in ("orders", "amounts", "dead")))
        (folder / "order.desc").write_bytes(descriptors(ORDER, **PARTS))
        (folder / "result.desc").write_bytes(descriptors(RESULT))
        (folder / "order.json").write_text(json.dumps(JSON_ORDER))
        (folder / "result.json").write_text(json.dumps(JSON_RESULT))
        text = (
            FILE.replace("INPUT", KEYS[form][0])
            .replace("OUTPUT", KEYS[form][1])
            .replace("FORMAT", form.removesuffix("-by-id"))
        )
        self.file.write_text(text.replace("NS", ns).replace("KAFKA", kafka).replace("URL", server.url))
        self.client = SchemaRegistryClient({"url": server.url, "max.retries": 0})
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self.at = SerializationContext(f"{ns}-orders", MessageField.VALUE)
        self.out = SerializationContext(f"{ns}-amounts", MessageField.VALUE)
        self.readers: dict[str, Consumer] = {name: reader(kafka, f"{ns}-{name}") for name in ("amounts", "dead")}
        self.found: dict[str, list[Message]] = {"amounts": [], "dead": []}

    def send(self, value: Any, headers: Any = None) -> None:
        self.producer.produce(f"{self.ns}-orders", value, key="k", headers=headers)
        assert self.producer.flush(20) == 0

    def came(self, topic: str) -> int:
        return taken(self.readers[topic], self.found[topic])

    def different(self, topic: str) -> int:
        """Without the copies that a killed relay sends again."""
        self.came(topic)
        return len({message.value() for message in self.found[topic]})

    def pinned(self) -> list[str]:
        """The reader's schema in each version of the rule."""
        with closing(open_store("sqlite:///state.db", str(self.file.parent))) as store:
            versions = catalogue.read(store, self.ns)["amounts"].versions
        return [
            version.agent.schema.pinned
            for version in versions
            if version.agent is not None and version.agent.schema is not None
        ]

    def reads_results(self) -> Callable[[bytes, SerializationContext], Any]:
        """confluent-kafka's deserializer of Protobuf. Apicurio Registry 3 gives it no descriptor (HTTP 500): then the
        frame is taken off here."""
        result = kind("shop.Result", RESULT)
        if self.version.startswith("2."):
            read: Any = ProtobufDeserializer(result, {"use.deprecated.format": False}, self.client)
            return lambda value, at: read(value, at)
        framed = len(b"\0" + bytes(4) + b"\0")  # the id, and the first message of the file
        return lambda value, at: result.FromString(value[framed:])

    def start(self) -> Run:
        return Run(sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "run", str(self.file))


@pytest.fixture
def scene(
    tmp_path: Path, kafka: str, ns: str, own_server: Callable[..., Server], apicurio: str
) -> Iterator[Callable[[str], Scene]]:
    made: list[Scene] = []

    def make(form: str) -> Scene:
        made.append(Scene(tmp_path, kafka, ns, own_server(Apicurio, version=apicurio), apicurio, form))
        return made[-1]

    yield make
    for case in made:
        for consumer in case.readers.values():
            consumer.close()


@pytest.fixture
def running() -> Iterator[Callable[[Scene], Run]]:
    runs: list[Run] = []

    def start(scene: Scene) -> Run:
        runs.append(scene.start())
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def test_protobuf_of_several_versions_is_read_and_results_are_registered(
    scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    here = scene("protobuf")
    order, newer = kind("shop.Order", ORDER, **PARTS), kind("shop.Order", NEWER, **PARTS)
    other = kind("shop.Other", ORDER, **PARTS)
    plain = {"use.deprecated.format": False}
    loose = {**plain, "subject.name.strategy": record_subject_name_strategy}
    for number in range(5):
        here.send(ProtobufSerializer(order, here.client, plain)(order(amount=number), here.at))
    here.send(ProtobufSerializer(newer, here.client, loose)(newer(amount=5, by="ann"), here.at))
    framed = ProtobufSerializer(order, here.client, plain)(order(amount=6), here.at)
    here.send(framed[6:], [("__value_schema_id", framed[:6])])
    text = here.client.register_schema("text", Schema(RESULT.replace("Result", "Order"), "PROTOBUF"))
    here.send(b"\0" + text.to_bytes(4, "big") + b"\0" + order(amount=7).SerializeToString())
    run = running(here)
    wait_until(lambda: here.came("amounts") >= 8, 60, "the results")
    assert here.came("dead") == 0
    read = here.reads_results()
    results = [read(message.value(), here.out) for message in here.found["amounts"]]
    assert sorted(result.total for result in results) == [float(number) for number in range(8)]
    assert {result.count for result in results} == {1}
    assert here.client.get_latest_version(f"{here.ns}-amounts-value").version == 1
    here.send(ProtobufSerializer(other, here.client, loose)(other(n=1), here.at))
    here.send(b"\0\0\1\0\0\0")
    wait_until(lambda: here.came("dead") >= 2, 30, "the dead letters")
    texts = [dict(letter.headers())["sluicegate-dead-error"].decode() for letter in here.found["dead"]]
    assert texts[0] == "is shop.Other, not shop.Order"
    assert "has no schema with id 65536" in texts[1]
    run.signal(SIGTERM)
    assert run.exit_code(40) == 0


def test_protobuf_goes_on_from_the_store_while_the_registry_is_down_and_a_new_id_waits(
    scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    here = scene("protobuf")
    order, newer = kind("shop.Order", ORDER, **PARTS), kind("shop.Order", NEWER, **PARTS)
    plain = {"use.deprecated.format": False}
    old = ProtobufSerializer(order, here.client, plain)
    new = ProtobufSerializer(newer, here.client, {**plain, "subject.name.strategy": record_subject_name_strategy})
    new(newer(), here.at)
    here.send(old(order(amount=0), here.at))
    run = running(here)
    wait_until(lambda: here.came("amounts") >= 1, 60, "the first result")
    here.server.kill9()
    run.signal(SIGKILL)
    run.exit_code(20)
    run.close()
    here.send(old(order(amount=1), here.at))
    again = running(here)
    wait_until(lambda: here.different("amounts") >= 2, 60, "a result of a known schema")
    here.send(new(newer(amount=2), here.at))
    again.wait("record.unresolved", 1, timeout=60)
    here.server.restart()
    wait_until(lambda: here.different("amounts") >= 3, 90, "the result of the new schema")
    assert here.came("dead") == 0


def test_json_schema_is_read_validated_and_written(
    scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    here = scene("json-schema")
    write = JSONSerializer(json.dumps(JSON_ORDER), here.client)
    for number in range(5):
        here.send(write({"amount": float(number)}, here.at))
    schema = json.dumps({"$schema": DIALECT, "title": "Any"})
    anything = JSONSerializer(schema, here.client, conf={"subject.name.strategy": lambda *_: "anything"})
    here.send(anything({"amount": "c4n4ry"}, here.at))
    framed = write({"amount": 5.0}, here.at)
    here.send(framed[5:], [("__value_schema_id", framed[:5])])
    running(here)
    wait_until(lambda: here.came("amounts") >= 6 and here.came("dead") >= 1, 60, "the results")
    read = JSONDeserializer(None, schema_registry_client=here.client)
    results = [read(message.value(), here.out) for message in here.found["amounts"]]
    assert sorted(result["total"] for result in results) == [float(number) for number in range(6)]
    [letter] = here.found["dead"]
    assert dict(letter.headers())["sluicegate-dead-error"] == (
        b"is not valid: it breaks properties.amount.type of the schema"
    )


def test_json_is_validated_with_the_schema_of_its_id_and_an_id_is_looked_up(
    scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    here = scene("json-schema-by-id")
    write = JSONSerializer(json.dumps(JSON_ORDER), here.client)
    newer = {**JSON_ORDER, "$schema": DIALECT, "required": ["amount", "by"]}
    strict = JSONSerializer(json.dumps(newer), here.client, conf={"subject.name.strategy": lambda *_: "newer"})
    id_of_newer = strict({"amount": 0.0, "by": "ann"}, here.at)[:5]
    here.send(write({"amount": 0.0}, here.at))
    run = running(here)
    wait_until(lambda: here.came("amounts") >= 1, 60, "the first result")
    here.server.kill9()
    run.signal(SIGKILL)
    run.exit_code(20)
    run.close()
    here.send(write({"amount": 1.0}, here.at))
    again = running(here)
    wait_until(lambda: here.different("amounts") >= 2, 60, "a result of a known schema")
    here.send(id_of_newer + b'{"amount": 2.0, "by": "ann"}')
    here.send(id_of_newer + b'{"amount": 3.0}')
    here.send(b'\0\0\1\0\0{"amount": 4.0}')
    again.wait("record.unresolved", 1, timeout=60)
    assert (here.different("amounts"), here.came("dead")) == (2, 0)
    here.server.restart()
    wait_until(lambda: here.different("amounts") >= 3 and here.came("dead") >= 2, 90, "the rest")
    texts = [dict(letter.headers())["sluicegate-dead-error"].decode() for letter in here.found["dead"]]
    assert texts[0] == "is not valid: it breaks required of the schema"
    assert "has no schema with id 65536" in texts[1]


def test_a_set_with_imports_is_registered_file_by_file_and_comes_back_whole(
    own_server: Callable[..., Server], apicurio: str
) -> None:
    server = own_server(Apicurio, version=apicurio)
    ours, theirs = open_registry(Registry((server.url,))), SchemaRegistryClient({"url": server.url})
    text = encoded(ORDER, **PARTS)
    id = ours.id("orders-value", text, True, "PROTOBUF")
    assert ours.id("orders-value", text, False, "PROTOBUF") == id
    ours.fits("orders-value", text, "PROTOBUF")
    [reference] = theirs.get_schema(id).references
    assert (reference.name, theirs.get_latest_version("money.proto").version) == ("money.proto", 1)
    assert [file.name for file in files(ours.schema(id, "PROTOBUF"))] == ["money.proto", "main.proto"]
    order = kind("shop.Order", ORDER, **PARTS)
    at = SerializationContext("orders", MessageField.VALUE)
    written = ProtobufSerializer(order, theirs, {"use.deprecated.format": False, "auto.register.schemas": False})
    assert int.from_bytes(written(order(amount=1), at)[1:5], "big") == id


def test_the_newest_schema_of_the_first_start_is_kept_by_a_restart_while_the_registry_is_down(
    scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    """The newer schema, which nobody had when the agent first ran, is not taken by a restart; `deploy` takes it."""
    here = scene("avro")
    old, newer = (AvroSerializer(here.client, json.dumps(schema)) for schema in (AVRO, NEWER_AVRO))
    here.send(old({"amount": 0.0}, here.at))
    run = running(here)
    wait_until(lambda: here.came("amounts") >= 1, 60, "the first result")
    here.send(newer({"amount": 1.0, "by": "ann"}, here.at))
    wait_until(lambda: here.came("amounts") >= 2, 60, "a result of the newer schema")
    for number, away in ((2, False), (3, True)):
        if away:
            here.server.kill9()
        run.signal(SIGKILL)
        run.exit_code(20)
        run.close()
        here.send(old({"amount": float(number)}, here.at))
        run = running(here)
        wait_until(lambda wanted=number: here.different("amounts") > wanted, 60, "a result after the restart")
        assert (here.came("dead"), here.pinned()) == (0, [f"{here.ns}-orders-value:1"])
    here.server.restart()
    subprocess.run(command("deploy", str(here.file), "--yes", "--no-wait"), check=True, timeout=60)
    assert here.pinned() == [f"{here.ns}-orders-value:{number}" for number in (1, 2)]
    here.send(newer({"amount": 4.0, "by": "ann"}, here.at))
    wait_until(lambda: here.came("amounts") >= 5, 60, "a result of the next version")
    assert here.came("dead") == 0
    run.signal(SIGTERM)
    assert run.exit_code(40) == 0


def versioned(url: str, form: str, pinned: str, **keys: Any) -> App:
    options = SchemaOptions("", None, "confluent", registry=url, pinned=pinned, **keys)
    rule = Aggregation("by", count=2, compute=(Reducer("total", "sum", "amount"),))
    made = Agent("sums", ("orders",), rule, Destination("out"), "dead", format=form, schema=options, where="flag")
    return App("a", "memory://", (made,), {}, registry=Registry((url,)))


NAMES = ("amount", "by", "flag")
AVRO_TYPES = {"amount": "long", "by": "string", "flag": "boolean"}
PROTO_TYPES = {"amount": "int64", "by": "string", "flag": "bool"}


def avro_of(*fields: str, **default: Any) -> str:
    kinds = [{"name": name, "type": AVRO_TYPES[name]} for name in fields]
    schema_fields = [{**kind, "default": default[kind["name"]]} if default else kind for kind in kinds]
    return json.dumps({"type": "record", "name": "R", "fields": schema_fields})


def proto_of(*fields: str) -> str:
    lines = "".join(f"{PROTO_TYPES[name]} {name} = {NAMES.index(name) + 1};" for name in fields)
    return encoded(f'syntax = "proto3"; message R {{ {lines} }}')


def problems(app: App) -> list[str]:
    return [finding.text for finding in findings(app) if not finding.ok]


def test_check_finds_the_versions_that_lack_a_field_that_the_agent_uses(
    own_server: Callable[..., Server], apicurio: str
) -> None:
    server = own_server(Apicurio, version=apicurio)
    client = SchemaRegistryClient({"url": server.url})
    for fields in (("amount",), NAMES, ("by", "flag")):
        client.register_schema("orders-value", Schema(avro_of(*fields), "AVRO"))
        client.set_compatibility("orders-value", "NONE")
    assert problems(versioned(server.url, "avro", "orders-value:2")) == [
        "subject orders-value version 1 lacks by, flag, which agent sums uses",
        "subject orders-value version 3 lacks amount, which agent sums uses",
    ]
    client.register_schema("orders-value", Schema(avro_of(*NAMES, amount=0, by="", flag=False), "AVRO"))
    assert problems(versioned(server.url, "avro", "orders-value:4")) == []
    [answers, missing] = findings(versioned(server.url, "avro", "none-value:1"))
    assert (answers.ok, missing.ok) == (True, False)
    assert "has no schema with id none-value:1" in missing.text


def test_check_takes_a_protobuf_version_that_lacks_newer_fields(
    own_server: Callable[..., Server], apicurio: str
) -> None:
    server = own_server(Apicurio, version=apicurio)
    ours = open_registry(Registry((server.url,)))
    for fields in (("amount",), NAMES):
        ours.id("p-value", proto_of(*fields), True, "PROTOBUF")
    protobuf = {"message": "R", "kind": "PROTOBUF"}
    # Records of version 1 have the defaults of version 2.
    assert problems(versioned(server.url, "protobuf", "p-value:2", **protobuf)) == []
    assert problems(versioned(server.url, "protobuf", "p-value:1", **protobuf)) == [
        "agents.sums.where: no field flag in p-value:1",
        "agents.sums.key: needs by, but p-value:1 has no such field",
        "subject p-value version 1 lacks by, flag, which agent sums uses",
    ]
