"""What the native reader is told of an Avro schema: the kind of each datum, as nested tuples of a name and arguments.

Kinds: `null`, `boolean`, `int`, `long`, `float`, `double`, `string`; `bytes`, `decimal` and `fixed` (size), which are
read and not written; `date`; `clock` (bits, units of a second); `moment` (units of a second, with a zone); `uuid`;
`enum` (symbols as JSON); `array` and `map` (kind); `union` (kinds); `record` (pairs of a name as JSON with its colon,
or None for a field that is not written, and a kind); `odd`, which only Python reads.

The reader follows bytes as `avro_strict.py` does, checks what fastavro checks, and writes what msgspec writes of it. It
declines a message with a datum that is odd, or that Python refuses. `avro_reading.py` says which logical types fastavro
does not see: the logical type of a top-level field that is read as its plain type.
"""

from typing import Any

from sluicegate.schemas import json
from sluicegate.schemas.avro_reading import is_record, is_text

DatumKind = tuple[Any, ...]
ODD: DatumKind = ("odd",)
MOST_DIGITS = 1_000  # of a decimal
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_BARE = ("int", "long", "bytes", "string")  # read without their logical type in a top-level field that is not wanted
_INNER = {"array": "items", "map": "values"}
_LOGICAL: dict[tuple[str, str], DatumKind] = {
    ("int", "date"): ("date",),
    ("int", "time-millis"): ("clock", 32, 1_000),
    ("long", "time-micros"): ("clock", 64, 1_000_000),
    ("long", "timestamp-millis"): ("moment", 1_000, True),
    ("long", "timestamp-micros"): ("moment", 1_000_000, True),
    ("long", "local-timestamp-millis"): ("moment", 1_000, False),
    ("long", "local-timestamp-micros"): ("moment", 1_000_000, False),
    ("string", "uuid"): ("uuid",),
}
_UNWRITTEN = ("bytes", "decimal", "fixed", "odd")


def kind_of(schema: Any, names: frozenset[str] | None) -> DatumKind | None:
    """The kind of the messages of a schema that `parsed` returned, with these fields of a record (None: all). None:
    every message would be declined."""
    named: dict[str, DatumKind] = {}
    if not is_record(schema):
        found = _kind(schema, named)
        return None if _is_declined(found, written=True) else found
    fields = []
    for field in schema["fields"]:
        wanted = names is None or field["name"] in names
        kind = _field(field["type"], wanted, named)
        if _is_declined(kind, wanted):
            return None
        fields.append((_key(field["name"]) if wanted else None, kind))
    return _record(schema, fields)


def resolved_kind(writer: Any, reader: Any, names: frozenset[str] | None) -> DatumKind | None:
    """The kind of the messages of `writer` that are read as `reader`. None as above, and where `reader` does more than
    to drop fields of `writer` and to have others, which are not wanted, with a default."""
    if not (is_record(writer) and is_record(reader)) or writer["name"] != reader["name"]:
        return None
    types = {field["name"]: field["type"] for field in writer["fields"]}
    kept = [field["name"] for field in reader["fields"] if field["name"] in types]
    for field in reader["fields"]:
        name = field["name"]
        if field.get("aliases") or (
            name in types and (types[name] != field["type"] or not _is_one_type(field["type"]))
        ):
            return None
        if name not in types and ("default" not in field or names is None or name in names):
            return None
    if [name for name in types if name in kept] != kept:
        return None  # the order of what is written
    named: dict[str, DatumKind] = {}
    fields = []
    for name, schema in types.items():
        wanted = name in kept and (names is None or name in names)
        kind = _field(schema, True, named) if wanted else _kind(schema, named)
        if _is_declined(kind, wanted):
            return None
        fields.append((_key(name) if wanted else None, kind))
    return _record(writer, fields)


def _is_one_type(schema: Any) -> bool:
    """Whether no union in it has several branches besides null, of which resolution takes the first that fits."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return len(others) < 2 and all(map(_is_one_type, others))
    if isinstance(schema, str):
        return True
    if is_record(schema):
        return all(_is_one_type(field["type"]) and not field.get("aliases") for field in schema["fields"])
    return _is_one_type(schema[_INNER[schema["type"]]]) if schema["type"] in _INNER else True


def _record(schema: Any, fields: list[tuple[bytes | None, DatumKind]]) -> DatumKind | None:
    """None: a name is there twice, of which Python keeps the last."""
    return ("record", tuple(fields)) if len({field["name"] for field in schema["fields"]}) == len(fields) else None


def _is_declined(kind: DatumKind, written: bool) -> bool:
    """Whether every datum of the kind is declined: an array that has no items is not."""
    if kind[0] == "union":
        return all(_is_declined(branch, written) for branch in kind[1])
    if kind[0] == "record":
        return any(_is_declined(inner, written) for _, inner in kind[1])
    return kind == ODD or (written and kind[0] in _UNWRITTEN)


def _key(name: str) -> bytes:
    return json.encode(name) + b":"


def _field(schema: Any, wanted: bool, named: dict[str, DatumKind]) -> DatumKind:
    """The kind of a top-level field."""
    branches = schema if isinstance(schema, list) else [schema]
    others = [branch for branch in branches if branch != "null"]
    only = others[0] if len(others) == 1 else None
    if not isinstance(only, dict):
        return _kind(schema, named)
    if wanted:
        return ODD if is_text(only) or is_text(only.get("items")) else _kind(schema, named)
    if only["type"] not in _BARE:
        return _kind(schema, named)
    bare = _bare(only)
    return ("union", tuple(bare if each is only else (each,) for each in branches)) if branches is schema else bare


def _bare(schema: Any) -> DatumKind:
    """As fastavro sees it without its logical type; what `avro_strict.py` checks of that type is checked."""
    logical = (schema["type"], str(schema.get("logicalType")))
    if logical == ("bytes", "decimal"):
        return ("decimal",)
    kind = _LOGICAL.get(logical, ODD)
    return kind if kind[0] == "clock" else (schema["type"],)


def _kind(schema: Any, named: dict[str, DatumKind]) -> DatumKind:
    if isinstance(schema, list):
        return "union", tuple(_kind(branch, named) for branch in schema)
    if isinstance(schema, str):
        return named.get(schema) or ((schema,) if schema in _PRIMITIVES else ODD)
    made = _made(schema, named)
    if "name" in schema:
        named[schema["name"]] = made
    return made


def _is_readable(precision: Any, scale: Any) -> bool:
    """Whether fastavro makes a decimal of any bytes, if these are not many."""
    return type(precision) is int and type(scale) is int and 0 < precision <= MOST_DIGITS and 0 <= scale <= precision


def _made(schema: Any, named: dict[str, DatumKind]) -> DatumKind:
    kind = schema["type"]
    if (kind, schema.get("logicalType")) == ("bytes", "decimal"):
        return ("decimal",) if _is_readable(schema["precision"], schema.get("scale", 0)) else ODD
    if schema.get("logicalType") is not None:
        return _LOGICAL.get((kind, str(schema["logicalType"])), ODD)
    if is_record(schema):
        fields = [(_key(field["name"]), _kind(field["type"], named)) for field in schema["fields"]]
        return _record(schema, [*fields]) or ODD
    if kind == "enum":
        return kind, tuple(map(json.encode, schema["symbols"]))
    if kind == "fixed":
        return kind, schema["size"]
    if kind in _INNER:
        return kind, _kind(schema[_INNER[kind]], named)
    return (kind,) if kind in _PRIMITIVES else ODD
