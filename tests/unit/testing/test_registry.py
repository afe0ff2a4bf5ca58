"""The tests of a file with a schema registry: nobody is asked."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.schemas.avros import SHOP, by
from tests.unit.testing.files import played

FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
schema_registry: {url: "http://localhost:1"}
agents:
  baskets:
    from: orders
    format: avro
    schema: order.avsc
    framing: confluent
    writer_schemas: ids
    key: customer
    aggregate: {count: 2, compute: {total: {sum: amount}}}
    to: {topic: baskets, format: avro, framing: confluent, register: true}
  totals:
    from: baskets
    format: avro
    schema: total.avsc
    framing: confluent
    aggregate: {count: 1, compute: {sum: {sum: total}}}
    to: {topic: totals}
tests:
  it:
"""
STEPS = """\
- send: {topic: orders, value: {customer: ann, amount: 1}}
- send: {topic: orders, value_base64: OLDER}
- expect: {topic: baskets, key: ann, value: {count: 2, total: 3.5}}
- expect: {topic: totals, key: ann, value: {sum: 3.5}}
- send: {topic: orders, value_base64: AAAAAAhB}
- expect: {topic: shop.dead, reason: undecodable}
"""


def test_records_are_read_by_writer_schemas_and_by_what_the_file_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import base64

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a test of a file opens no connection")

    monkeypatch.setattr(socket, "create_connection", refused)
    older: dict[str, Any] = {**SHOP, "fields": SHOP["fields"][:2]}
    total = {"type": "record", "name": "Result", "fields": [{"name": "total", "type": ["null", "double"]}]}
    (tmp_path / "ids").mkdir()
    for name, schema in (("order", SHOP), ("total", total), ("ids/7", older)):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema))
    value = by(older, framing="confluent", schema_id=7).encode({"customer": "ann", "amount": 2.5})
    assert played(tmp_path, STEPS.replace("OLDER", base64.b64encode(value).decode()), FILE) is None
