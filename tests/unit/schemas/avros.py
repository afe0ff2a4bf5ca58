"""Schemas and the values of JSON that they take, to be drawn."""

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from itertools import count
from typing import Any

import msgspec
from hypothesis import strategies as st

from sluicegate.schemas import Avro, Codec, codec
from sluicegate.schemas import json as ours
from sluicegate.schemas.avro_sizes import size_of
from tests.unit.schemas import avro_judge

SHOP = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "items", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    ],
}


def by(schema: Any, **wanted: Any) -> Codec:
    return codec("avro", Avro(json.dumps(schema), **wanted))


def _moment(at: datetime) -> str:
    fine = "microseconds" if at.microsecond % 1000 else "milliseconds" if at.microsecond else "seconds"
    return at.isoformat(timespec=fine).replace("+00:00", "Z")


def _decimal(unscaled: int) -> str:
    sign, digits = "-" * (unscaled < 0), f"{abs(unscaled):03d}"
    return f"{sign}{digits[:-2]}.{digits[-2:]}"


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_base64 = st.binary(max_size=5).map(lambda value: base64.b64encode(value).decode())
_naive = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_millis = _naive.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_finite = {"allow_nan": False, "allow_infinity": False}
_ids = st.uuids().map(str)

PRIMITIVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, **_finite)),
    ("double", st.floats(**_finite)),
    ("bytes", _base64),
    ("string", _text),
    ({"type": "long", "logicalType": "timestamp-millis"}, _millis.map(lambda at: _moment(at.replace(tzinfo=UTC)))),
    ({"type": "long", "logicalType": "timestamp-micros"}, _naive.map(lambda at: _moment(at.replace(tzinfo=UTC)))),
    ({"type": "int", "logicalType": "date"}, st.dates(date(1900, 1, 1), date(2200, 1, 1)).map(str)),
    (
        {"type": "int", "logicalType": "time-millis"},
        st.builds(time, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59)).map(str),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(_decimal),
    ),
    ({"type": "string", "logicalType": "uuid"}, _ids),
]


@st.composite
def pairs(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema and a strategy of its values; all named types are called N."""
    kinds = ["primitive", "enum", "fixed", "array", "map", "optional", "record", "union"]
    kind = draw(st.sampled_from(kinds[: len(kinds) if depth else 3]))
    name = "N"
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        size = draw(st.integers(1, 4))
        values = st.binary(min_size=size, max_size=size)
        return {"type": "fixed", "name": name, "size": size}, values.map(lambda value: base64.b64encode(value).decode())
    if kind == "record":
        return draw(records(depth - 1))
    if kind == "union":
        return draw(_unions(depth - 1))
    schema, values = draw(pairs(depth - 1))
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(_text, values, max_size=3)
    if kind == "array":
        return (
            ({"type": "array", "items": schema}, st.lists(values, max_size=3))
            if size_of(schema, {}).bytes
            else (schema, values)
        )
    return (schema, values) if schema == "null" or isinstance(schema, list) else (["null", schema], st.none() | values)


@st.composite
def _unions(draw: st.DrawFn, depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    """Of branches whose values JSON tells apart. The avro package takes a boolean for an int, so booleans come
    first."""
    number = draw(st.sampled_from(["int", "long", "double"]))
    text = draw(st.sampled_from(["string", "enum"]))
    values: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
        "null": ("null", st.none()),
        "boolean": ("boolean", st.booleans()),
        "number": (number, {name: of for name, of in PRIMITIVES[:6] if isinstance(name, str)}[number]),
        "text": ("string", _text)
        if text == "string"
        else ({"type": "enum", "name": "N", "symbols": ["A", "B"]}, st.sampled_from("AB")),
        "record": draw(records(depth)) if depth > 0 else ("null", st.none()),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=4, unique=True))
    order = [value for value in values if value in chosen and (value == "null" or values[value][0] != "null")]
    branches = [values[number] for number in order] or [values["number"]]
    return [schema for schema, _ in branches], st.one_of([of for _, of in branches])


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    fields = draw(st.lists(pairs(depth), min_size=1, max_size=4))
    made = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(fields)]
    return {"type": "record", "name": "N", "fields": made}, st.fixed_dictionaries(
        {f"f{i}": field for i, (_, field) in enumerate(fields)}
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any]:
    """A record's schema and one value of it."""
    schema, values = draw(records())
    return _named(schema, count()), draw(values)


def _named(schema: Any, numbers: Iterator[int]) -> Any:
    """With a name of its own for each type."""
    if isinstance(schema, list):
        return [_named(branch, numbers) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _named(value, numbers) for key, value in schema.items()}
    return {**made, "name": f"N{next(numbers)}"} if schema.get("name") == "N" else made


def both_ways(schema: Any, value: Any) -> None:
    """What we write, the avro package reads; what that writes, we read."""
    form = by(schema)
    read = avro_judge.read(schema, form.encode(value))
    assert judged(read) == value
    assert form.decode(avro_judge.written(schema, read)) == value


def damaged(written: bytes, data: st.DataObject) -> bytes:
    cut = data.draw(st.integers(0, len(written)))
    odd = st.sampled_from([b"\x01", b"\x03", b"\x02", b"\x80\x80\x80\x80\x10", b"\x80" * 10 + b"\x01"])
    end = data.draw(st.integers(cut, min(cut + 3, len(written))) | st.integers(cut, len(written)))
    return written[:cut] + data.draw(odd | st.binary(max_size=3)) + written[end:]


def judged_alike(schema: Any, value: bytes) -> None:
    """Bytes that are no datum for the judge are undecodable, and what is decoded is what the judge reads."""
    try:
        answer = by(schema).decode(value)
    except msgspec.DecodeError:
        return
    read = avro_judge.read(schema, value)
    assert judged(read) == answer


def judged(value: Any) -> Any:
    """The judge's value as a value of JSON, with the form that we give to times."""
    if isinstance(value, dict):
        return {name: judged(part) for name, part in value.items()}
    if isinstance(value, list):
        return [judged(part) for part in value]
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, time):
        return re.sub(r"(\.\d{3})000$", r"\1", value.isoformat())
    return ours.decode_any(ours.encode(value))
