"""`sluicegate test` of a file whose records lack fields of the schema. The values are those of Avro for Java."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main

OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
NEW = r"""{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
  {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": -1},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": -1},
  {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}, "default": 3600000},
  {"name": "maybe", "type": [{"type": "long", "logicalType": "timestamp-millis"}, "null"], "default": 5},
  {"name": "paid", "default": "\u0003\u00e8",
   "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "raw", "type": "bytes", "default": "\u00ff\u0000"},
  {"name": "fix", "type": {"type": "fixed", "name": "Fix", "size": 2}, "default": "\u00ff\u0001"},
  {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}, "default": [0]},
  {"name": "prices", "default": {"a": "\u000a"},
   "type": {"type": "map", "values": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}}},
  {"name": "inner", "default": {"x": 3}, "type": {"type": "record", "name": "Inner", "fields": [
    {"name": "t", "type": "int", "default": 7}, {"name": "x", "type": "int", "default": 9}]}}]}"""
FILE = """
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
dead_letters: dead
agents:
  read:
    from: orders
    format: avro
    schema: new.avsc
    writer_schema: old.avsc
    handler: "copying:copy"
    to: {topic: out}
  written:
    from: orders
    format: avro
    schema: old.avsc
    handler: "copying:copy"
    to: {topic: w, format: avro, schema: new.avsc}
tests:
"""
EXPECTED = {
    "timestamp in millis": '{at: "1970-01-01T00:00:01Z"}',
    "timestamp in micros": '{us: "1969-12-31T23:59:59.999999Z"}',
    "date": '{day: "1969-12-31"}',
    "time": '{clock: "01:00:00"}',
    "timestamp in a union": '{maybe: "1970-01-01T00:00:00.005Z"}',
    "decimal": '{paid: "10.00"}',
    "bytes": '{raw: "/wA="}',
    "fixed": '{fix: "/wE="}',
    "array": '{days: ["1970-01-01"]}',
    "map": '{prices: {a: "1.0"}}',
    "a default record takes the defaults of its own fields": "{inner: {t: 7, x: 3}}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old.avsc").write_text(json.dumps(OLD))
    (tmp_path / "new.avsc").write_text(NEW)
    (tmp_path / "copying.py").write_text("def copy(value, send):\n    send(value)\n")
    return tmp_path


@pytest.mark.parametrize("topic", ["out", "w"])
def test_a_field_that_a_record_lacks_has_its_default_in_the_form_of_its_type(folder: Path, topic: str) -> None:
    send = "send: {topic: orders, key: a, value_base64: Dg==}"
    lines = [
        f"  {name}: [{{{send}}}, {{expect: {{topic: {topic}, value: {value}}}}}]\n" for name, value in EXPECTED.items()
    ]
    (folder / "case.yaml").write_text(FILE + "".join(lines))
    done = CliRunner().invoke(main, ["test", str(folder / "case.yaml")])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "11 of 11 tests passed"), done.output


@pytest.mark.parametrize("line", ["    writer_schema: old.avsc\n", ""])
def test_check_refuses_a_default_that_is_no_value_of_its_type_and_names_the_field(folder: Path, line: str) -> None:
    (folder / "new.avsc").write_text(NEW.replace('"default": 3600000', '"default": 86400000'))
    (folder / "case.yaml").write_text(FILE.replace("tests:\n", "").replace("    writer_schema: old.avsc\n", line))
    done = CliRunner().invoke(main, ["check", str(folder / "case.yaml")])
    text = " ".join(done.output.split())
    assert done.exit_code == 2
    assert "the default of shop.Order.clock is not a value of its type: has a time that is not of one day" in text
