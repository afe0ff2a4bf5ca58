"""Forwarders that write records in another format, as events, or with rows, with a death at every place."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams.config.loading import load
from sluicegate.streams.rules.document import document
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.schemas.protos import descriptors
from tests.unit.testing.files import crashed

FILE = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
dead_letters: dead
agents:
  copies:
    from: in
    READS
    to: {topic: out, WRITES}
tests:
  it:
"""
ORDER = {"id": "string", "amount": "double"}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in ORDER.items()]}
ROW = {"type": "record", "name": "Owner", "fields": [{"name": "name", "type": "string"}]}
WITH_ROW = AVRO | {"fields": [*AVRO["fields"], {"name": "owner", "type": ["null", ROW], "default": None}]}
PROTO = 'syntax = "proto3"; message Order { string id = 1; double amount = 2; }'
READS = {
    "json": "format: json",
    "avro": "format: avro\n    schema: order.avsc",
    "protobuf": "format: protobuf\n    schema: order.desc\n    message: Order",
    "json-schema": "format: json-schema\n    schema: order.json\n    validate: true",
}
WRITES = {
    "json": "format: json",
    "avro": "format: avro, schema: order.avsc",
    "protobuf": "format: protobuf, schema: order.desc, message: Order",
    "json-schema": "format: json-schema, schema: order.json, validate: true",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "row.avsc").write_text(json.dumps(WITH_ROW))
    (tmp_path / "order.desc").write_bytes(descriptors(PROTO))
    (tmp_path / "order.json").write_text(json.dumps({"type": "object", "required": ["id", "amount"]}))
    return tmp_path


def file(reads: str, writes: str) -> str:
    return FILE.replace("READS", reads).replace(", WRITES", f", {writes}" if writes else "")


def passes(folder: Path, head: str, steps: str) -> None:
    verdict = crashed(folder, steps, head)
    assert verdict.failure is None, verdict.failure.text
    assert verdict.deaths > 5


def driver(folder: Path, head: str) -> TestDriver:
    (folder / "app.yaml").write_text(head.partition("tests:")[0].replace("${BROKER}", "embedded"))
    outcome = load(folder / "app.yaml", {})
    assert outcome.app is not None, [str(problem) for problem in outcome.problems]
    return TestDriver(outcome.app)


def options(reads: str) -> SchemaOptions | None:
    kinds = {"avro": SchemaOptions(json.dumps(AVRO)), "json-schema": SchemaOptions("", kind="JSON")}
    return kinds.get(reads)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("writes", WRITES)
def test_a_record_of_any_format_goes_on_in_any_other(reads: str, writes: str, folder: Path) -> None:
    steps = (
        "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}, headers: {h: x}}\n"
        "- send: {topic: in, key: b, value: {id: ö, amount: 3}}\n"
        "- expect: {topic: out, key: a, value: {id: o-1, amount: 2.5}, headers: {h: x}}\n"
        "- expect: {topic: out, key: b, value: {id: ö, amount: 3}}\n"
    )
    passes(folder, file(READS[reads], WRITES[writes]), steps)


@pytest.mark.parametrize("reads", ["json", "avro"])
@pytest.mark.parametrize("writes", ["json", "avro"])
def test_the_bytes_are_those_of_the_format_of_the_output(reads: str, writes: str, folder: Path) -> None:
    made = driver(folder, file(READS[reads], WRITES[writes]))
    value = {"id": "o-1", "amount": 2.5}
    came = codec(reads, options(reads)).encode(value)
    made.send("in", came, key="k")
    [output] = made.read("out")
    assert output.raw == codec(writes, options(writes)).encode(value)


def test_json_that_becomes_an_event_stays_byte_for_byte(folder: Path) -> None:
    made = driver(folder, file(READS["json"], "envelope: {cloudevents: binary, type: t}"))
    value = b'{ "id":  "o-1", "big": 12345678901234567890123 }'
    made.send("in", value)
    made.send("in", b"{")
    [output] = made.read("out")
    assert (output.raw, output.headers["ce_type"], output.headers["content-type"]) == (value, "t", "application/json")
    assert [letter.headers["sluicegate-dead-reason"] for letter in made.read("dead")] == ["undecodable"]


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_record_becomes_an_event_of_json(reads: str, mode: str, folder: Path) -> None:
    envelope = f"envelope: {{cloudevents: {mode}, type: order, source: /shop}}"
    steps = "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}}\n"
    if mode == "binary":
        headers = "{ce_type: order, ce_source: /shop, content-type: application/json}"
        steps += f"- expect: {{topic: out, key: a, value: {{id: o-1, amount: 2.5}}, headers: {headers}}}\n"
    else:
        event = "{type: order, source: /shop, partitionkey: a, data: {id: o-1, amount: 2.5}}"
        steps += f"- expect: {{topic: out, key: a, value: {event}}}\n"
    passes(folder, file(READS[reads], envelope), steps)


def test_a_record_becomes_an_event_in_a_format(folder: Path) -> None:
    steps = (
        "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}}\n"
        "- expect: {topic: out, key: a, value: {id: o-1, amount: 2.5}, headers: {content-type: application/avro}}\n"
    )
    passes(folder, file("format: json", WRITES["avro"] + ", envelope: {cloudevents: binary, type: t}"), steps)


@pytest.mark.parametrize(
    ("value", "reason"), [(b"{", "undecodable"), (b'{"id": "a"}', "unencodable"), (b"[1]", "unencodable")]
)
def test_what_cannot_be_converted_is_a_dead_letter_as_it_came(value: bytes, reason: str, folder: Path) -> None:
    made = driver(folder, file(READS["json"], WRITES["avro"]))
    made.send("in", value, key="k")
    [letter] = made.read("dead")
    assert (letter.raw, letter.headers["sluicegate-dead-reason"]) == (value, reason)
    assert value.decode()[5:-1] not in letter.headers["sluicegate-dead-error"] or len(value) < 8
    assert made.read("out") == []


def test_a_value_that_is_not_valid_for_the_schema_of_the_output_is_a_dead_letter(folder: Path) -> None:
    made = driver(folder, file(READS["json"], WRITES["json-schema"]))
    made.send("in", {"id": "a"})
    made.send("in", {"id": "a", "amount": 1})
    assert [letter.headers["sluicegate-dead-reason"] for letter in made.read("dead")] == ["unencodable"]
    assert [output.value for output in made.read("out")] == [{"id": "a", "amount": 1}]


@pytest.mark.parametrize("writes", WRITES.values())
def test_a_record_without_a_value_deletes_in_the_output_as_well(writes: str, folder: Path) -> None:
    made = driver(folder, file(READS["avro"], writes))
    made.send("in", None, key="k")
    assert [(output.key, output.raw) for output in made.read("out")] == [("k", None)]


def test_without_a_key_that_says_so_avro_goes_on_byte_for_byte(folder: Path) -> None:
    for writes in ("", "format: avro", "format: raw"):
        made = driver(folder, file(READS["avro"], writes))
        made.send("in", b"\xff", key="k")
        assert [output.raw for output in made.read("out")] == [b"\xff"]


def test_an_event_that_is_converted_is_no_event_any_more(folder: Path) -> None:
    head = file("format: json", "format: json-schema").replace("from: in", "from: {topic: in, envelope: cloudevents}")
    made = driver(folder, head)
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "own": "x"}
    made.send("in", {"n": 1}, headers=headers)
    [output] = made.read("out")
    assert (output.value["id"], output.value["data"]) == ("1", {"n": 1})
    assert {name: output.headers.get(name) for name in ("content-type", "ce_id", "own")} == {
        "content-type": None,
        "ce_id": None,
        "own": "x",
    }


LOOKUP = "\n    lookup: {owner: {topic: owners, key: id, fields: [name]}}"
TOLD = (
    "- send: {topic: owners, key: o-1, value: {name: Ann}}\n"
    "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}}\n"
    "- send: {topic: in, key: b, value: {id: o-2, amount: 3}}\n"
    "- expect: {topic: out, key: a, value: {id: o-1, amount: 2.5, owner: {name: Ann}}}\n"
    "- expect: {topic: out, key: b, value: {id: o-2, amount: 3, owner: null}}\n"
)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("writes", ["", "format: avro, schema: row.avsc"])
def test_a_row_is_added_to_a_record_of_any_format(reads: str, writes: str, folder: Path) -> None:
    passes(folder, file(READS[reads] + LOOKUP, writes), TOLD)


@pytest.mark.parametrize("reads", READS)
def test_a_row_of_a_table_is_added_and_may_be_waited_for(reads: str, folder: Path) -> None:
    lookup = "{table: owners, column: id, key: id, fields: [name], missing: {wait: 30s}}"
    steps = (
        "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}}\n"
        "- expect_nothing: out\n"
        "- row: {table: owners, key: o-1, value: {name: Ann}}\n"
        "- advance: 10s\n"
        "- expect: {topic: out, key: a, value: {id: o-1, owner: {name: Ann}}}\n"
        "- send: {topic: in, key: b, value: {id: o-2, amount: 2.5}}\n"
        "- advance: 1m\n"
        "- expect: {topic: dead, key: b, value: {id: o-2, amount: 2.5}, reason: lookup-missing}\n"
    )
    head = file(f"{READS[reads]}\n    lookup: {{owner: {lookup}}}", "").replace("memory://", "sqlite:///state.db")
    passes(folder, head, steps)


def test_routes_and_a_new_key_see_the_row_of_an_avro_record(folder: Path) -> None:
    routes = "[{topic: ann, where: owner.name == 'Ann', format: avro, schema: row.avsc}, {topic: out, select: [owner]}]"
    head = file(READS["avro"] + LOOKUP + "\n    key: owner.name", "").replace("{topic: out}", routes)
    steps = (
        "- send: {topic: owners, key: o-1, value: {name: Ann}}\n"
        "- send: {topic: owners, key: o-2, value: {name: Bob}}\n"
        "- send: {topic: in, key: a, value: {id: o-1, amount: 2.5}}\n"
        "- send: {topic: in, key: b, value: {id: o-2, amount: 3}}\n"
        "- send: {topic: in, key: c, value_base64: AAAA}\n"
        "- expect: {topic: ann, key: Ann, value: {id: o-1, owner: {name: Ann}}}\n"
        "- expect: {topic: out, key: Bob, value: {owner: {name: Bob}}}\n"
        "- expect: {topic: dead, key: c, reason: undecodable}\n"
    )
    passes(folder, head, steps)


@pytest.mark.parametrize(
    ("reads", "writes", "problem"),
    [
        ("json", "format: avro", "has no schema, and a record that is forwarded has none of its own"),
        ("avro", "format: avro, schema: row.avsc", ""),
        ("avro", "format: avro, schema: less.avsc", "lacks amount: fields of the record"),
        ("protobuf", "format: avro, schema: more.avsc", "has more without a default, which no record has"),
        ("json", "schema: order.avsc", "belongs to format: avro, but the format is json"),
    ],
)
def test_what_check_says_of_a_schema_of_the_output(folder: Path, reads: str, writes: str, problem: str) -> None:
    (folder / "less.avsc").write_text(json.dumps(AVRO | {"fields": AVRO["fields"][:1]}))
    more = [*AVRO["fields"], {"name": "more", "type": "long"}]
    (folder / "more.avsc").write_text(json.dumps(AVRO | {"fields": more}))
    (folder / "app.yaml").write_text(file(READS[reads], writes).partition("tests:")[0].replace("${BROKER}", "embedded"))
    outcome = load(folder / "app.yaml", {})
    assert [str(item) for item in outcome.problems if problem not in str(item)] == []
    assert bool(outcome.problems) == bool(problem)


def test_what_is_written_anew_is_part_of_the_rule(folder: Path) -> None:
    def to(reads: str, writes: str) -> Any:
        made = driver(folder, file(READS[reads], writes))
        return document(made.app.agents[0])["to"]

    assert to("avro", "") == to("avro", "format: avro") == {"topic": "out"}
    assert to("avro", "format: json") == {"topic": "out", "format": "json"}
    assert to("json", "format: json") == {"topic": "out"}
