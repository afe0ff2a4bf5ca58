"""`format: avro` in the file: the schema files, what agents have from each other, and every mistake by line and key."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluicegate.schemas import Avro
from sluicegate.streams import formats
from sluicegate.streams.agent import App
from tests.unit.config.files import HEAD, agent, lines, loaded
from tests.unit.schemas.avros import SHOP

TEXT = json.dumps(SHOP)
OLD = json.dumps({**SHOP, "fields": SHOP["fields"][:2]})
OTHER = json.dumps({**SHOP, "fields": [{"name": "amount", "type": "string"}]})
RESULT = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "count", "type": "long"}, {"name": "extra", "type": "int"}],
}
IN, COUNT, TO = "from: orders\nformat: avro", "aggregate: {count: 10}", "to: {topic: totals}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    texts = {
        "order": TEXT,
        "old": OLD,
        "other": OTHER,
        "result": json.dumps(RESULT),
        "none": "{",
        "twice": '["int","int"]',
    }
    for name, text in texts.items():
        (tmp_path / "schemas" / f"{name}.avsc").write_text(text, encoding="utf-8")
    (tmp_path / "ids").mkdir()
    for number, name in [(2, "old"), (3, "other"), (4, "none")]:
        (tmp_path / "ids" / f"{number}.avsc").write_text(texts[name], encoding="utf-8")
    return tmp_path


def problems(folder: Path, text: str) -> list[str]:
    return [line.removeprefix("f.yaml:") for line in lines(loaded(folder, text).problems, folder)]


def test_schemas_are_read_from_the_folder_of_the_file(folder: Path) -> None:
    text = agent(
        f"{IN}\nschema: schemas/order.avsc\nwriter_schema: schemas/old.avsc\nframing: confluent\n{COUNT}\n"
        "to: {topic: totals, format: avro, framing: confluent, schema_id: 7}"
    )
    file = loaded(folder, text)
    assert file.problems == ()
    [made] = file.app.agents
    assert made.schema == Avro(TEXT, OLD, "confluent")
    assert made.to.schema == Avro(formats.result_schema(made), None, "confluent", 7)


def test_the_folder_of_the_writers_schemas_lies_beside_the_file(folder: Path) -> None:
    for name in ("3", "4"):
        (folder / "ids" / f"{name}.avsc").unlink()
    text = agent(
        f"{IN}\nschema: schemas/order.avsc\nwriter_schemas: ids\nframing: confluent\nschema_id: 1\n{COUNT}\n{TO}"
    )
    file = loaded(folder, text)
    assert file.problems == ()
    [made] = file.app.agents
    assert made.schema == Avro(TEXT, None, "confluent", 1, str(folder / "ids"))


def test_an_agent_reads_what_another_one_writes_by_its_schema(folder: Path) -> None:
    text = f"""{HEAD}agents:
  third:
    from: seconds
    format: avro
    aggregate: {{count: 1, compute: {{most: {{max: total}}}}}}
    to: {{topic: thirds, format: avro}}
  second:
    from: firsts
    format: avro
    aggregate: {{count: 1, compute: {{total: {{sum: total}}}}}}
    to: {{topic: seconds, format: avro}}
  first:
    from: orders
    format: avro
    schema: schemas/order.avsc
    aggregate: {{count: 1, compute: {{total: {{sum: amount}}}}}}
    to: {{topic: firsts, format: avro}}
"""
    file = loaded(folder, text)
    assert file.problems == ()
    third, second, first = file.app.agents
    assert (third.schema, second.schema) == (second.to.schema, first.to.schema)
    types = [
        {field["name"]: field["type"] for field in json.loads(entry.to.schema.schema)["fields"]}
        for entry in (first, second, third)
    ]
    assert [types[0]["total"], types[1]["total"], types[2]["most"]] == [["null", "double"]] * 3
    own = loaded(
        folder,
        text.replace(
            "from: firsts\n    format: avro", "from: firsts\n    format: avro\n    schema: schemas/result.avsc"
        ),
    )
    assert own.problems != ()
    assert "cannot be read with `schema`" in str(own.problems)


def test_repartition_reads_by_the_schema_of_its_input(folder: Path) -> None:
    file = loaded(
        folder, agent(f"{IN}\nschema: schemas/order.avsc\nkey: customer\nrepartition: by-customer\n{COUNT}\n{TO}")
    )
    assert file.problems == ()
    assert [agent.schema for agent in file.app.agents] == [Avro(TEXT), Avro(TEXT)]
    chained = f"""{HEAD}agents:
  first: {{from: orders, format: avro, schema: schemas/order.avsc, aggregate: {{count: 1}}, to: {{topic: firsts, \
format: avro}}}}
  second: {{from: firsts, format: avro, key: reason, repartition: by-reason, aggregate: {{count: 1}}, to: {{topic: \
seconds}}}}
"""
    made = loaded(folder, chained)
    assert made.problems == ()
    first, rekey, second = made.app.agents
    assert rekey.schema == second.schema == first.to.schema


def test_a_variable_may_name_the_schema(folder: Path) -> None:
    text = agent(f"{IN}\nschema: ${{S}}\n{COUNT}\n{TO}")
    assert loaded(folder, text, {"S": "schemas/order.avsc"}).app.agents[0].schema == Avro(TEXT)
    assert loaded(folder, text, tolerant=True).problems == ()
    assert [str(problem.key) for problem in loaded(folder, text).problems] == ["agents.a.schema"]


ELSE = "compute something else, or take another field"
COMPUTE = "aggregate: {count: 10, compute: {%s}}"
WRONG = [
    (f"{IN}\n{COUNT}\n{TO}", ["6:3: agents.a: format avro has no schema; write schema: FILE.avsc"]),
    (
        f"{IN}\nschema: nowhere.avsc\n{COUNT}\n{TO}",
        [
            "9:5: agents.a.schema: cannot be read (No such file or directory); name a schema file (.avsc), relative "
            "to the folder of this file"
        ],
    ),
    (
        f"{IN}\nschema: schemas/none.avsc\n{COUNT}\n{TO}",
        [
            "9:5: agents.a.schema: is not an Avro schema (Expecting property name enclosed in double quotes: line 1 "
            "column 2 (char 1)); "
            "correct the schema"
        ],
    ),
    (
        f"{IN}\nschema: schemas/twice.avsc\n{COUNT}\n{TO}",
        ["9:5: agents.a.schema: is not a valid schema: int type already in Union; correct the schema"],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\nwriter_schema: schemas/other.avsc\n{COUNT}\n{TO}",
        [
            "10:5: agents.a.writer_schema: cannot be read with `schema`: customer, reader type: double not "
            "compatible with writer type: string "
            "(at /fields/0, /fields/1/type); give the field a default, or another type; or keep the schemas equal"
        ],
    ),
    (
        f"from: orders\nschema: schemas/order.avsc\n{COUNT}\nto: {{topic: totals, framing: none}}",
        [
            "8:5: agents.a.schema: belongs to format: avro, but the format is json; write format: avro, or leave it "
            "out",
            "10:25: agents.a.to.framing: belongs to format: avro, but the format is json; write format: avro, or "
            "leave it out",
        ],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\nschema_id: 3\n{COUNT}\nto: "
        f"{{topic: totals, format: avro, framing: confluent}}",
        [
            "10:5: agents.a.schema_id: has no meaning without framing; add framing, or leave it out",
            "12:39: agents.a.to.framing: needs schema_id: the id of the schema in the registry; write schema_id: "
            "NUMBER beside it, or schema_registry: {url: URL} in the file",
        ],
    ),
    (
        f"{IN}\nwriter_schema: schemas/old.avsc\nwriter_schemas: nowhere\n{COUNT}\n{TO}",
        [
            "9:5: agents.a.writer_schema: has no meaning without schema; add schema, or leave it out",
            "10:5: agents.a.writer_schemas: excludes writer_schema; keep one of them",
            "10:5: agents.a.writer_schemas: is not a folder; name the folder of the schema files (ID.avsc), relative "
            "to the folder of this file",
            "10:5: agents.a.writer_schemas: needs framing; write framing: confluent",
            "10:5: agents.a.writer_schemas: needs schema; write schema: FILE.avsc, what all records are read as",
            "10:5: agents.a.writer_schemas: needs schema_id; write schema_id: NUMBER, the id of `schema`",
        ],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\nwriter_schemas: ids\nframing: confluent\nschema_id: 1\n{COUNT}\n{TO}",
        [
            "10:5: agents.a.writer_schemas: 3.avsc cannot be read with `schema`: customer, reader type: double not "
            "compatible with writer "
            "type: string (at /fields/0, /fields/1/type); correct that file, or `schema`; records of its id cannot "
            "be decoded",
            "10:5: agents.a.writer_schemas: 4.avsc cannot be read with `schema`: is not an Avro schema (Expecting "
            "property name enclosed in double "
            "quotes: line 1 column 2 (char 1)); correct that file, or `schema`; records of its id cannot be decoded",
        ],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\nframing: magic\nschema_id: -1\n{COUNT}\n{TO}",
        [
            "10:5: agents.a.framing: must be none or confluent; write one of these words",
            "11:5: agents.a.schema_id: must be at least 0; write a number in that range",
        ],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\nkey: "
        f"custmer\n{COMPUTE % 'a: {sum: amout}, b: {mean: customer}, c: {sum: at}'}\n{TO}",
        [
            "10:5: agents.a.key: needs custmer, but schemas/order.avsc has no such field; did you mean customer?",
            "11:38: agents.a.aggregate.compute.a: needs amout, but schemas/order.avsc has no such field; did you mean "
            "amount?",
            f"11:55: agents.a.aggregate.compute.b: needs a number, but customer is text; {ELSE}",
            f"11:76: agents.a.aggregate.compute.c: needs a number, but at is text (a time); {ELSE}",
        ],
    ),
    (
        f"{IN}\nschema: schemas/order.avsc\n{COMPUTE % 'n: count'}\nto: "
        f"{{topic: t, format: avro, schema: schemas/result.avsc}}",
        [
            "11:34: agents.a.to.schema: has extra without a default, which no result has; correct it, or leave "
            "`schema` out: "
            "check --json shows the schema that is then made",
            "11:34: agents.a.to.schema: lacks closed_at, key, n, opened_at, reason: fields of the result; correct "
            "it, or leave `schema` out: "
            "check --json shows the schema that is then made",
        ],
    ),
    (
        f"from: orders\n{COMPUTE % 'a-b: count'}\nto: {{topic: t, format: avro}}",
        ["9:5: agents.a.to: cannot hold the computed field 'a-b'; name it with letters, digits and _ only"],
    ),
    (
        "from: orders\nhandler: builtins:print\nto: {topic: t, format: avro}",
        [
            "9:5: agents.a.to: has no schema, and what a handler sends has none of its own; write schema: FILE.avsc "
            "beside the format"
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_mistake_is_one_line_that_says_what_to_do(folder: Path, text: str, expected: list[str]) -> None:
    assert problems(folder, agent(text)) == expected


def test_an_absent_extra_is_a_problem_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "sluicegate.schemas.avro", raising=False)
    assert problems(folder, agent(f"{IN}\nschema: schemas/order.avsc\n{COUNT}\n{TO}")) == [
        '8:5: agents.a.format: the Avro library is not installed; pip install "sluicegate[avro]"'
    ]


def test_an_app_with_schemas_survives_the_trip_to_its_children(folder: Path) -> None:
    app: Any = loaded(folder, agent(f"{IN}\nschema: schemas/order.avsc\n{COUNT}\nto: {{topic: t, format: avro}}")).app
    assert msgspec.json.decode(msgspec.json.encode(app), type=App) == app
