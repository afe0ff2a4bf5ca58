"""`select`, routes, lookups and CloudEvents with outputs in formats with schemas, with a death at every place."""

import json
from pathlib import Path

import pytest

from sluicegate.streams.config.loading import load
from tests.unit.schemas.protos import descriptors
from tests.unit.testing.files import crashed

HEAD = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
dead_letters: dead
agents:
  baskets:
    from: in
    aggregate: {count: 2, compute: {spent: {sum: amount}, last: {last: status}}}
    LOOKUP
    to: TO
TABLE
tests:
  it:
"""
STEPS = """\
- send: {topic: in, key: a, value: {amount: 2, status: open}}
- send: {topic: in, key: a, value: {amount: 3, status: [paid]}}
- send: {topic: in, key: b, value: {amount: 200, status: x}}
- send: {topic: in, key: b, value: {amount: 300, status: y}}
"""
OTHER = "- expect: {topic: out, key: b}\n"
SELECT = "{key: key, spent: spent, last: last, half: double(spent) / 2, big: spent > 100, any: 'default(last, null)'}"
PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Chosen { string key = 1; double half = 2; }
"""


def file(to: str, lookup: str = "", table: str = "") -> str:
    return HEAD.replace("TO", to).replace("LOOKUP", lookup).replace("TABLE", table)


def passes(folder: Path, head: str, steps: str) -> None:
    verdict = crashed(folder, steps, head)
    assert verdict.failure is None, verdict.failure.text
    assert verdict.deaths > 20


def schema(folder: Path, head: str) -> dict[str, object]:
    """The fields of the Avro schema that follows from the file."""
    (folder / "app.yaml").write_text(head.partition("tests:")[0].replace("${BROKER}", "embedded"))
    app = load(folder / "app.yaml", {}).app
    assert app is not None
    [avro] = [to.schema for to in app.agents[0].outputs if to.schema]
    return {field["name"]: field["type"] for field in json.loads(avro.schema)["fields"]}


TEXT = {"type": "string", "contentMediaType": "application/json"}


def test_select_is_written_as_avro_with_the_types_that_are_known(tmp_path: Path) -> None:
    head = file(f"{{topic: out, format: avro, select: {SELECT}}}")
    assert schema(tmp_path, head) == {
        "key": ["null", "string"],
        "spent": ["null", "long", "double"],
        "last": ["null", TEXT],
        "half": ["null", "double"],
        "big": ["null", "boolean"],
        "any": ["null", TEXT],
    }
    one = "{key: a, spent: 5, last: [paid], half: 2.5, big: false, any: [paid]}"
    passes(
        tmp_path, head, STEPS + f"- expect: {{topic: out, key: a, value: {one}}}\n- expect: {{topic: out, key: b}}\n"
    )


def test_each_route_has_its_own_format(tmp_path: Path) -> None:
    (tmp_path / "chosen.desc").write_bytes(descriptors(PROTO))
    (tmp_path / "any.json").write_text('{"type": "object", "required": ["key"]}')
    routes = (
        "\n      - {topic: all, continue: true, format: avro}"
        "\n      - {topic: big, where: spent > 100, continue: true, format: json-schema, schema: any.json,"
        " validate: true, select: [key, spent], envelope: {cloudevents: structured, type: big}}"
        "\n      - {topic: out, format: protobuf, schema: chosen.desc, message: Chosen,"
        " select: {key: key, half: double(spent) / 2}, envelope: {cloudevents: binary, type: chosen}}"
    )
    expected = (
        "- expect: {topic: all, key: a, value: {key: a, spent: 5, count: 2}}\n"
        "- expect: {topic: all, key: b, value: {key: b, spent: 500}}\n"
        "- expect: {topic: big, key: b, value: {type: big, data: {key: b, spent: 500}}}\n"
        "- expect: {topic: out, key: a, value: {key: a, half: 2.5}, headers: {ce_type: chosen,"
        " content-type: application/protobuf}}\n"
        "- expect: {topic: out, key: b, value: {key: b, half: 250}}\n"
    )
    passes(tmp_path, file(routes), STEPS + expected)


@pytest.mark.parametrize("select", ["", ", select: [key, owner]"])
def test_a_row_is_json_text_in_a_derived_schema(select: str, tmp_path: Path) -> None:
    lookup = "lookup: {owner: {topic: owners, key: key, fields: [name, tags]}}"
    head = file(f"{{topic: out, format: avro, envelope: {{cloudevents: binary, type: t}}{select}}}", lookup)
    assert schema(tmp_path, head)["owner"] == ["null", TEXT]
    steps = "- send: {topic: owners, key: a, value: {name: Ann, tags: [x], more: 1}}\n" + STEPS
    expected = "{key: a, owner: {name: Ann, tags: [x]}}"
    headers = "{content-type: application/avro, ce_type: t}"
    steps += f"- expect: {{topic: out, key: a, value: {expected}, headers: {headers}}}\n"
    passes(tmp_path, head, steps + "- expect: {topic: out, key: b, value: {key: b, owner: null}}\n")


def test_a_row_may_be_a_record_of_the_schema_of_the_user(tmp_path: Path) -> None:
    row = {"type": "record", "name": "Owner", "fields": [{"name": "name", "type": ["null", "string"], "default": None}]}
    fields = [{"name": "key", "type": "string"}, {"name": "owner", "type": ["null", row], "default": None}]
    (tmp_path / "out.avsc").write_text(json.dumps({"type": "record", "name": "Out", "fields": fields}))
    lookup = "lookup: {owner: {topic: owners, key: key, fields: [name]}}"
    head = file("{topic: out, format: avro, schema: out.avsc, select: [key, owner]}", lookup)
    steps = "- send: {topic: owners, key: a, value: {name: Ann}}\n" + STEPS
    passes(tmp_path, head, steps + "- expect: {topic: out, key: a, value: {key: a, owner: {name: Ann}}}\n" + OTHER)


def test_a_forwarder_selects_avro_of_avro(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "double"}]
    (tmp_path / "in.avsc").write_text(json.dumps({"type": "record", "name": "In", "fields": fields}))
    head = """\
app: shop
kafka: {bootstrap.servers: "${BROKER}"}
store: memory://
dead_letters: dead
agents:
  forward:
    from: in
    format: avro
    schema: in.avsc
    let: {twice: amount * 2}
    to: {topic: out, format: avro, select: {id: id, twice: twice, key: message.key, at: message.timestamp}}
tests:
  it:
"""
    assert schema(tmp_path, head) == {
        "id": ["null", "string"],
        "twice": ["null", "double"],
        "key": ["null", "string"],
        "at": ["null", "string"],
    }
    steps = "- send: {topic: in, key: k, value: {id: a, amount: 1.5}}\n"
    passes(tmp_path, head, steps + "- expect: {topic: out, key: k, value: {id: a, twice: 3, key: k}}\n")
