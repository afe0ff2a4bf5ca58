"""The schemas that the files of the pairs name: of the records, and of each value that an agent of a pair may write."""

import json
from pathlib import Path
from typing import Any

from tests.unit.schemas.protos import descriptors

ORDER = {"id": "string", "amount": "double", "at": "long", "status": "string"}
ANY = ["null", "boolean", "long", "double", "string"]
TEXT = ["null", {"type": "string", "contentMediaType": "application/json"}]
COMPUTED = (
    "spent",
    "newest",
    "amount",
    "id",
    "name",
    "sum",
    "number",
    "twice",
    "status",
    "at",
    "revision",
    "final",
    "slow",
    "about",
    "spread",
)
NESTED = ("amounts", "rows", "folded", "order", "payment", "customer", "owner", "window", "different", "by", "recent")
PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Order { string id = 1; double amount = 2; int64 at = 3; string status = 4; }
message Result {
  optional string key = 1; optional string key_base64 = 2; int64 count = 3; string reason = 4; string opened_at = 5;
  string closed_at = 6; optional double spent = 7; optional double newest = 8; optional int64 different = 9;
  repeated double amounts = 10; repeated google.protobuf.Struct rows = 11; optional double folded = 12;
  optional google.protobuf.Struct order = 13; google.protobuf.Value payment = 14;
  optional google.protobuf.Struct customer = 15; optional google.protobuf.Struct window = 16;
  optional double number = 17; optional double sum = 18; optional string id = 19; optional double amount = 20;
  optional string status = 21; optional double at = 22; optional double twice = 23;
  optional google.protobuf.Struct owner = 24; optional int64 revision = 25; optional bool final = 26;
  optional double slow = 27; optional int64 about = 28; optional double spread = 29; map<string, int64> by = 30;
  repeated double recent = 31;
}
"""


def _record(name: str, fields: dict[str, Any]) -> bytes:
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": field, **kind} for field, kind in fields.items()]}
    ).encode()


def _result() -> bytes:
    fields: dict[str, Any] = {name: {"type": ANY, "default": None} for name in ("key", "key_base64", *COMPUTED)}
    fields |= {name: {"type": ANY, "default": None} for name in ("count", "reason", "opened_at", "closed_at")}
    return _record("Result", fields | {name: {"type": TEXT, "default": None} for name in NESTED})


def write(folder: Path) -> None:
    """Write all files into the folder."""
    limits = {"amount": {"maximum": 8.5}}
    order = {"type": "object", "properties": {name: {} for name in ORDER} | limits, "required": ["id"]}
    result = {name: {"pattern": "^[^h]"} for name in ("id", "key")} | {"sum": {"maximum": 8.5}}
    proto = descriptors(PROTO)
    files = {
        "order.avsc": _record("Order", {name: {"type": kind} for name, kind in ORDER.items()}),
        "result.avsc": _result(),
        "order.json": json.dumps(order).encode(),
        "result.json": json.dumps({"type": "object", "properties": result}).encode(),
        "order.desc": proto,
        "result.desc": proto,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
