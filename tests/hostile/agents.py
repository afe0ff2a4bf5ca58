"""The app that is attacked: an agent for each way in which a record is read."""

import json
from pathlib import Path
from typing import Any

from tests.unit.schemas.protos import descriptors

PARTITIONS = 4
ATTACKED = 0
"""The partition of each input that the attacker writes to; good records go to all."""
SESSION = 6.0
LIST = "people"
"""`customer:people` is no hash."""
HALTS, UNPACKED, FORGED = "refused", "unpacked", "windows"
"""Agents whose dead letters Kafka refuses, whose records are larger than the memory, and whose internal topic the
attacker writes to."""
REFUSING = 1
"""The partition of UNPACKED with a batch that the client itself refuses."""
STANDS = frozenset({(HALTS, ATTACKED), (UNPACKED, ATTACKED), (UNPACKED, REFUSING)})
"""Agent and partition that may halt. They have no good records."""
AVRO = {
    "type": "record",
    "name": "Paid",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
TREE = {"anyOf": [{"type": "integer"}, *[{"properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a"]}] * 2]}
SCHEMA = {
    "$defs": {"tree": TREE},
    "properties": {
        "id": {"type": "integer"},
        "word": {"pattern": "^(a+)+$"},
        "list": {"uniqueItems": True},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["id"],
}
AVRO_RECORD = b"\x02\x04\x03\xe8"
PROTO = """
syntax = "proto3";
import "google/protobuf/any.proto";
message Order {
  int64 id = 1; repeated Order parts = 2; google.protobuf.Any more = 3; string word = 4; repeated int64 numbers = 5;
}
"""
PROTO_RECORD = b"\x08\x01"


def agents(name: str) -> dict[str, Any]:
    rule = {"count": 1, "compute": {"rows": "collect"}}
    last = {"count": 1, "compute": {"id": {"last": "id"}}}
    lines = 'has(items) ? items.map(i, {"sku": i.sku, "note": note}) : []'
    wait = 'has(wait) ? duration(wait) : duration("1s")'
    more: dict[str, dict[str, Any]] = {
        "groups": {"aggregate": rule, "having": "size(rows) > 0"},
        "expressions": {"select": {"id": "id", "lines": lines, "wait": wait}},
        "schema": {"format": "json-schema", "schema": "order.json", "validate": True},
        "avro": {"format": "avro", "schema": "paid.avsc", "aggregate": last},
        "protobuf": {"format": "protobuf", "schema": "order.desc", "message": "Order", "aggregate": rule},
        "lookup": {
            "lookup": {"who": {"hash": "customer:{key}", "key": "customer", "fields": ["name"], "missing": None}}
        },
        FORGED: {
            "key": "key",
            "repartition": f"{name}.{FORGED}.by",
            "aggregate": {"window": {"tumbling": "1m"}, "count": 1},
        },
        "batches": {"aggregate": rule},
        UNPACKED: {"aggregate": last},
        HALTS: {"aggregate": last, "dead_letters": f"{name}.{HALTS}.dead"},
    }
    made = {}
    for agent, keys in more.items():
        to: dict[str, Any] = {"topic": f"{name}.{agent}.out"}
        if "select" in keys:
            to["select"] = keys.pop("select")
        made[agent] = {"from": f"{name}.{agent}.in", "to": to, **keys}
    return made


def document(name: str, bootstrap: str, store: str) -> dict[str, Any]:
    return {
        "app": name,
        "kafka": {"bootstrap.servers": bootstrap, "session.timeout.ms": int(SESSION * 1000)},
        "store": store,
        "http": {"port": 0},
        "dead_letters": f"{name}.dead",
        "outbox": False,
        "timeouts": False,
        "agents": agents(name),
    }


def topics(name: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """Partitions and settings. The broker's clock is in the records of inputs and outputs."""
    clock = {"message.timestamp.type": "LogAppendTime"}
    made: dict[str, tuple[int, dict[str, Any]]] = {f"{name}.dead": (1, {})}
    for agent in agents(name):
        made[f"{name}.{agent}.in"] = (PARTITIONS, clock)
        made[f"{name}.{agent}.out"] = (1, clock)
    made[f"{name}.{FORGED}.by"] = (PARTITIONS, {})
    return made | {f"{name}.{HALTS}.dead": (1, {"max.message.bytes": 1_000})}


def schemas(folder: Path) -> None:
    (folder / "order.json").write_text(json.dumps(SCHEMA))
    (folder / "paid.avsc").write_text(json.dumps(AVRO))
    (folder / "order.desc").write_bytes(descriptors(PROTO))


def claims() -> int:
    """Partitions that the agents read."""
    return PARTITIONS * (len(agents("")) + 1)


def good(agent: str, number: int) -> bytes:
    binary = {"avro": AVRO_RECORD, "protobuf": PROTO_RECORD}
    text = b'{"id":%d,"key":"good-%d","customer":"ann","word":"aaa"}' % (number, number)
    return binary.get(agent, text)
