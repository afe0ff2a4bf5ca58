"""The schema with which fastavro reads a record: the writer's, with the logical types of the reader's.

fastavro makes a value of the logical type of the writer's schema, but the reader's schema defines the value: a long
that became a timestamp is read as one. If both have a logical type of one family, the writer's defines the number:
milliseconds stay milliseconds. An unwanted value is read as its plain type, which takes less time.
"""

from typing import Any

from sluicegate.schemas.avro_logical import JSON, LOGICAL, OURS, PROMOTED
from sluicegate.schemas.avro_values import CONTENT, JSON_TEXT

_NAMED = ("record", "error", "enum", "fixed")
_INNER = {"array": "items", "map": "values"}


def reading(writer: Any, reader: Any, names: frozenset[str] | None) -> Any:
    """A schema for the same bytes as `writer`, with values of `reader` and these fields (None: all). It refers to no
    type by its name. Both are schemas that `parsed` returned; they may be the same."""
    marking = Marking(reader)
    if names is not None:
        reader = {**reader, "fields": [field for field in reader["fields"] if field["name"] in names]}
    marked = marking.marked(writer, reader)
    return {**marked, "__fastavro_parsed": True, "__named_schemas": {}} if isinstance(marked, dict) else marked


class Marking:
    """Replaces references by the named types themselves, because a type may be wanted in one place and not in
    another."""

    def __init__(self, reader: Any) -> None:
        self._written: dict[str, Any] = {}
        self._read: dict[str, Any] = {}
        named_types(reader, self._read)

    def marked(self, written: Any, read: Any) -> Any:
        """`read` None: the value is not wanted."""
        if isinstance(written, list):
            return [self.marked(branch, branch if read is written else read) for branch in written]
        if isinstance(written, str):
            if written in self._written:
                return self.marked(self._written[written], read)
            written = {"type": written}
        kind = written["type"]
        if not isinstance(kind, str) or kind in self._written:
            return self.marked(kind, read)
        if "name" in written:
            self._written[written["name"]] = written
        read = self._target(written, read)
        if kind in ("record", "error"):
            return {**_plain(written), "fields": [self._field(field, read) for field in written["fields"]]}
        if kind in _INNER:
            inner = _INNER[kind]
            return {**_plain(written), inner: self.marked(written[inner], read and read[inner])}
        made = {**_plain(written), **_logical(written, read)}
        return made if len(made) > 1 else kind

    def _field(self, field: Any, record: Any) -> Any:
        read = None
        for other in record["fields"] if record else ():
            if field["name"] == other["name"] or (read is None and field["name"] in other.get("aliases", ())):
                read = other["type"]
        return {**field, "type": self.marked(field["type"], read)}

    def _target(self, written: Any, read: Any) -> Any:
        """The reader's type for a type: the first branch of a union that accepts it."""
        branches = read if isinstance(read, list) else [read]
        target = next((branch for branch in branches if branch is not None and self._fits(written, branch)), None)
        return None if target is None else self._definition(target)

    def _definition(self, schema: Any) -> Any:
        if isinstance(schema, str):
            return self._read.get(schema, {"type": schema})
        return schema if isinstance(schema["type"], str) else self._definition(schema["type"])

    def _fits(self, written: Any, read: Any) -> bool:
        """Whether fastavro would read the one type as the other."""
        if isinstance(written, list) or isinstance(read, list):
            return True
        if isinstance(written, str):
            written = self._written.get(written, {"type": written})
        read = self._definition(read)
        kind, other = written["type"], read["type"]
        if kind in _NAMED and other in _NAMED:
            own, name = (schema["name"].rpartition(".")[2] for schema in (written, read))
            aliases = read.get("aliases", ())
            same = kind == other or {kind, other} == {"record", "error"}
            return same and (own == name or written["name"] in aliases or own in aliases)
        if kind in _INNER and kind == other:
            return self._fits(written[_INNER[kind]], read[_INNER[kind]])
        return bool(kind == other or other in PROMOTED.get(kind, ()))


def named_types(schema: Any, named: dict[str, Any]) -> None:
    """Fills `named` with the definitions of the named types of a schema."""
    if isinstance(schema, list):
        for branch in schema:
            named_types(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for field in schema.get("fields", ()):
            named_types(field["type"], named)
        for key in ("items", "values", "type"):
            named_types(schema.get(key), named)


def _plain(schema: Any) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "logicalType" and not key.startswith("__")}


def _logical(written: Any, read: Any) -> dict[str, Any]:
    if read is None:
        return {}
    own, other = _name(written), _name(read)
    chosen, name = (written, own) if own and other and _family(own) == _family(other) else (read, other)
    if not name:
        return {}
    return {key: chosen[key] for key in ("precision", "scale") if key in chosen} | {"logicalType": OURS + name}


def _name(schema: Any) -> str:
    """The name of the logical type, if the type is read as one."""
    if is_text(schema):
        return JSON
    name = str(schema.get("logicalType"))
    return name if (schema["type"], name) in LOGICAL else ""


def _family(name: str) -> str:
    return name.removesuffix("-millis").removesuffix("-micros")


def is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] in ("record", "error")


def is_text(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] == "string" and schema.get(CONTENT) == JSON_TEXT[CONTENT]
