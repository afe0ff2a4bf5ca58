"""Converts JSON values to values of a schema: exactly, or it raises Unwritable with the field."""

import base64
import binascii
import struct
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec

from sluicegate.schemas import json
from sluicegate.schemas.codecs import Unwritable

CONTENT = "contentMediaType"
JSON_TEXT = {"type": "string", CONTENT: "application/json"}
"""The type of a value of any shape, written as JSON text; our reader returns the value."""

Fit = Callable[[Any, str], Any]
"""Converts a value for the writer; the path of its field is for the error."""

_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "an array",
    dict: "an object",
}


def _refused(path: str, wanted: str, value: Any) -> Unwritable:
    return Unwritable(
        f"{path or 'the value'}: {wanted} is wanted, there is {_KINDS.get(type(value), type(value).__name__)}"
    )


def fitting(schema: Any, named: dict[str, Fit]) -> Fit:
    """The conversion for a schema that `writable` returned; `named` has the named types before it."""
    if isinstance(schema, list):
        return _union(schema, named)
    if isinstance(schema, str):
        return named.get(schema) or _PRIMITIVES[schema]
    if schema["type"] == "string" and schema.get(CONTENT) == JSON_TEXT[CONTENT]:
        return _json
    kind, logical = schema["type"], str(schema.get("logicalType"))
    if logical == "decimal" and kind in ("bytes", "fixed") and "precision" in schema:
        fit = _decimal(schema["precision"], schema.get("scale", 0))
    elif (kind, logical) in _LOGICAL:
        fit = _LOGICAL[kind, logical]
    elif kind in _COMPOUND:
        return _COMPOUND[kind](schema, named)
    else:
        return fitting(kind, named)
    if kind == "fixed":
        named[schema["name"]] = fit
    return fit


def _null(value: Any, path: str) -> None:
    if value is not None:
        raise _refused(path, "null", value)


def _exactly(kind: type, wanted: str) -> Fit:
    def fit(value: Any, path: str) -> Any:
        if type(value) is not kind:
            raise _refused(path, wanted, value)
        return value

    return fit


def _whole(bits: int) -> Fit:
    most = 1 << (bits - 1)

    def fit(value: Any, path: str) -> int:
        if type(value) is not int:
            raise _refused(path, "a whole number", value)
        if not -most <= value < most:
            raise Unwritable(f"{path or 'the value'}: the number needs more than {bits} bits")
        return value

    return fit


def _double(value: Any, path: str) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _refused(path, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = 0.0
    if int(number) != value:
        raise Unwritable(f"{path or 'the value'}: the number is too large to be exact as a double")
    return number


def _float(value: Any, path: str) -> float:
    number = _double(value, path)
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise Unwritable(f"{path or 'the value'}: the number is out of the range of a float") from None
    return number


def _bytes(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(_text(value, path), validate=True)
    except (binascii.Error, ValueError):
        raise Unwritable(f"{path or 'the value'}: the text is not base64") from None


def _json(value: Any, path: str) -> str:
    return json.encode(value).decode()


def _moment(kind: Any, wanted: str) -> Fit:
    def fit(value: Any, path: str) -> Any:
        try:
            return msgspec.convert(_text(value, path), kind)
        except (msgspec.ValidationError, OverflowError):
            raise Unwritable(f"{path or 'the value'}: the text is not {wanted}") from None

    return fit


def _decimal(precision: int, scale: int) -> Fit:
    """A decimal from text or a whole number. It is never rounded."""

    def fit(value: Any, path: str) -> Decimal:
        if type(value) not in (str, int):
            raise _refused(path, "a decimal as text", value)
        try:
            number = Decimal(value)
        except ArithmeticError:
            raise Unwritable(f"{path or 'the value'}: the text is not a decimal") from None
        if not number.is_finite():
            raise Unwritable(f"{path or 'the value'}: the decimal is not finite")
        _, digits, exponent = number.as_tuple()
        if -int(exponent) > scale or len(digits) + int(exponent) + scale > precision:
            raise Unwritable(
                f"{path or 'the value'}: the decimal has more digits than precision {precision} and scale {scale} allow"
            )
        return number

    return fit


def _union(branches: list[Any], named: dict[str, Fit]) -> Fit:
    """The first branch that accepts the value. A named type is passed with its name, so that the writer chooses the
    same branch."""
    fits = [(_name(branch), fitting(branch, named)) for branch in branches]
    others = [entry for entry, branch in zip(fits, branches, strict=True) if branch != "null"]

    def fit(value: Any, path: str) -> Any:
        for name, part_fit in fits:
            try:
                fitted = part_fit(value, path)
            except Unwritable:
                if len(others) == 1 and part_fit is others[0][1] and value is not None:
                    raise
                continue
            return fitted if name is None else (name, fitted)
        raise _refused(path, "another type (one of the union)", value)

    return fit


def _name(branch: Any) -> str | None:
    if isinstance(branch, str):
        return None if branch in _PRIMITIVES else branch
    named = branch["type"] in ("record", "error", "enum") or (branch["type"] == "fixed" and "logicalType" not in branch)
    return str(branch["name"]) if named else None


def _record(schema: Any, named: dict[str, Fit]) -> Fit:
    known: dict[str, Fit] = {}

    def fit(value: Any, path: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise _refused(path, "an object", value)
        inside = f"{path}." if path else ""
        for name in value.keys() - known.keys():
            raise Unwritable(f"{inside}{name}: the schema has no such field")
        fields = {}
        for name, field_fit in known.items():
            if name in value:
                fields[name] = field_fit(value[name], inside + name)
            elif name in defaults:
                fields[name] = defaults[name]
            else:
                raise Unwritable(f"{inside}{name}: is missing, and the schema has no default")
        return fields

    named[schema["name"]] = fit
    known |= {field["name"]: fitting(field["type"], named) for field in schema["fields"]}
    defaults = {field["name"]: field["default"] for field in schema["fields"] if "default" in field}
    return fit


def _enum(schema: Any, named: dict[str, Fit]) -> Fit:
    symbols = frozenset(schema["symbols"])

    def fit(value: Any, path: str) -> str:
        if _text(value, path) not in symbols:
            raise Unwritable(f"{path or 'the value'}: the text is not a symbol of {schema['name']}")
        return str(value)

    named[schema["name"]] = fit
    return fit


def _fixed(schema: Any, named: dict[str, Fit]) -> Fit:
    def fit(value: Any, path: str) -> bytes:
        data = _bytes(value, path)
        if len(data) != schema["size"]:
            raise Unwritable(f"{path or 'the value'}: {schema['size']} bytes are wanted, there are {len(data)}")
        return data

    named[schema["name"]] = fit
    return fit


def _array(schema: Any, named: dict[str, Fit]) -> Fit:
    items = fitting(schema["items"], named)

    def fit(value: Any, path: str) -> list[Any]:
        if type(value) is not list:
            raise _refused(path, "an array", value)
        return [items(element, f"{path}[{i}]") for i, element in enumerate(value)]

    return fit


def _map(schema: Any, named: dict[str, Fit]) -> Fit:
    values = fitting(schema["values"], named)

    def fit(value: Any, path: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise _refused(path, "an object", value)
        return {name: values(element, f"{path}.*") for name, element in value.items()}

    return fit


_text = _exactly(str, "text")
_aware = _moment(Annotated[datetime, msgspec.Meta(tz=True)], "a time with its zone, as 2026-11-21T07:42:08Z")
_naive = _moment(Annotated[datetime, msgspec.Meta(tz=False)], "a time without a zone, as 2026-11-21T07:42:08")
_clock = _moment(Annotated[time, msgspec.Meta(tz=False)], "a time of day, as 07:42:08")
_PRIMITIVES: dict[str, Fit] = {
    "null": _null,
    "boolean": _exactly(bool, "a boolean"),
    "int": _whole(32),
    "long": _whole(64),
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _text,
}
_COMPOUND: dict[str, Callable[[Any, dict[str, Fit]], Fit]] = {
    "record": _record,
    "error": _record,
    "enum": _enum,
    "fixed": _fixed,
    "array": _array,
    "map": _map,
}
_LOGICAL: dict[tuple[str, str], Fit] = {
    ("long", "timestamp-millis"): _aware,
    ("long", "timestamp-micros"): _aware,
    ("long", "local-timestamp-millis"): _naive,
    ("long", "local-timestamp-micros"): _naive,
    ("int", "date"): _moment(date, "a date, as 2026-11-21"),
    ("int", "time-millis"): _clock,
    ("long", "time-micros"): _clock,
    ("string", "uuid"): _moment(UUID, "a UUID"),
}
