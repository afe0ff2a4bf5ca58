"""Refuses Avro schemas with which a short message, or the schema itself, could exhaust the process.

The library recurses without a bound in a type that contains itself. An array of items without bytes has any number of
them in a few bytes. A type that is named twice in a type that is named twice, and so on, is large where it is followed,
although its text is short.
"""

from typing import Any, NamedTuple

from sluicegate.schemas.avro_logical import MOST_DIGITS, TOO_LONG

MOST_TYPES = 20_000
"""Types of a schema, with each named type in all its places."""


class Size(NamedTuple):
    """The least number of bytes of a datum, and the number of types in a schema."""

    bytes: int
    types: int


def size_of(schema: Any, named: dict[str, Any]) -> Size:
    """Fills `named` with the named types. Raises ValueError for a schema that is refused."""
    return _Sizes(named).of(schema, ())


class _Sizes:
    """Computes sizes. Each named type is followed once."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._known: dict[str, Size] = {}

    def of(self, schema: Any, inside: tuple[str, ...]) -> Size:
        size = self._size(schema, inside)
        if size.types > MOST_TYPES:
            raise ValueError(f"it has more than {MOST_TYPES:,} types where each named one is counted in all its places")
        return size

    def _size(self, schema: Any, inside: tuple[str, ...]) -> Size:
        if isinstance(schema, list):
            if any(isinstance(branch, list) for branch in schema):
                raise ValueError("a union lies directly in another one")
            return Size(1, 1 + sum(self.of(branch, inside).types for branch in schema))
        if isinstance(schema, str):
            return self._reference(schema, inside)
        kind = schema["type"]
        if schema.get("logicalType") == "decimal" and not isinstance(schema.get("precision"), int):
            raise ValueError("a decimal has no precision")
        if schema.get("logicalType") == "decimal" and schema["precision"] > MOST_DIGITS:
            raise ValueError(TOO_LONG)
        if kind in ("record", "error", "enum", "fixed"):
            self._named[schema["name"]] = schema
            self._known[schema["name"]] = known = self._new(schema, inside)
            return known
        if kind == "array":
            items = self.of(schema["items"], inside)
            if not items.bytes:
                raise ValueError("an array has items that take no bytes")
            return Size(1, 1 + items.types)
        if kind == "map":
            return Size(1, 1 + self.of(schema["values"], inside).types)
        return self.of(kind, inside)

    def _reference(self, name: str, inside: tuple[str, ...]) -> Size:
        if name in inside:
            raise ValueError(f"{name} contains itself: recursive types are not supported")
        if name in self._named and name not in self._known:
            self._known[name] = self.of(self._named[name], inside)
        return self._known.get(name) or Size(0 if name == "null" else 1, 1)

    def _new(self, schema: Any, inside: tuple[str, ...]) -> Size:
        if schema["type"] == "enum":
            return Size(1, 1)
        if schema["type"] == "fixed":
            return Size(int(schema["size"]), 1)
        fields = [self.of(field["type"], (*inside, schema["name"])) for field in schema["fields"]]
        return Size(sum(field.bytes for field in fields), 1 + sum(field.types for field in fields))
