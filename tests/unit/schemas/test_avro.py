"""The Avro codec: values like JSON's, strict both ways, and the same bytes as the avro package's."""

import io
import json
import math
import subprocess
import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import avro.io
import avro.schema
import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.schemas import Avro, codec
from sluicegate.schemas import json as ours
from sluicegate.schemas.codecs import Unwritable
from tests.unit.schemas import avro_judge
from tests.unit.schemas.avros import SHOP, both_ways, by, cases, damaged, judged_alike

ORDER = {"customer": "ann", "amount": 2.5, "items": [1, 2], "note": None, "at": "2026-01-01T00:00:00.250Z"}
ONE = {"type": "record", "name": "One", "fields": [{"name": "v", "type": "int"}]}


def of(kind: Any) -> Any:
    return {"type": "record", "name": "One", "fields": [{"name": "v", "type": kind}]}


@settings(derandomize=True, deadline=None, max_examples=150)
@given(cases())
def test_what_fastavro_writes_the_avro_package_reads_and_what_that_writes_fastavro_reads(case: tuple[Any, Any]) -> None:
    both_ways(*case)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(cases(), st.data())
def test_any_bytes_give_a_record_or_a_decode_error(case: tuple[Any, Any], data: st.DataObject) -> None:
    schema, value = case
    form = by(schema)
    value = damaged(form.encode(value), data)
    with suppress(msgspec.DecodeError):
        assert form.decode(value).keys() == {field["name"] for field in schema["fields"]}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(cases(), st.data())
def test_damaged_bytes_are_a_record_for_us_if_they_are_one_for_the_judge(
    case: tuple[Any, Any], data: st.DataObject
) -> None:
    schema, value = case
    judged_alike(schema, damaged(by(schema).encode(value), data))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(cases(), st.data())
def test_some_fields_alone_are_as_in_the_whole_and_a_record_that_is_cut_is_refused(
    case: tuple[Any, Any], data: st.DataObject
) -> None:
    schema, value = case
    form = by(schema)
    written = form.encode(value)
    names = data.draw(st.sets(st.sampled_from(sorted(value))))
    some = form.only(names)  # type: ignore[misc]
    assert ours.decode_any(some(written)) == {name: value[name] for name in names}
    if written:
        with pytest.raises(msgspec.DecodeError):
            some(written[: data.draw(st.integers(0, len(written) - 1))])


def test_with_fastavro_s_own_choice_of_fields_a_record_that_is_cut_is_taken() -> None:
    """The twin: it skips without looking."""
    some = fastavro.parse_schema({**SHOP, "fields": SHOP["fields"][:1]})
    cut = (
        by(of("string")).encode({"v": "ann"}) + by({**SHOP, "fields": [SHOP["fields"][3]]}).encode({"note": "long"})[:3]
    )
    schema = fastavro.parse_schema({**SHOP, "fields": [SHOP["fields"][0], SHOP["fields"][3]]})
    assert fastavro.schemaless_reader(io.BytesIO(cut), schema, some) == {"customer": "ann"}
    with pytest.raises(msgspec.DecodeError, match="field note ends too early"):
        by({**SHOP, "fields": [SHOP["fields"][0], SHOP["fields"][3]]}).only(["customer"])(cut)  # type: ignore[misc]


WRITTEN = by(SHOP).encode(ORDER)
FRAMED = "it begins like a Confluent frame: if it has one, set framing: confluent"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", "field customer ends too early"),
        (WRITTEN[:2], "field customer ends too early"),
        (WRITTEN[:8], "field amount ends too early"),
        (WRITTEN[:-1], "field at ends too early"),
        (WRITTEN + b"xyz", "3 bytes follow the record"),
        (b"\x04\xff\xfe" + WRITTEN[4:], "field customer is not UTF-8"),
        (WRITTEN[:-7] + b"\x08" + WRITTEN[-6:], "field note names a branch of a union that does not exist"),
        (WRITTEN[:-7] + b"\x03" + WRITTEN[-6:], "field note names a branch of a union that does not exist"),
        (WRITTEN[:12] + b"\x02\x80\x80\x80\x80\x10\x00", "field items has a number of more than 32 bits"),
        (b"\x01" + WRITTEN[1:], "field customer has a negative length"),
        (WRITTEN[:-6] + b"\x80" * 10 + b"\x01", "field at has a number of more than 64 bits"),
        (WRITTEN[:-6] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field at is out of range"),
        (b"\x00\x00\x00\x00\x07" + WRITTEN, f"16 bytes follow the record; {FRAMED}"),
    ],
)
def test_what_does_not_decode_says_where_and_never_what(value: bytes, error: str) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        by(SHOP).decode(value)
    assert str(caught.value) == error
    assert caught.value.__cause__ is None


def test_records_of_other_ids_are_read_by_the_schema_in_the_file_of_their_id_from_when_it_is_there(
    tmp_path: Path,
) -> None:
    older = {**SHOP, "fields": [field for field in SHOP["fields"] if field["name"] != "note"]}
    ours_, theirs = (
        by(SHOP, framing="confluent", schema_id=1, writers=str(tmp_path)),
        by(older, framing="confluent", schema_id=7),
    )
    value = theirs.encode({name: text for name, text in ORDER.items() if name != "note"})
    assert ours_.decode(ours_.encode(ORDER)) == ORDER
    for text, why in [
        (None, "7, and there is no 7.avsc in writer_schemas"),
        ("{", "7, whose 7.avsc is not an Avro schema"),
    ]:
        if text is not None:
            (tmp_path / "7.avsc").write_text(text)
        with pytest.raises(msgspec.DecodeError, match=why):
            ours_.decode(value)
    (tmp_path / "7.avsc").write_text(json.dumps(older))
    assert ours_.decode(value) == ORDER
    assert ours_.only is not None
    assert json.loads(ours_.only(["customer"])(value)) == {"customer": "ann"}
    (tmp_path / "7.avsc").unlink()
    assert ours_.decode(value) == ORDER
    with pytest.raises(msgspec.DecodeError, match="has no Confluent frame"):
        ours_.decode(b"\x00\x00")


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("int", b"\x80\x80\x80\x80\x20", "has a number of more than 32 bits"),
        ("int", b"\x80\x80\x80\x80\x80\x00", "has a number of more than 32 bits"),
        ("boolean", b"\x02", "has a boolean that is neither 0 nor 1"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01", "names a symbol that does not exist"),
        (["null", "int"], b"\x01\x02", "names a branch of a union that does not exist"),
        (
            {"type": "array", "items": ["null", "int"]},
            b"\x02\x01\x02\x00",
            "names a branch of a union that does not exist",
        ),
        ({"type": "map", "values": "int"}, b"\x02\x02k\x80\x80\x80\x80\x20\x00", "has a number of more than 32 bits"),
        (MONEY, b"\x00", "has a decimal without a byte"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01", "has a time that is not of one day"),
    ],
)
def test_what_fastavro_takes_against_the_specification_is_undecodable(kind: Any, value: bytes, error: str) -> None:
    schema = of(kind)
    assert "v" in fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(schema), None)
    with pytest.raises(Exception):  # noqa: B017
        avro_judge.read(schema, value)
    for reader in (schema, {**schema, "fields": [{"name": "w", "type": "int", "default": 1}]}):
        with pytest.raises(msgspec.DecodeError, match=f"^field v {error}$"):
            codec("avro", Avro(json.dumps(reader), json.dumps(schema))).decode(value)


def test_a_field_that_is_no_uuid_is_named_without_its_text() -> None:
    value = by(of("string")).encode({"v": "secret"})
    with pytest.raises(msgspec.DecodeError) as caught:
        by(of({"type": "string", "logicalType": "uuid"})).decode(value)
    assert str(caught.value) == "field v cannot be read (ValueError)"


def test_a_datum_of_a_schema_without_fields_says_why_it_cannot_be_read() -> None:
    with pytest.raises(msgspec.DecodeError, match=r"^the record is not UTF-8$"):
        by("string").decode(b"\x02\xff")


MICROS = {"type": "long", "logicalType": "timestamp-micros"}
FINE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}


@pytest.mark.parametrize(
    ("written", "read", "raw", "value"),
    [
        ("long", MILLIS, 5, "1970-01-01T00:00:00.005Z"),
        ("int", MILLIS, 1000, "1970-01-01T00:00:01Z"),
        (MILLIS, "long", 5, 5),
        (MILLIS, MICROS, 5, "1970-01-01T00:00:00.005Z"),
        (MICROS, MILLIS, 5, "1970-01-01T00:00:00.000005Z"),
        ("int", {"type": "int", "logicalType": "date"}, -1, "1969-12-31"),
        ("bytes", MONEY, b"\x03\xe8", "10.00"),
        ("string", MONEY, "a", "0.97"),
        (MONEY, "bytes", b"\x03\xe8", "A+g="),
        (MONEY, FINE, b"\x03\xe8", "10.00"),
        (["null", "long"], ["null", MILLIS], 5, "1970-01-01T00:00:00.005Z"),
        (["null", MILLIS], MILLIS, 5, "1970-01-01T00:00:00.005Z"),
        ({"type": "array", "items": "long"}, {"type": "array", "items": MILLIS}, [5], ["1970-01-01T00:00:00.005Z"]),
        ({"type": "map", "values": MILLIS}, {"type": "map", "values": "long"}, {"k": 5}, {"k": 5}),
    ],
)
def test_the_schema_that_is_read_with_says_what_a_value_is_and_the_other_one_in_which_unit(
    written: Any, read: Any, raw: Any, value: Any
) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(of(written)), {"v": raw})
    assert codec("avro", Avro(json.dumps(of(read)), json.dumps(of(written)))).decode(stream.getvalue()) == {"v": value}


def test_a_named_type_is_read_as_its_plain_type_only_where_it_is_not_wanted() -> None:
    day = {"type": "record", "name": "Day", "fields": [{"name": "at", "type": MILLIS}]}
    fields = [{"name": "first", "type": day}, {"name": "last", "type": "Day"}]
    form = by({"type": "record", "name": "R", "fields": fields})
    values = {"first": {"at": "2026-01-01T00:00:00Z"}, "last": {"at": "2026-01-02T00:00:00Z"}}
    for name in values:
        assert json.loads(form.only([name])(form.encode(values))) == {name: values[name]}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("datum", "value"),
    [
        (b"\x27\x0f", "99.99"),
        (b"\xd8\xf1", "-99.99"),
        (b"\0" * 900_000 + b"\x27\x0f", "99.99"),
        (b"\xff" * 900_000 + b"\xd8\xf1", "-99.99"),
        (b"\xff" * 900_000, "-0.01"),
        (b"\0" * 900_000, "0.00"),
        (b"\x27\x10", None),
        (b"\xd8\xf0", None),
        (b"\x7f" * 900_000, None),
        (b"\x80" + b"\0" * 900_000, None),
    ],
)
def test_a_decimal_of_more_digits_than_its_precision_is_refused_before_it_is_converted(
    datum: bytes, value: str | None
) -> None:
    record, begin = avro_judge.written(of("bytes"), {"v": datum}), time.thread_time()
    for reader in (of(MONEY), {**of(MONEY), "doc": "another schema"}):
        form = codec("avro", Avro(json.dumps(reader), json.dumps(of(MONEY))))
        if value is not None:
            assert form.decode(record) == {"v": value}
            continue
        with pytest.raises(msgspec.DecodeError, match=r"^field v has a decimal of more digits than its precision$"):
            form.decode(record)
    assert time.thread_time() - begin < 1


def test_without_a_look_at_the_bytes_fastavro_rounds_a_decimal() -> None:
    """The twin, which takes minutes for a megabyte."""
    schema = fastavro.parse_schema(of(MONEY))
    rounded: Any = fastavro.schemaless_reader(io.BytesIO(b"\x06\x7f\xff\xff"), schema, None)
    assert (rounded["v"], 0x7FFFFF) == (Decimal("83890"), 8_388_607)


def test_a_frame_is_wanted_where_it_is_set_and_another_schema_id_is_refused() -> None:
    framed, pinned = by(SHOP, framing="confluent"), by(SHOP, framing="confluent", schema_id=258)
    assert pinned.encode(ORDER) == b"\x00\x00\x00\x01\x02" + WRITTEN
    assert framed.decode(pinned.encode(ORDER)) == pinned.decode(pinned.encode(ORDER)) == ORDER
    for value in (b"", b"\x00\x00", WRITTEN):
        with pytest.raises(msgspec.DecodeError, match="has no Confluent frame"):
            framed.decode(value)
    with pytest.raises(msgspec.DecodeError, match="was written with schema id 7, not 258"):
        pinned.decode(b"\x00\x00\x00\x00\x07" + WRITTEN)
    with pytest.raises(msgspec.DecodeError, match="field amount ends too early"):
        framed.decode(framed.encode(ORDER)[:10])


def test_what_is_no_number_of_json_is_null() -> None:
    value = avro_judge.written(of("double"), {"v": math.nan}), avro_judge.written(of("double"), {"v": math.inf})
    assert [by(of("double")).decode(part) for part in value] == [{"v": None}, {"v": None}]


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("null", 1, "v: null is wanted, there is a whole number"),
        ("boolean", 1, "v: a boolean is wanted, there is a whole number"),
        ("int", True, "v: a whole number is wanted, there is a boolean"),
        ("int", 1.0, "v: a whole number is wanted, there is a number"),
        ("int", 2**31, "v: the number needs more than 32 bits"),
        ("long", -(2**63) - 1, "v: the number needs more than 64 bits"),
        ("double", "1", "v: a number is wanted, there is text"),
        ("double", 2**53 + 1, "v: the number is too large to be exact as a double"),
        ("float", 1e300, "v: the number is out of the range of a float"),
        ("string", None, "v: text is wanted, there is null"),
        ("bytes", "secret!", "v: the text is not base64"),
        ({"type": "fixed", "name": "F", "size": 2}, "QQ==", "v: 2 bytes are wanted, there are 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "secret", "v: the text is not a symbol of E"),
        ({"type": "array", "items": "int"}, [1, "x"], "v[1]: a whole number is wanted, there is text"),
        ({"type": "array", "items": "int"}, {}, "v: an array is wanted, there is an object"),
        ({"type": "map", "values": "int"}, {"secret": None}, "v.*: a whole number is wanted, there is null"),
        ({"type": "map", "values": "int"}, [], "v: an object is wanted, there is an array"),
        (ONE | {"name": "Two"}, {"v": None}, "v.v: a whole number is wanted, there is null"),
        (ONE | {"name": "Two"}, {}, "v.v: is missing, and the schema has no default"),
        (ONE | {"name": "Two"}, {"v": 1, "w": 1}, "v.w: the schema has no such field"),
        (["null", "int"], "x", "v: a whole number is wanted, there is text"),
        (["null", "int", "string"], 1.5, "v: another type (one of the union) is wanted, there is a number"),
        (MILLIS, 5, "v: text is wanted, there is a whole number"),
        (MILLIS, "2026-01-01T00:00:00", "v: the text is not a time with its zone, as 2026-11-21T07:42:08Z"),
        ({"type": "int", "logicalType": "date"}, "1.1.2026", "v: the text is not a date, as 2026-11-21"),
        ({"type": "string", "logicalType": "uuid"}, "x", "v: the text is not a UUID"),
        (MONEY, "1.234", "v: the decimal has more digits than precision 4 and scale 2 allow"),
        (MONEY, "100", "v: the decimal has more digits than precision 4 and scale 2 allow"),
        (MONEY, 1.5, "v: a decimal as text is wanted, there is a number"),
        (MONEY, "NaN", "v: the decimal is not finite"),
        (MONEY, "x", "v: the text is not a decimal"),
    ],
)
def test_what_does_not_fit_is_refused_by_field_and_never_rounded(kind: Any, value: Any, error: str) -> None:
    with pytest.raises(Unwritable) as caught:
        by(of(kind)).encode({"v": value})
    assert str(caught.value) == error


def test_a_field_that_is_left_out_takes_its_default_and_unions_their_first_branch_that_fits() -> None:
    assert by(SHOP).decode(by(SHOP).encode({"customer": "c", "amount": 1})) == {
        "customer": "c",
        "amount": 1.0,
        "items": [],
        "note": None,
        "at": "1970-01-01T00:00:00Z",
    }
    two = [
        ONE | {"name": "A"},
        ONE | {"name": "B", "fields": [{"name": "v", "type": "string"}]},
        {"type": "fixed", "name": "F", "size": 1},
    ]
    form = by(of(["null", *two, "double", {"type": "enum", "name": "E", "symbols": ["x"]}]))
    for value in (None, {"v": 1}, {"v": "1"}, 2.5, "x", "QQ=="):
        assert form.decode(form.encode({"v": value})) == {"v": value}
    plain = by({**ONE, "fields": [{"name": "v", "type": "bytes", "default": "\u00ff"}]})
    assert plain.encode({}) == b"\x02\xff"


def test_a_handler_may_send_what_python_has_for_these_types() -> None:
    form = by(of({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}))
    assert form.decode(form.encode({"v": Decimal("12.30")})) == {"v": "12.30"}


NEW = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "total", "type": "double", "aliases": ["amount"]},
        {"name": "customer", "type": "string"},
        {"name": "country", "type": "string", "default": "at"},
    ],
}


def test_records_of_an_older_schema_are_read_as_the_avro_package_reads_them() -> None:
    form = codec("avro", Avro(json.dumps(NEW), writer_schema=json.dumps(SHOP)))
    assert form.encode(ORDER) == WRITTEN
    assert form.decode(WRITTEN) == {"total": 2.5, "customer": "ann", "country": "at"}
    wider = {**SHOP, "fields": [{"name": "amount", "type": "double"}, {"name": "new", "type": "int", "default": 3}]}
    package = avro.io.DatumReader(avro.schema.parse(json.dumps(SHOP)), avro.schema.parse(json.dumps(wider)))
    expected = package.read(avro.io.BinaryDecoder(io.BytesIO(WRITTEN)))
    assert (
        codec("avro", Avro(json.dumps(wider), json.dumps(SHOP))).decode(WRITTEN)
        == expected
        == {"amount": 2.5, "new": 3}
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "is not an Avro schema (Expecting property name"),
        ("1", "is not an Avro schema (TypeError"),
        ('{"type": "nope"}', "is not an Avro schema ("),
        (json.dumps(of("nope")), "is not an Avro schema (nope)"),
        (json.dumps(of({"type": "bytes", "logicalType": "decimal"})), "a decimal has no precision"),
        (
            json.dumps(of({"type": "bytes", "logicalType": "decimal", "precision": 1001})),
            "a decimal has a precision of more than 1,000 digits",
        ),
        (json.dumps(of({"type": "array", "items": "null"})), "an array has items that take no bytes"),
        (
            json.dumps(of({"type": "array", "items": {"type": "record", "name": "E", "fields": []}})),
            "items that take no bytes",
        ),
        (json.dumps(of(["null", ["int"]])), "a union lies directly in another one"),
        (json.dumps(of(["null", "One"])), "One contains itself: recursive types are not supported"),
    ],
)
def test_a_schema_that_is_none_or_that_a_short_record_could_abuse_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=r"^is not an Avro schema") as caught:
        codec("avro", Avro(text))
    assert error in str(caught.value)


def test_without_that_refusal_a_short_record_ends_the_process() -> None:
    """The twin: fastavro by itself, with the type inside itself."""
    code = (
        "import fastavro, io; s = fastavro.parse_schema({'type': 'record', 'name': 'L', 'fields': [{'name': 'n', "
        "'type': ['null', 'L']}]});"
        "fastavro.schemaless_reader(io.BytesIO(b'\\x02' * 200000 + b'\\x00'), s, None)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode != 0


def test_without_our_look_at_the_end_what_follows_a_record_is_lost() -> None:
    """The twin: fastavro by itself says nothing."""
    assert (
        fastavro.schemaless_reader(io.BytesIO(WRITTEN + b"xyz"), fastavro.parse_schema(SHOP), None)["customer"] == "ann"
    )


def test_an_absent_extra_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "sluicegate.schemas.avro", raising=False)
    with pytest.raises(ValueError) as caught:
        by(SHOP)
    assert str(caught.value) == 'the Avro library is not installed; pip install "sluicegate[avro]"'


def test_avro_without_a_schema_is_refused() -> None:
    with pytest.raises(ValueError, match=r"format avro has no schema; write schema: FILE\.avsc"):
        codec("avro")


def test_records_have_fields_and_other_types_have_none() -> None:
    assert [by(schema).fields for schema in (SHOP, "string", ["null", ONE], {"type": "map", "values": "int"})] == [
        True,
        False,
        True,
        True,
    ]
