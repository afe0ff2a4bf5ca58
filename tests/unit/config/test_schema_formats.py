"""`format: protobuf` and `format: json-schema` in the file."""

import json
from pathlib import Path

import pytest

from sluicegate.streams.config.checking.values import check
from sluicegate.streams.rules.identity import rule_of
from tests.unit.config.files import agent, lines, loaded
from tests.unit.schemas.protos import ORDER, descriptors, encoded

IN = "from: orders\nformat: protobuf\nschema: order.desc\nmessage: shop.Order\n"
COUNT = "aggregate: {count: 10}\n"
RESULT = """
syntax = "proto3"; package shop;
message Result { string key = 1; int64 count = 2; string reason = 3; string opened_at = 4; string closed_at = 5; }
"""
ONE = "schema_registry: {url: 'http://localhost:8081'}\n"
SCHEMA = json.dumps({"title": "Result", "type": "object"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.desc").write_bytes(descriptors(ORDER))
    (tmp_path / "result.desc").write_bytes(descriptors(RESULT))
    (tmp_path / "order.proto").write_text(ORDER)
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids" / "7.desc").write_bytes(b"\xff")
    (tmp_path / "ids" / "8.json").write_text("[]")
    (tmp_path / "result.json").write_text(SCHEMA)
    return tmp_path


def problems(folder: Path, text: str) -> list[str]:
    return [line.removeprefix("f.yaml:") for line in lines(loaded(folder, text).problems, folder)]


def test_the_file_names_a_set_of_descriptors_and_a_message(folder: Path) -> None:
    to = "to: {topic: t, format: protobuf, schema: result.desc, framing: confluent, subject: record, register: true}"
    file = loaded(folder, agent(f"{IN}framing: confluent\n{COUNT}{to}") + ONE)
    assert file.problems == ()
    [made] = file.app.agents
    assert (made.schema.schema, made.schema.kind, made.schema.message) == (encoded(ORDER), "PROTOBUF", "shop.Order")
    assert (made.schema.registry, made.schema.framing) == ("http://localhost:8081", "confluent")
    assert (made.to.schema.schema, made.to.schema.subject, made.to.schema.register) == (
        encoded(RESULT),
        "{record}",
        True,
    )


def test_json_schema_is_a_file_and_may_be_left_out_where_it_is_read(folder: Path) -> None:
    to = "to: {topic: t, format: json-schema, schema: result.json, validate: true}"
    file = loaded(folder, agent(f"from: orders\nformat: json-schema\n{COUNT}{to}"))
    assert file.problems == ()
    [made] = file.app.agents
    assert (made.schema.schema, made.schema.kind, made.schema.validate) == ("", "JSON", False)
    assert (made.to.schema.schema, made.to.schema.validate) == (SCHEMA, True)


NEW = "write the full name, with its package"
MAKE = "make one with protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto"


BY_ID = "from: orders\nformat: json-schema\nframing: confluent\nwriter_schemas: ids\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            agent(f"{IN}{COUNT}to: {{topic: t}}".replace("shop.Order", "Order")),
            [f"9:5: agents.a.schema: has no message Order; {NEW}"],
        ),
        (
            agent(f"{IN}{COUNT}to: {{topic: t}}".replace("order.desc", "order.proto")),
            [f"9:5: agents.a.schema: is not a set of file descriptors; {MAKE}"],
        ),
        (
            agent(f"{IN}{COUNT}to: {{topic: t}}".replace("order.desc", "none.desc")),
            [
                "9:5: agents.a.schema: cannot be read (FileNotFoundError); name a schema file (.desc), relative to the "
                "folder of this file"
            ],
        ),
        (
            agent(f"from: orders\nformat: protobuf\n{COUNT}to: {{topic: t}}"),
            ["6:3: agents.a: format protobuf has no schema; write schema: FILE.desc"],
        ),
        (
            agent(f"{IN}framing: confluent\nschema_id: 1\nwriter_schemas: ids\n{COUNT}to: {{topic: t}}"),
            [
                "13:5: agents.a.writer_schemas: 7.desc is neither a set of file descriptors nor a .proto file; correct "
                "that file; records of its id cannot be decoded"
            ],
        ),
        (
            agent(f"{IN}writer_schema: order.desc\nvalidate: true\n{COUNT}to: {{topic: t, message: a.B}}"),
            [
                "11:5: agents.a.writer_schema: belongs to format: avro, but the format is protobuf; write format: "
                "avro, or leave it out",
                "12:5: agents.a.validate: belongs to format: json-schema, but the format is protobuf; write format: "
                "json-schema, or leave it out",
                "14:20: agents.a.to.message: belongs to format: protobuf, but the format is json; write format: "
                "protobuf, or leave it out",
            ],
        ),
        (
            agent(f"{IN}{COUNT}to: {{topic: t, format: protobuf, schema: order.desc, message: shop.Order}}"),
            [
                "12:38: agents.a.to.schema: lacks closed_at, count, key, opened_at, reason: fields of the result; "
                "correct it"
            ],
        ),
        (
            agent(f"from: orders\nformat: json-schema\nvalidate: true\n{COUNT}to: {{topic: t}}"),
            ["6:3: agents.a.schema: validate has no schema; write schema: FILE.json"],
        ),
        (
            agent(f"{BY_ID}{COUNT}to: {{topic: t}}"),
            [
                "10:5: agents.a.writer_schemas: 8.json is not a JSON Schema (it is neither an object nor true nor "
                "false); correct that file; records of its id cannot be decoded"
            ],
        ),
        (
            agent(f"from: orders\n{COUNT}to: {{topic: t, format: json-schema, framing: confluent}}") + ONE,
            ["9:5: agents.a.to: format json-schema has no schema; write schema: FILE.json"],
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(folder: Path, text: str, expected: list[str]) -> None:
    assert problems(folder, text) == expected


def test_the_message_and_validation_are_part_of_the_rule(folder: Path) -> None:
    box = f"{IN}{COUNT}to: {{topic: t}}"
    rules = [rule_of(loaded(folder, agent(text)).app.agents[0]) for text in (box, box.replace("Order", "Box"))]
    assert [rule.document["message"] for rule in rules] == ["shop.Order", "shop.Box"]
    assert rules[0].digest != rules[1].digest


PINNED = "from: orders\nformat: avro\nschema: orders-value:3\nframing: confluent\n"


def test_a_schema_may_be_a_version_of_a_subject(folder: Path) -> None:
    file = loaded(folder, agent(f"{PINNED}where: amount > 1\n{COUNT}to: {{topic: t}}") + ONE)
    assert file.problems == ()
    [made] = file.app.agents
    assert (made.schema.schema, made.schema.pinned) == ("", "orders-value:3")
    assert rule_of(made).document["schema"] == "orders-value:3"


@pytest.mark.parametrize("schema", ["schema: orders-value:3\n", "schema: orders-value:latest\n", ""])
def test_schemas_of_writers_stand_in_for_a_version_in_tests(folder: Path, schema: str) -> None:
    text = f"from: orders\nformat: avro\n{schema}framing: confluent\nwriter_schemas: ids\n{COUNT}to: {{topic: t}}"
    (folder / "ids").mkdir(exist_ok=True)
    assert loaded(folder, agent(text) + ONE).problems == ()


@pytest.mark.parametrize(
    ("text", "pinned"),
    [
        (PINNED.replace(":3", ":latest"), "orders-value:latest"),
        ("from: [orders, more]\nformat: avro\nschema: any:latest\nframing: confluent\n", "any:latest"),
        ("from: orders\nformat: avro\nframing: confluent\n", "orders-value:latest"),
        ("from: orders\nformat: protobuf\nframing: confluent\nmessage: shop.Order\n", "orders-value:latest"),
    ],
)
def test_a_schema_may_be_the_newest_of_a_subject(folder: Path, text: str, pinned: str) -> None:
    file = loaded(folder, agent(f"{text}{COUNT}to: {{topic: t}}") + ONE)
    assert file.problems == ()
    [made] = file.app.agents
    assert (made.schema.schema, made.schema.pinned, made.schema.latest) == ("", pinned, True)
    check(file.app)


def test_json_is_read_without_a_newest_schema(folder: Path) -> None:
    text = f"from: orders\nformat: json-schema\nframing: confluent\n{COUNT}to: {{topic: t}}"
    [made] = loaded(folder, agent(text) + ONE).app.agents
    assert (made.schema.pinned, made.schema.latest) == ("", False)


def test_what_an_agent_of_the_file_writes_is_read_as_it_is_written(folder: Path) -> None:
    first = f"{IN}framing: confluent\n{COUNT}to: {{topic: t, format: avro, framing: confluent}}"
    second = "\n  b: {from: t, format: avro, framing: confluent, aggregate: {count: 1}, to: {topic: u}}\n"
    file = loaded(folder, agent(first) + second + ONE)
    assert file.problems == ()
    one, two = file.app.agents
    assert two.schema.schema == one.to.schema.schema != ""
    assert (two.schema.pinned, bool(two.schema.registry)) == ("", True)


def test_both_agents_of_a_repartition_read_the_newest_of_the_input(folder: Path) -> None:
    text = "from: orders\nformat: avro\nframing: confluent\nkey: by\nrepartition: mine\n"
    file = loaded(folder, agent(f"{text}{COUNT}to: {{topic: t}}") + ONE)
    assert file.problems == ()
    assert [agent.schema.pinned for agent in file.app.agents] == ["orders-value:latest"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            agent(f"from: [orders, more]\nformat: avro\nframing: confluent\n{COUNT}to: {{topic: t}}") + ONE,
            [
                "6:3: agents.a: format of several topics has no schema, and each topic has a subject of its own; "
                "write schema: FILE or schema: SUBJECT:latest"
            ],
        ),
        (
            agent(f"{PINNED}{COUNT}to: {{topic: t}}"),
            [
                "9:5: agents.a.schema: is a version of a subject, which only a schema registry has; write "
                "schema_registry: {url: URL} in the file and framing: confluent beside it, or name a schema file"
            ],
        ),
        (
            agent(f"from: orders\n{COUNT}to: {{topic: t, format: avro, schema: 'a:1', framing: confluent}}") + ONE,
            ["9:34: agents.a.to.schema: is a version of a subject, but is to be written; name a schema file"],
        ),
    ],
)
def test_a_version_where_none_can_be(folder: Path, text: str, expected: list[str]) -> None:
    assert problems(folder, text) == expected
