"""Protobuf records against protobuf's own library, whose JSON is the judge of values."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.schemas import SchemaOptions, codec, protobuf_schema
from sluicegate.schemas import registry as schemas
from sluicegate.schemas.codecs import Unavailable, Unwritable
from sluicegate.schemas.protobuf import read_path, written_path
from tests.unit.schemas.protos import ORDER, by, descriptors, encoded, kind

ALL = """
syntax = "proto3";
package t;
import "google/protobuf/any.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/field_mask.proto";
enum Colour { NONE = 0; RED = 1; BLUE = 5; }
message Sub { int32 x = 1; Sub next = 2; }
message All {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6;
  sint32 s32 = 7; sint64 s64 = 8; fixed32 f32 = 9; fixed64 f64 = 10; sfixed32 sf32 = 11; sfixed64 sf64 = 12;
  bool yes = 13; string text = 14; bytes raw = 15; Colour colour = 16;
  repeated int64 many = 17; map<string, int64> by_text = 18; map<bool, Sub> by_flag = 19; map<int64, bytes> by_id = 20;
  optional int32 maybe = 21; Sub sub = 22;
  oneof one { string a_text = 23; int64 a_number = 24; Sub a_sub = 25; }
  google.protobuf.Timestamp at = 26; google.protobuf.Duration took = 27; google.protobuf.Struct free = 28;
  google.protobuf.Value any_value = 29; google.protobuf.Int64Value boxed = 30;
  google.protobuf.BytesValue boxed_raw = 31;
  google.protobuf.FieldMask mask = 32; google.protobuf.Any any = 33; google.protobuf.ListValue list = 34;
  repeated google.protobuf.Timestamp times = 35; google.protobuf.DoubleValue boxed_double = 36;
}
"""
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
FLOAT = st.floats(allow_nan=False, allow_infinity=False, width=32)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
RAW = st.binary(max_size=8)
SUB = st.recursive(
    st.builds(lambda x: {"x": x}, INT),
    lambda inner: st.builds(lambda x, n: {"x": x, "next": n}, INT, inner),
    max_leaves=4,
)
WHOLE = st.integers(0, 2**32 - 1)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


RAWS = RAW.map(_base64)
TIMES = st.builds(lambda s: f"20{s:02}-02-03T04:05:06Z", st.integers(10, 99))
PLAIN: dict[str, Any] = {
    **dict.fromkeys(("i32", "s32", "sf32"), INT),
    **dict.fromkeys(("i64", "s64", "sf64"), LONG),
    **dict.fromkeys(("u32", "f32"), WHOLE),
    **dict.fromkeys(("u64", "f64"), st.integers(0, 2**64 - 1)),
    "d": DOUBLE,
    "f": FLOAT,
    "yes": st.booleans(),
    "text": TEXT,
    "raw": RAWS,
    "colour": st.sampled_from(["NONE", "RED", "BLUE", 7]),
    "many": st.lists(LONG, max_size=3),
    "by_text": st.dictionaries(TEXT, LONG, max_size=3),
    "by_flag": st.dictionaries(st.sampled_from(["true", "false"]), SUB, max_size=2),
    "by_id": st.dictionaries(LONG.map(str), RAWS, max_size=3),
    "times": st.lists(TIMES, max_size=2),
}
FREE = st.recursive(
    st.none() | st.booleans() | TEXT | st.integers(-1000, 1000), lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
SET: dict[str, Any] = {
    "maybe": INT,
    "sub": SUB,
    "at": TIMES,
    "took": st.integers(-1000, 1000).map(lambda n: f"{n}s"),
    "free": st.dictionaries(TEXT, FREE, max_size=2),
    "any_value": TEXT | st.booleans() | st.integers(-9, 9),
    "list": st.lists(FREE, max_size=2),
    "boxed": LONG,
    "boxed_raw": RAWS,
    "boxed_double": DOUBLE,
    "mask": st.just("a,bC"),
}
ONE = st.one_of(
    *(st.fixed_dictionaries({name: text}) for name, text in (("a_text", TEXT), ("a_number", LONG), ("a_sub", SUB)))
)
VALUES = st.builds(
    lambda plain, some, one: {**plain, **some, **one},
    st.fixed_dictionaries(PLAIN),
    st.fixed_dictionaries({}, optional=SET),
    st.just({}) | ONE,
)


def theirs(message: Any) -> Any:
    """The value by the library's own JSON."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def as_numbers(value: Any, of: Any) -> Any:
    """64-bit integers of the library's JSON are text; where ours has a number, theirs is made one."""
    if isinstance(of, dict) and isinstance(value, dict):
        return {name: as_numbers(part, of.get(name)) for name, part in value.items()}
    if isinstance(of, list) and isinstance(value, list) and len(of) == len(value):
        return [as_numbers(part, other) for part, other in zip(value, of, strict=True)]
    if isinstance(of, int) and not isinstance(of, bool) and isinstance(value, str):
        return int(value)
    return value


FORM, KIND = by("t.All", ALL), kind("t.All", ALL)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(VALUES)
def test_values_are_those_of_the_librarys_json_both_ways(value: dict[str, Any]) -> None:
    official = json_format.ParseDict(value, KIND())
    written = official.SerializeToString(deterministic=True)
    ours = FORM.decode(written)
    assert ours == {**as_numbers(theirs(official), ours), "f": official.f}  # theirs: the shortest text of a float
    again = KIND.FromString(FORM.encode(ours))
    assert again == official
    assert FORM.encode(value) == written


@settings(derandomize=True, deadline=None, max_examples=200)
@given(VALUES)
def test_what_was_written_is_read_again(value: dict[str, Any]) -> None:
    read = FORM.decode(FORM.encode(value))
    assert {name: read[name] for name in value} == {**value, "f": read["f"]}
    assert math.isclose(read["f"], value["f"], rel_tol=1e-6, abs_tol=1e-44)
    assert {*read} - {*value} == set()


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_undecodable_as_the_library_says(value: bytes) -> None:
    try:
        FORM.decode(value)
    except msgspec.DecodeError:
        pass
    else:
        KIND.FromString(value)


@pytest.mark.parametrize(
    ("set", "read"),
    [
        ({"d": math.nan}, {"d": None}),
        ({"f": -math.inf}, {"f": None}),
        ({"i64": -(2**63), "u64": 2**64 - 1}, {"i64": -(2**63), "u64": 2**64 - 1}),
        ({"raw": b"\xff\0"}, {"raw": "/wA="}),
        ({"colour": 5}, {"colour": "BLUE"}),
        ({"colour": 77}, {"colour": 77}),
        ({"a_number": 0}, {"a_number": 0}),
    ],
)
def test_values(set: dict[str, Any], read: dict[str, Any]) -> None:
    value = FORM.decode(KIND(**set).SerializeToString())
    assert {name: value[name] for name in read} == read
    assert not {"a_text", "maybe", "sub", "at"} & {*value}


def test_an_any_has_its_type_and_one_of_an_unknown_type_is_undecodable() -> None:
    message = KIND()
    message.any.Pack(kind("t.Sub", ALL)(x=2**31 - 1))
    read = FORM.decode(message.SerializeToString())
    assert read["any"] == {"@type": "type.googleapis.com/t.Sub", "x": 2**31 - 1}
    assert KIND.FromString(FORM.encode(read)) == message
    message.any.type_url = "x/unknown.Type"
    with pytest.raises(msgspec.DecodeError, match="holds a type that the schema does not have"):
        FORM.decode(message.SerializeToString())


def test_a_field_without_a_value_is_undecodable() -> None:
    message = KIND()
    message.at.seconds = 2**60
    with pytest.raises(msgspec.DecodeError, match=r"has a field without a value \(ValueError\)"):
        FORM.decode(message.SerializeToString())


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"none": "c4n4ry"}, "has a field none, which the message t.All does not have"),
        ({"i32": "c4n4ry"}, "field i32 does not fit the message t.All"),
        ({"i32": 2**31}, "field i32 does not fit the message t.All"),
        ({"raw": "c4n4ry!"}, "field raw does not fit"),
        ({"sub": {"x": "c4n4ry"}}, r"field sub(\.x)? does not fit"),
        ({"sub": ["c4n4ry"]}, "does not fit the message t.All"),
        ({"at": "c4n4ry"}, "field at does not fit"),
        (["c4n4ry"], "does not fit the message t.All"),
        ("c4n4ry", "does not fit the message t.All"),
        ({"a_text": "c4n4ry", "a_number": 1}, "does not fit the message t.All"),
    ],
)
def test_what_does_not_fit_is_unwritable_and_the_error_quotes_nothing(value: Any, error: str) -> None:
    with pytest.raises(Unwritable, match=error) as caught:
        FORM.encode(value)
    assert "c4n4ry" not in str(caught.value)


def test_only_some_fields_are_made() -> None:
    assert FORM.only is not None
    assert json.loads(FORM.only(["text", "maybe"])(KIND(text="a", i32=1).SerializeToString())) == {"text": "a"}


PROTO2 = 'syntax = "proto2"; package o; message Old { required int32 a = 1; optional int32 b = 2; }'


def test_proto2_lacks_what_is_not_set_and_requires() -> None:
    form = by("", PROTO2)
    assert form.decode(b"\x08\x05") == {"a": 5}
    with pytest.raises(msgspec.DecodeError, match="lacks a"):
        form.decode(b"")
    with pytest.raises(Unwritable, match=r"does not fit the message o\.Old"):
        form.encode({"b": 1})


def framed(message: str, text: str = ORDER, **wanted: Any) -> Any:
    return by(message, text, framing="confluent", **wanted)


def test_the_frame_names_the_message() -> None:
    first, inner = framed("shop.Order", schema_id=7), framed("shop.Box.Inner", schema_id=7)
    assert first.encode({"id": 1}) == b"\0\0\0\0\7\0\x18\1"
    assert inner.encode({"x": 1}) == b"\0\0\0\0\7\4\2\0\x08\1"
    assert inner.decode(inner.encode({"x": 1})) == {"x": 1}
    assert first.decode(b"\0\0\0\0\7\2\0\x18\1")["id"] == 1
    with pytest.raises(msgspec.DecodeError, match=r"is the message at \[1, 0\], not shop.Order"):
        first.decode(inner.encode({"x": 1}))
    with pytest.raises(msgspec.DecodeError, match="was written with schema id 8, not 7"):
        first.decode(b"\0\0\0\0\x08\0")
    for broken in (b"\0\0\0\0\7", b"\0\0\0\0\7\x80", b"\0\0\0\0\7\1", b"\0\0\0\0\7\xff\xff\xff\x0f"):
        with pytest.raises(msgspec.DecodeError, match="has no message index in its frame"):
            first.decode(broken)
    with pytest.raises(msgspec.DecodeError, match="has no Confluent frame"):
        first.decode(b"\1")


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=5))
def test_the_frame_is_the_one_of_confluents_client(path: list[int]) -> None:
    theirs = SchemaId("PROTOBUF", 7, None, [0] if path == [0] else path).id_to_bytes()[5:]
    if path != [0]:
        assert written_path(tuple(path)) == theirs
    assert read_path(b"\0\0\0\0\7" + theirs, 5) == (tuple(path), 5 + len(theirs))


MOVED = ORDER.replace("message Order", "message First { int32 n = 1; }\nmessage Order")


@pytest.mark.parametrize("written", [encoded(MOVED), MOVED])
def test_the_schema_of_the_id_says_which_message_it_is(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As descriptors, or as the text of a .proto file, which a registry may give."""
    form, table = framed("shop.Order", registry="r"), schemas.SchemaTable()
    table.learn([(9, written, "")])
    monkeypatch.setattr(schemas, "table", lambda name: table)
    order = kind("shop.Order", MOVED)(customer="ann", id=5).SerializeToString()
    assert form.decode(b"\0\0\0\0\x09\2\2" + order)["id"] == 5
    with pytest.raises(msgspec.DecodeError, match=r"is shop\.First, not shop\.Order"):
        form.decode(b"\0\0\0\0\x09\0\x08\1")
    with pytest.raises(msgspec.DecodeError, match=r"is the message at \[7\], not shop.Order"):
        form.decode(b"\0\0\0\0\x09\2\x0e" + order)


def test_a_registry_that_is_away_is_no_fault_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def schema(self, id: object, kind: str) -> str:
            raise Unavailable("the registry is away")

    table = schemas.SchemaTable()
    table.ask = Away()  # type: ignore[assignment]
    monkeypatch.setattr(schemas, "table", lambda name: table)
    with pytest.raises(Unavailable, match="was written with schema id 9, and the registry is away"):
        framed("shop.Order", registry="r").decode(b"\0\0\0\0\x09\0")


def test_files_of_writer_schemas_say_which_message_it_is(tmp_path: Path) -> None:
    (tmp_path / "9.desc").write_bytes(descriptors(MOVED))
    (tmp_path / "10.desc").write_bytes(b"\xff")
    form = framed("shop.Order", writers=str(tmp_path))
    assert form.decode(b"\0\0\0\0\x09\2\2\x18\5")["id"] == 5
    with pytest.raises(msgspec.DecodeError, match=r"id 11, and there is no 11.desc in writer_schemas"):
        form.decode(b"\0\0\0\0\x0b\0")
    with pytest.raises(msgspec.DecodeError, match=r"whose 10.desc is neither a set of file descriptors nor a .proto"):
        form.decode(b"\0\0\0\0\x0a\0")


DECLARED = """
syntax = "proto2"; /* message No { */ package a.b;
option (x) = { y: "message Not {" };
enum E { Z = 0; }
message A {
  optional group Grouped = 1 { optional int32 message = 1; }
  message B { message C {} enum F { Q = 0; } oneof one { int32 u = 1; } }
  map<string, B> by_text = 3;
  message D { map<int64, .a.b.A.B.C> map = 1; message Last {} }
  optional string group = 2;
}
service S { rpc Call (A) returns (A) { option deprecated = true; } }
message G { reserved 1; extensions 100 to 200; }
extend G { optional int32 more = 100; }
message H {}
"""


def test_names_of_a_proto_file_are_those_of_its_descriptors() -> None:
    plain = DECLARED.replace('option (x) = { y: "message Not {" };', "")
    assert protobuf_schema.names(DECLARED) == protobuf_schema.names(encoded(plain))
    assert protobuf_schema.names(DECLARED)[(0, 1, 0)] == "a.b.A.B.C"
    assert protobuf_schema.names(DECLARED)[(0, 3, 1)] == "a.b.A.D.Last"
    assert protobuf_schema.names(ORDER) == protobuf_schema.names(encoded(ORDER))


def test_imports_are_part_of_the_set() -> None:
    text = 'syntax = "proto3"; import "part.proto"; message Whole { part.Part part = 1; }'
    form = by("", text, {"part": 'syntax = "proto3"; package part; message Part { int64 n = 1; }'})
    assert form.decode(form.encode({"part": {"n": 5}})) == {"part": {"n": 5}}


@pytest.mark.parametrize(
    ("schema", "message", "error"),
    [
        ("", "", "is not a set of file descriptors; make one with protoc --include_imports"),
        ("c3ludGF4", "", "is not a set of file descriptors"),
        (encoded(ORDER), "", "has 2 messages in main.proto; write message: NAME"),
        (encoded(ORDER), "Order", "has no message Order; write the full name, with its package"),
    ],
)
def test_a_schema_that_cannot_be_used_is_said(schema: str, message: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        codec("protobuf", SchemaOptions(schema, kind="PROTOBUF", message=message))


def test_a_set_without_its_imports_is_said() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    text = 'syntax = "proto3"; import "part.proto"; message Whole { part.Part part = 1; }'
    files = FileDescriptorSet.FromString(
        descriptors(text, part='syntax = "proto3"; package part; message Part { int64 n = 1; }')
    )
    del files.file[0]
    with pytest.raises(ValueError, match="is not a complete set of file descriptors"):
        codec("protobuf", SchemaOptions(_base64(files.SerializeToString()), kind="PROTOBUF"))
