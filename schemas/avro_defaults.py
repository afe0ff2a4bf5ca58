"""Converts the defaults of fields into the values that fastavro reads and writes.

A schema has defaults in a JSON form of its own: bytes are text in ISO 8859-1, a timestamp is a number, a record may
lack fields that have defaults. The value of a default is written as a datum and read again, so it has the form that the
same value has in a record.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro

from sluicegate.schemas.avro_reading import reading
from sluicegate.schemas.avro_strict import walking

Leaf = Callable[[Any, Any], Any]
"""Makes a value of a type without items or fields, from its schema and its raw value."""
Branch = Callable[[str, Any], Any]
"""Makes the value of a union, from the name of the branch and its value."""

_BITS = {"int": 32, "long": 64}
_INNER = {"array": "items", "map": "values"}


def readable(schema: Any) -> Any:
    """The schema that `parsed` returned. Each default, at any depth, is replaced by the value that fastavro would read.
    Raises ValueError for a default that is not a value of its type."""
    return _converted(schema, {}, Defaults(_as_read, lambda name, value: value))


def writable(schema: Any) -> Any:
    """Same as `readable`, for writing. A union's value has the name of its branch, so fastavro writes the branch that
    was chosen."""
    return _converted(schema, {}, Defaults(lambda schema, raw: raw, lambda name, value: (name, value)))


class Defaults:
    """Converts defaults. `named` has the types that were defined before the default."""

    def __init__(self, leaf: Leaf, branch: Branch) -> None:
        self._leaf, self._branch = leaf, branch

    def of_field(self, field: Any, named: dict[str, Any], record: str) -> Any:
        """The value of a field that has a default. Raises ValueError."""
        try:
            return self._value(field["type"], field["default"], named)
        except (ValueError, OverflowError, IndexError) as error:
            why = f": {error}" if type(error) is ValueError and error.args else ""
            what = f"the default of {record}.{field['name']} is not a value of its type"
            raise ValueError(f"is not an Avro schema ({what}{why})") from None

    def _value(self, schema: Any, value: Any, named: dict[str, Any]) -> Any:
        if isinstance(schema, list):
            for branch in schema:
                try:
                    converted = self._value(branch, value, named)
                except (ValueError, OverflowError, IndexError):
                    continue
                return self._branch(_name(branch), converted)
            raise ValueError("no branch of the union has it")
        if isinstance(schema, str):
            schema = named.get(schema, {"type": schema})
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._of_record(schema, value, named)
        if kind in _INNER:
            inner = schema[_INNER[kind]]
            if kind == "array":
                return [self._value(inner, item, named) for item in _of_type(list, value)]
            return {name: self._value(inner, item, named) for name, item in _of_type(dict, value).items()}
        if not isinstance(kind, str) or kind in named:
            return self._value(kind, value, named)
        return self._leaf(schema, _raw(schema, value))

    def _of_record(self, schema: Any, value: Any, named: dict[str, Any]) -> dict[str, Any]:
        _of_type(dict, value)
        made = {}
        for field in schema["fields"]:
            name = field["name"]
            if name in value:
                made[name] = self._value(field["type"], value[name], named)
            elif "default" in field:
                made[name] = self._value(field["type"], field["default"], named)
            else:
                raise ValueError(f"it lacks {name}")
        return made


def _name(branch: Any) -> str:
    """The name by which fastavro finds a branch of a union."""
    if isinstance(branch, str):
        return branch
    return str(branch["name"] if "name" in branch else branch["type"])


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError
    return value


def _raw(schema: Any, value: Any) -> Any:
    """The value in the form of its type, without the logical type."""
    kind = schema["type"]
    if kind in _BITS:
        most = 1 << (_BITS[kind] - 1)
        if not -most <= _of_type(int, value) < most:
            raise ValueError(f"it needs more than {_BITS[kind]} bits")
        return value
    if kind in ("float", "double"):
        return float(value) if type(value) is int else _of_type(float, value)
    if kind in ("bytes", "fixed"):
        raw = _of_type(str, value).encode("latin-1")
        if kind == "fixed" and len(raw) != schema["size"]:
            raise ValueError(f"it does not have {schema['size']} bytes")
        return raw
    if kind == "enum":
        if value not in schema["symbols"]:
            raise ValueError("it is no symbol")
        return value
    return _of_type({"null": type(None), "boolean": bool, "string": str}[kind], value)


def _as_read(schema: Any, raw: Any) -> Any:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, raw)
    datum = stream.getvalue()
    walking(schema, {})(datum, 0)
    return fastavro.schemaless_reader(BytesIO(datum), reading(schema, schema, None), None)


def _converted(schema: Any, named: dict[str, Any], defaults: Defaults) -> Any:
    if isinstance(schema, list):
        return [_converted(branch, named, defaults) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    if kind in _INNER:
        made = {**schema, _INNER[kind]: _converted(schema[_INNER[kind]], named, defaults)}
    elif kind in ("record", "error"):
        made = {**schema, "fields": [_field(field, named, defaults, schema["name"]) for field in schema["fields"]]}
    else:
        made = {**schema, "type": _converted(kind, named, defaults)}
    known = schema.get("__named_schemas")
    if known is not None:  # fastavro looks up types by name there
        made["__named_schemas"] = {name: _converted(schema, dict(known), defaults) for name, schema in known.items()}
    return made


def _field(field: Any, named: dict[str, Any], defaults: Defaults, record: str) -> Any:
    made = {**field, "type": _converted(field["type"], named, defaults)}
    return {**made, "default": defaults.of_field(field, named, record)} if "default" in field else made
