"""The types of the JSON values of an Avro schema."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    TEXT,
    UNKNOWN,
    ValueType,
    common,
    list_of,
    map_of,
    record_of,
)


def noted(note: str) -> ValueType:
    """Text that stands for a value of another kind."""
    return replace(TEXT, note=note)


_PRIMITIVES = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": INTEGER,
    "float": DOUBLE,
    "double": DOUBLE,
    "bytes": noted("base64"),
    "string": TEXT,
}
_LOGICAL = {
    ("bytes", "decimal"): noted("a decimal"),
    ("fixed", "decimal"): noted("a decimal"),
    ("long", "timestamp-millis"): noted("a time"),
    ("long", "timestamp-micros"): noted("a time"),
    ("long", "local-timestamp-millis"): noted("a time without a zone"),
    ("long", "local-timestamp-micros"): noted("a time without a zone"),
    ("int", "date"): noted("a date"),
    ("int", "time-millis"): noted("a time of day"),
    ("long", "time-micros"): noted("a time of day"),
    ("string", "uuid"): noted("a UUID"),
}


def of_avro(schema: Any, named: Mapping[str, Any]) -> ValueType:
    """The type of the JSON value that stands for a value of the schema. Text that is JSON may be any value."""
    if isinstance(schema, list):
        return common(of_avro(branch, named) for branch in schema)
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else of_avro(named[schema], named)
    kind = schema["type"]
    if isinstance(kind, str) and schema.get("contentMediaType") == "application/json":
        return UNKNOWN
    logical = _LOGICAL.get((kind, schema.get("logicalType"))) if isinstance(kind, str) else None
    if logical is not None:
        return logical
    match kind:
        case "record" | "error":
            return record_of({field["name"]: of_avro(field["type"], named) for field in schema["fields"]})
        case "enum":
            return replace(TEXT, symbols=tuple(schema["symbols"]))
        case "fixed":
            return _PRIMITIVES["bytes"]
        case "array":
            return list_of(of_avro(schema["items"], named))
        case "map":
            return map_of(of_avro(schema["values"], named))
    return of_avro(kind, named)
