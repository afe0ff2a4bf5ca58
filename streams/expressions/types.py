"""The types of values, as far as they are known before any record is read.

A field of a JSON document is `UNKNOWN`. An Avro schema, a handler's Struct or a reducer give more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from sluicegate.streams.expressions.tree import Constant

ValueKind = OneOf[
    "integer", "double", "number", "text", "boolean", "time", "duration", "list", "map", "null", "unknown"
]
NUMBERS: frozenset[ValueKind] = frozenset({"integer", "double", "number"})


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type. A `number` is an integer or a double. `unknown` includes every kind, and null."""

    kind: ValueKind
    of: "ValueType | None" = None
    """The type of a list's items, or of a map's values whose names are not in `fields`. None: unknown."""
    fields: Mapping[str, "ValueType"] | None = None
    """The fields of a map whose names are known: all of them, where `of` is None."""
    nullable: bool = False
    """The value may be null or missing, and the type's source says so."""
    note: str = ""
    """What the source calls the value: `a decimal`."""
    symbols: tuple[str, ...] = ()
    """The texts that the value can be: the symbols of an enum."""

    @property
    def items(self) -> "ValueType":
        return self.of or UNKNOWN

    def __str__(self) -> str:
        inner = f" of {self.of.kind}" if self.of and self.kind in ("list", "map") and self.of.kind != "unknown" else ""
        return f"{self.kind}{inner}{f' ({self.note})' if self.note else ''}"


UNKNOWN = ValueType("unknown")
INTEGER = ValueType("integer")
DOUBLE = ValueType("double")
NUMBER = ValueType("number")
TEXT = ValueType("text")
BOOLEAN = ValueType("boolean")
TIME = ValueType("time")
DURATION = ValueType("duration")
LIST = ValueType("list")
MAP = ValueType("map")
NULL = ValueType("null", nullable=True)


def list_of(items: ValueType) -> ValueType:
    return ValueType("list", items)


def map_of(values: ValueType) -> ValueType:
    return ValueType("map", values)


def record_of(fields: Mapping[str, ValueType]) -> ValueType:
    """The type of a map with these names and no others."""
    return ValueType("map", fields=fields)


def open_record_of(fields: Mapping[str, ValueType]) -> ValueType:
    """The type of a map with these names, and possibly others."""
    return ValueType("map", UNKNOWN, fields)


def nullable(type_: ValueType) -> ValueType:
    return replace(type_, nullable=True)


def present(type_: ValueType) -> ValueType:
    """The type of a value that is known to be there."""
    return replace(type_, nullable=False) if type_.nullable else type_


_OF_LITERALS: dict[type, ValueType] = {int: INTEGER, float: DOUBLE, str: TEXT, bool: BOOLEAN, type(None): NULL}


def type_of_literal(value: Constant) -> ValueType:
    return _OF_LITERALS[type(value)]


def are_comparable(one: ValueType, other: ValueType) -> bool:
    """Whether a value of the one type can equal a value of the other."""
    if "unknown" in (one.kind, other.kind) or "null" in (one.kind, other.kind):
        return True
    return one.kind == other.kind or {one.kind, other.kind} <= NUMBERS


def common(types: Iterable[ValueType]) -> ValueType:
    """The type of a value that has one of these types."""
    listed = list(types)
    kinds = {type_.kind for type_ in listed} - {"null"}
    is_nullable = any(type_.nullable for type_ in listed)
    if not kinds:
        return NULL if listed else UNKNOWN
    if len(kinds) > 1:
        return ValueType("number" if kinds <= NUMBERS else "unknown", nullable=is_nullable)
    known = [type_ for type_ in listed if type_.kind != "null"]
    if all(present(type_) == present(known[0]) for type_ in known):
        return replace(known[0], nullable=is_nullable)
    return ValueType(known[0].kind, nullable=is_nullable)
