"""An Avro schema in the form of the native reader: the kind of each datum, as nested tuples of a name and arguments.

Kinds: `null`, `boolean`, `int`, `long`, `float`, `double`, `string`; `bytes`, `decimal` and `fixed` (size), which are
read and not written; `date`; `clock` (bits, units of a second); `moment` (units of a second, with a zone); `uuid`;
`enum` (symbols as JSON); `array` and `map` (kind); `union` (kinds); `record` (pairs of a name as JSON with its colon,
or None for a field that is not written, and a kind); `odd`, which only Python reads.

The reader follows bytes as `avro_strict.py` does, checks what fastavro checks, and writes the JSON that msgspec would
write. It declines a message with an `odd` datum, or with one that Python refuses. Fields that are not wanted have their
plain type, as in `avro_reading.py`.
"""

from typing import Any

from sluicegate.schemas import json
from sluicegate.schemas.avro_reading import is_record, is_text

DatumKind = tuple[Any, ...]
ODD: DatumKind = ("odd",)
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_INNER = {"array": "items", "map": "values"}
_LOGICAL: dict[tuple[str, str], DatumKind] = {
    ("bytes", "decimal"): ("decimal",),
    ("int", "date"): ("date",),
    ("int", "time-millis"): ("clock", 32, 1_000),
    ("long", "time-micros"): ("clock", 64, 1_000_000),
    ("long", "timestamp-millis"): ("moment", 1_000, True),
    ("long", "timestamp-micros"): ("moment", 1_000_000, True),
    ("long", "local-timestamp-millis"): ("moment", 1_000, False),
    ("long", "local-timestamp-micros"): ("moment", 1_000_000, False),
    ("string", "uuid"): ("uuid",),
}
_CHECKED = ("clock", "decimal")
_UNWRITTEN = ("bytes", "decimal", "fixed", "odd")


def kind_of(schema: Any, names: frozenset[str] | None) -> DatumKind | None:
    """The kind of the messages of a schema that `parsed` returned, with these fields of a record (None: all). None: the
    reader would decline every message."""
    known: dict[str, Any] = {}
    if not is_record(schema):
        plain = _kind(schema, known, True)
        return None if _is_declined(plain, written=True) else plain
    fields = []
    for field in schema["fields"]:
        wanted = names is None or field["name"] in names
        kind = _kind(field["type"], known, wanted)
        if _is_declined(kind, wanted):
            return None
        fields.append((_key(field["name"]) if wanted else None, kind))
    return _record(schema, fields)


def resolved_kind(writer: Any, reader: Any, names: frozenset[str] | None) -> DatumKind | None:
    """The kind of messages of `writer` that are read as `reader`. None as in `kind_of`, and where `reader` does more
    than drop fields of `writer` and add unwanted fields with a default."""
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
        return None  # the fields would be written in another order
    known: dict[str, Any] = {}
    fields = []
    for name, schema in types.items():
        wanted = name in kept and (names is None or name in names)
        kind = _kind(schema, known, wanted)
        if _is_declined(kind, wanted):
            return None
        fields.append((_key(name) if wanted else None, kind))
    return _record(writer, fields)


def _is_one_type(schema: Any) -> bool:
    """Whether none of its unions has several branches besides null. Resolution takes the first branch that fits."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return len(others) < 2 and all(map(_is_one_type, others))
    if isinstance(schema, str):
        return True
    if is_record(schema):
        return all(_is_one_type(field["type"]) and not field.get("aliases") for field in schema["fields"])
    return _is_one_type(schema[_INNER[schema["type"]]]) if schema["type"] in _INNER else True


def _record(schema: Any, fields: list[tuple[bytes | None, DatumKind]]) -> DatumKind | None:
    """The kind of the record. None: a field name occurs twice; Python keeps the last."""
    return ("record", tuple(fields)) if len({field["name"] for field in schema["fields"]}) == len(fields) else None


def _is_declined(kind: DatumKind, written: bool) -> bool:
    """Whether every datum of the kind is declined. An empty array is not, so an array never counts."""
    if kind[0] == "union":
        return all(_is_declined(branch, written) for branch in kind[1])
    if kind[0] == "record":
        return any(_is_declined(inner, written) for _, inner in kind[1])
    return kind == ODD or (written and kind[0] in _UNWRITTEN)


def _key(name: str) -> bytes:
    return json.encode(name) + b":"


def _kind(schema: Any, types: dict[str, Any], wanted: bool) -> DatumKind:
    """The kind of a schema. `types` has the named types before it. An unwanted value is read as its plain type, with
    the checks of `avro_strict.py` for its logical type."""
    if isinstance(schema, list):
        return "union", tuple(_kind(branch, types, wanted) for branch in schema)
    if isinstance(schema, str):
        if schema in types:
            return _kind(types[schema], types, wanted)
        return (schema,) if schema in _PRIMITIVES else ODD
    if "name" in schema:
        types[schema["name"]] = schema
    kind = schema["type"]
    logical = _LOGICAL.get((kind, str(schema.get("logicalType"))))
    if logical is not None and (wanted or logical[0] in _CHECKED):
        return logical
    if wanted and (schema.get("logicalType") is not None or is_text(schema)):
        return ODD
    if is_record(schema):
        fields = [(_key(field["name"]), _kind(field["type"], types, wanted)) for field in schema["fields"]]
        return _record(schema, [*fields]) or ODD
    if kind == "enum":
        return kind, tuple(map(json.encode, schema["symbols"]))
    if kind == "fixed":
        return kind, schema["size"]
    if kind in _INNER:
        return kind, _kind(schema[_INNER[kind]], types, wanted)
    return (kind,) if kind in _PRIMITIVES else ODD
