"""The tests of a file whose records are Protobuf or JSON with a schema: no registry is asked."""

import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.schemas.protos import ORDER, descriptors, kind
from tests.unit.testing.files import played

FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
schema_registry: {url: "http://localhost:1"}
agents:
  baskets:
    from: orders
    format: protobuf
    schema: order.desc
    message: shop.Order
    framing: confluent
    writer_schemas: ids
    key: customer
    aggregate: {count: 2, compute: {total: {sum: id}, last: {last: note}}, on_missing: ignore}
    to: {topic: baskets, format: protobuf, schema: result.desc, framing: confluent, register: true}
  totals:
    from: baskets
    format: protobuf
    schema: result.desc
    framing: confluent
    where: total > 0
    aggregate: {count: 1, compute: {sum: {sum: total}}}
    to: {topic: totals, format: json-schema, schema: total.json, framing: confluent, subject: record}
tests:
  it:
"""
RESULT = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Basket {
  string key = 1; int64 count = 2; string reason = 3; optional string last = 7;
  google.protobuf.Timestamp opened_at = 4; google.protobuf.Timestamp closed_at = 5; int64 total = 6;
}
"""
STEPS = """\
- send: {topic: orders, value: {customer: ann, id: 9007199254740993}}
- send: {topic: orders, value_base64: OLDER}
- expect: {topic: baskets, key: ann, value: {count: 2, total: 9007199254740995}}
- expect: {topic: totals, key: ann, value: {sum: 9007199254740995}}
- send: {topic: orders, value_base64: AAAAAAhB}
- expect: {topic: shop.dead, reason: undecodable}
"""
JSON_FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
schema_registry: {url: "http://localhost:1"}
agents:
  totals:
    from: orders
    format: json-schema
    framing: confluent
    writer_schemas: ids
    validate: true
    aggregate: {count: 1, compute: {total: {sum: amount}}}
    to: {topic: totals}
tests:
  it:
"""
JSON_STEPS = """\
- send: {topic: orders, key: ann, value: {amount: 1}}
- expect: {topic: totals, key: ann, value: {total: 1}}
- send: {topic: orders, key: ann, value_base64: GOOD}
- expect: {topic: totals, key: ann, value: {total: 2}}
- send: {topic: orders, key: ann, value_base64: WRONG}
- expect: {topic: shop.dead, reason: undecodable}
- send: {topic: orders, key: ann, value_base64: UNKNOWN}
- expect: {topic: shop.dead, reason: undecodable}
"""


@pytest.fixture(autouse=True)
def nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a test of a file opens no connection")

    monkeypatch.setattr(socket, "create_connection", refused)


def test_json_is_validated_by_the_files_of_writer_schemas(tmp_path: Path) -> None:
    (tmp_path / "ids").mkdir()
    schema = {"properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    (tmp_path / "ids/0.json").write_text(json.dumps({"title": "Order"}))
    (tmp_path / "ids/7.json").write_text(json.dumps(schema))
    values = {"GOOD": b'\0\0\0\0\7{"amount": 2}', "WRONG": b"\0\0\0\0\7{}", "UNKNOWN": b'\0\0\0\0\x08{"amount": 3}'}
    steps = JSON_STEPS
    for name, value in values.items():
        steps = steps.replace(name, base64.b64encode(value).decode())
    assert played(tmp_path, steps, JSON_FILE) is None


def test_records_are_read_by_writer_schemas_and_by_what_the_file_writes(tmp_path: Path) -> None:
    older = ORDER.replace("message Order", "message First {}\nmessage Order")
    (tmp_path / "ids").mkdir()
    for name, text in (("order", ORDER), ("result", RESULT), ("ids/7", older)):
        (tmp_path / f"{name}.desc").write_bytes(descriptors(text))
    (tmp_path / "total.json").write_text(json.dumps({"title": "Total", "type": "object"}))
    value = b"\0\0\0\0\7\2\2" + kind("shop.Order", older)(customer="ann", id=2).SerializeToString()
    assert played(tmp_path, STEPS.replace("OLDER", base64.b64encode(value).decode()), FILE) is None
