"""Messages of Avro and of Protobuf of about n bytes, of many shapes, for schemas that have every type."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from sluicegate.schemas import Avro, Codec, codec
from tests.fuzz.cost import Case
from tests.fuzz.shapes import Make
from tests.fuzz.targets import each_of
from tests.unit.schemas import protos

INNER: dict[str, Any] = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": {"type": "array", "items": "string"}}],
}
TYPES: dict[str, Any] = {
    "string": "string",
    "bytes": "bytes",
    "short": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "long": {"type": "bytes", "logicalType": "decimal", "precision": 1000, "scale": 2},
    "fixed": {"type": "fixed", "name": "Fixed", "size": 400, "logicalType": "decimal", "precision": 900},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "json": {"type": "string", "contentMediaType": "application/json"},
    "int": "int",
    "number": "long",
    "double": "double",
    "date": {"type": "int", "logicalType": "date"},
    "clock": {"type": "long", "logicalType": "time-micros"},
    "moment": {"type": "long", "logicalType": "timestamp-micros"},
    "enum": {"type": "enum", "name": "Enum", "symbols": ["A", "B"]},
    "union": ["null", "string", "int", {"type": "array", "items": "string"}],
    "record": INNER,
    "arrays": {"type": "array", "items": {"type": "array", "items": "int"}},
    "maps": {"type": "map", "values": {"type": "map", "values": "boolean"}},
}
DATA: dict[str, list[bytes]] = {
    "string": [b"\x02a", b"\x00", b"\x04\xc3\xa9"],
    "bytes": [b"\x02\xff", b"\x00"],
    "short": [b"\x02\x01", b"\x08\xff\xff\xff\xff", b"\x08\x7f\xff\xff\xff"],
    "long": [b"\x02\x01", b"\xa0\x06" + b"\x01" + b"\xff" * 399],
    "fixed": [b"\x00" * 400, b"\xff" * 399 + b"\x01"],
    "uuid": [b"\x4812345678-1234-1234-1234-123456789012", b"\x02a"],
    "json": [b"\x0e[[[]]]1", b"\x04[]"],
    "int": [b"\x02", b"\xff\xff\xff\xff\x0f"],
    "number": [b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"],
    "double": [b"\xff" * 8, b"\x00" * 8],
    "date": [b"\x02", b"\xff\xff\xff\xff\x0f"],
    "clock": [b"\x02"],
    "moment": [b"\x02", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"],
    "enum": [b"\x02", b"\x7f"],
    "union": [b"\x00", b"\x02\x02a", b"\x06\x00", b"\x7f"],
    "record": [b"\x00\x00", b"\x02\x02\x02\x02a\x00"],
    "arrays": [b"\x00", b"\x02\x00\x00", b"\x01\x02\x00\x00"],
    "maps": [b"\x00", b"\x02\x00\x00\x00"],
}


def number(value: int) -> bytes:
    """A count or length, zigzag as Avro writes it."""
    value, written = value << 1, bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def sized(unit: bytes) -> Make:
    return lambda n: number(n // len(unit) * len(unit)) + unit * (n // len(unit))


def blocks(item: bytes, form: str) -> Make:
    """An array of the item: one block, a block for each one, or blocks that give their size."""

    def make(n: int) -> bytes:
        count = 1 + n // len(item)
        if form == "one block":
            return number(count) + item * count + b"\0"
        if form == "many blocks":
            return (b"\x02" + item) * count + b"\0"
        return (b"\x01" + number(len(item)) + item) * count + b"\0"

    return make


def entries(item: bytes, form: str) -> Make:
    """A map: names that differ, or one name again and again."""

    def make(n: int) -> bytes:
        count = 1 + n // (len(item) + 8)
        names = (b"\x00" if form == "no name" else b"\x0e%07d" % (i if form == "names" else 1) for i in range(count))
        return number(count) + b"".join(name + item for name in names) + b"\0"

    return make


def avro() -> Iterator[Case]:
    for name, kind in TYPES.items():
        shapes: list[tuple[str, Any, Make]] = [
            (f"array, {form} of {datum!r}", {"type": "array", "items": kind}, blocks(datum, form))
            for datum in DATA[name]
            for form in ("one block", "many blocks", "sized blocks")[: 3 if datum is DATA[name][0] else 1]
        ]
        shapes += [
            (f"map, {form} of {datum!r}", {"type": "map", "values": kind}, entries(datum, form))
            for datum in DATA[name][:1]
            for form in ("names", "one name", "no name")
        ]
        if name in ("string", "bytes", "short", "long", "uuid", "json"):
            units = [b"a", b"1", b"\x00", b"\xff", b"\x7f", b"[", b"[],", b'"', b"\xc3"]
            shapes += [(f"of {unit!r}", kind, sized(unit)) for unit in units]
        for shape, schema, make in shapes:
            yield from _of_avro(f"Avro {name}, {shape}", schema, make)


def _of_avro(name: str, kind: Any, make: Make) -> Iterator[Case]:
    """A message, one that ends too early, and one that goes on."""
    fields = [{"name": f"before{i}", "type": "int"} for i in range(10)]
    schema = {"type": "record", "name": "Whole", "fields": [*fields, {"name": "t", "type": kind}, *_after(10)]}
    added = {"name": "more", "type": "int", "default": 1}
    other = json.dumps({**schema, "fields": [*schema["fields"], added]})  # type: ignore[misc]
    same = codec("avro", Avro(json.dumps(schema)))
    resolved = codec("avro", Avro(other, writer_schema=json.dumps(schema)))
    assert same.only is not None
    run = each_of([same.decode, resolved.decode, same.only(["before1"])])
    yield Case(name, lambda n: b"\x02" * 10 + make(n) + b"\x02" * 10, run)
    yield Case(f"{name}, cut", lambda n: b"\x02" * 10 + make(n) + b"\x02" * 9, same.decode)
    yield Case(f"{name}, too long", lambda n: b"\x02" * 10 + make(n) + b"\xff" * 10, same.decode)


def _after(count: int) -> list[dict[str, str]]:
    return [{"name": f"after{i}", "type": "int"} for i in range(count)]


PROTO = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
package cost;
message Whole {
  string text = 1; bytes raw = 2; repeated int32 packed = 3; repeated Whole many = 4; Whole one = 5;
  map<string, int32> named = 6; map<int64, Whole> numbered = 7; google.protobuf.Any any = 8;
  google.protobuf.Struct free = 9; repeated google.protobuf.Timestamp times = 10;
  google.protobuf.FieldMask mask = 11; repeated string texts = 12; google.protobuf.ListValue items = 13;
  repeated double doubles = 14; repeated google.protobuf.Any anys = 15; repeated google.protobuf.Duration lengths = 16;
}
"""


def field(tag: int, body: bytes) -> bytes:
    """A field with a length."""
    return plain(tag << 3 | 2) + plain(len(body)) + body


def plain(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def again(item: bytes) -> Make:
    return lambda n: item * (1 + n // len(item))


def inside(tag: int, around: Callable[[bytes], bytes] = lambda body: body) -> Make:
    def make(n: int) -> bytes:
        body = b""
        while len(body) < n:
            body = field(tag, around(body))
        return body

    return make


def in_any(body: bytes) -> bytes:
    return field(1, b"x/cost.Whole") + field(2, body)


def by_whole() -> Codec:
    return protos.by("cost.Whole", PROTO)


def protobuf() -> Iterator[Case]:
    form = by_whole()
    assert form.only is not None
    value = field(1, field(1, b"a") + field(2, field(4, b"\x09" + b"\x00" * 8)))
    shapes: list[tuple[str, Make]] = [
        ("text", lambda n: field(1, b"a" * n)),
        ("text that is none", lambda n: field(1, b"\xff" * n)),
        ("bytes", lambda n: field(2, b"a" * n)),
        ("packed", lambda n: field(3, b"\x01" * n)),
        ("long numbers", lambda n: field(3, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" * (n // 10))),
        ("messages", again(field(4, b""))),
        ("messages in messages", again(field(4, field(4, b"")))),
        ("one message again and again", again(field(5, field(4, b"")))),
        ("names", lambda n: b"".join(field(6, field(1, b"%07d" % i) + b"\x10\x01") for i in range(1 + n // 14))),
        ("one name again and again", again(field(6, field(1, b"a") + b"\x10\x01"))),
        ("numbered", lambda n: b"".join(field(7, b"\x08" + plain(i << 40)) for i in range(1 + n // 10))),
        ("deep", inside(5)),
        ("Any in Any", inside(8, in_any)),
        ("Any in Any in a list", inside(15, in_any)),
        ("many Any", again(field(15, in_any(b"")))),
        ("Any of large bodies", lambda n: inside(8, in_any)(200) + field(8, in_any(field(1, b"a" * n)))),
        ("free", lambda n: field(9, value * (1 + n // len(value)))),
        ("deep lists", inside(13, lambda body: field(1, field(6, body)) if body else b"")),
        ("times", again(field(10, b"\x08\x01"))),
        ("times that are none", again(field(10, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))),
        ("lengths", again(field(16, b"\x08\x01\x10\x01"))),
        ("a path", lambda n: field(11, field(1, b"a_b" * (n // 3)))),
        ("paths", lambda n: field(11, field(1, b"a_b") * (n // 5))),
        ("texts", again(field(12, b""))),
        ("doubles", lambda n: field(14, b"\xff" * (n // 8 * 8))),
        ("unknown fields", again(field(99, b""))),
        ("groups", lambda n: b"\xa3\x06" * (n // 2) + b"\xa4\x06" * (n // 2)),
        ("cut", lambda n: field(1, b"a" * n)[:-1]),
    ]
    for name, make in shapes:
        yield Case(f"Protobuf, {name}", make, each_of([form.decode, form.only(["text"]), form.only(["any"])]))
