"""Changes a record after fastavro has read it: makes timestamps, reads JSON text, drops fields that are not wanted.

Measured (tests/bench/formats.py): a timestamp takes fastavro as long as seven other fields; reading a number and making
the timestamp here takes a tenth of that.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate.schemas import json
from sluicegate.schemas.avro_values import CONTENT, JSON_TEXT

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PRIMITIVES = ("int", "long", "bytes", "string")

Fix = Callable[[Any], Any]


def restoring(schema: Any, names: frozenset[str] | None, direct: bool) -> tuple[Any, Fix | None]:
    """A schema to read with, of the same bytes, and a function that makes its records into records of `schema` with
    these fields only (None: all). `direct`: the records were written with `schema`; otherwise it is not changed."""
    if not is_record(schema):
        return schema, None
    fields, fixes = [], []
    for field in schema["fields"]:
        wanted = names is None or field["name"] in names
        kind, fix = _fixed(field["type"], wanted, direct)
        fields.append({**field, "type": kind})
        if fix is not None and wanted:
            fixes.append((field["name"], fix))
    known = None if names is None else [field["name"] for field in fields if field["name"] in names]
    return {**schema, "fields": fields} if direct else schema, _restore(fixes, known)


def _restore(fixes: list[tuple[str, Fix]], known: list[str] | None) -> Fix | None:
    if not fixes and known is None:
        return None

    def restore(record: Any) -> Any:
        for name, fix in fixes:
            if (value := record[name]) is not None:
                record[name] = fix(value)
        return record if known is None else {name: record[name] for name in known}

    return restore


def _fixed(kind: Any, wanted: bool, direct: bool) -> tuple[Any, Fix | None]:
    """The type to read a field with, and the function for its value."""
    branches = kind if isinstance(kind, list) else [kind]
    others = [branch for branch in branches if branch != "null"]
    only = others[0] if len(others) == 1 else None
    if not isinstance(only, dict):
        return kind, None
    if is_text(only):
        return kind, json.decode_any
    if only["type"] == "array" and is_text(only["items"]):
        return kind, lambda items: [json.decode_any(item) for item in items]
    fix = _TIMES.get(str(only.get("logicalType"))) if only["type"] == "long" else None
    plain = fix is not None or (not wanted and only["type"] in _PRIMITIVES)
    if not direct or not plain:
        return kind, None
    if not isinstance(kind, list):
        return only["type"], fix
    return [only["type"] if branch is only else branch for branch in branches], fix


def is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] in ("record", "error")


def is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "string" and schema.get(CONTENT) == JSON_TEXT[CONTENT]


def _millis(value: int) -> datetime:
    return EPOCH + timedelta(milliseconds=value)


def _micros(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


_TIMES: dict[str, Fix] = {"timestamp-millis": _millis, "timestamp-micros": _micros}
