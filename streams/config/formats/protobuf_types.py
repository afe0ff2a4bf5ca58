"""The types of the JSON values of a Protobuf message's fields."""

from dataclasses import replace
from typing import Any

from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LIST,
    TEXT,
    UNKNOWN,
    ValueType,
    list_of,
    map_of,
    nullable,
    record_of,
)

_NOTES = {"Timestamp": "a time", "Duration": "a duration", "FieldMask": "names of fields"}
_FREE = {"Struct": map_of(UNKNOWN), "ListValue": LIST}
_PACKAGE = "google.protobuf."


def message_fields(schema: str, name: str) -> dict[str, ValueType]:
    """The fields of the message with this full name; empty: it has no fixed fields. Raises ValueError."""
    from sluicegate.schemas.protobuf_schema import message

    return dict(_of_message(message(schema, name), ()).fields or {})


def _of_message(kind: Any, inside: tuple[str, ...]) -> ValueType:
    """The type of a message. `inside` has the names of the enclosing messages."""
    if kind.full_name in inside:
        return UNKNOWN
    if kind.full_name.startswith(_PACKAGE):
        name = kind.full_name.removeprefix(_PACKAGE)
        if name in _NOTES:
            return replace(TEXT, note=_NOTES[name])
        if name.endswith("Value") and name not in ("Value", "ListValue"):
            return _of_one(kind.fields_by_name["value"], ())
        return _FREE.get(name, UNKNOWN)
    return record_of({field.name: _of_field(field, (*inside, kind.full_name)) for field in kind.fields})


def _of_field(field: Any, inside: tuple[str, ...]) -> ValueType:
    """The type of a field. A field with presence may be missing."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return map_of(_of_one(field.message_type.fields_by_name["value"], inside))
    one = _of_one(field, inside)
    if field.is_repeated:
        return list_of(one)
    return nullable(one) if field.has_presence and not field.is_required else one


def _of_one(field: Any, inside: tuple[str, ...]) -> ValueType:
    if field.message_type is not None:
        return _of_message(field.message_type, inside)
    if field.enum_type is not None:
        known = tuple(value.name for value in field.enum_type.values)
        return replace(TEXT, symbols=known) if field.enum_type.is_closed else UNKNOWN
    match field.type:
        case field.TYPE_BYTES:
            return replace(TEXT, note="base64")
        case field.TYPE_DOUBLE | field.TYPE_FLOAT:
            return DOUBLE
        case field.TYPE_BOOL:
            return BOOLEAN
        case field.TYPE_STRING:
            return TEXT
    return INTEGER
