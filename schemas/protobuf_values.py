"""Protobuf messages as JSON values. They are the values of Protobuf's own JSON, with the names of the `.proto` file.
64-bit integers are numbers, and NaN and infinities are null, as in every other format. A field with presence that is
not set does not exist."""

from collections.abc import Callable
from math import isfinite
from threading import local
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from sluicegate.schemas.codecs import base64_text

Read = Callable[[Any], Any]
_FREE = ("Struct", "Value", "ListValue")
_TEXTS = ("Timestamp", "Duration", "FieldMask")
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
PACKAGE = "google.protobuf."
MOST_INSIDE = 8
"""Messages of type Any around another one: each is a copy of all that is inside of it."""
MOST_VALUES = 500_000
"""Fields of all messages of a record: a message without a byte has the fields without presence of its type."""


def reading(descriptor: Descriptor, names: frozenset[str] | None = None) -> Read:
    """A function that makes a value of a message, of these fields only (None: all). It raises ValueError for a
    well-known type that has no value."""
    return Readers().whole(descriptor, names)


class Readers:
    """The readers of message types. A message that contains itself is read by the same function."""

    def __init__(self) -> None:
        self._known: dict[str, Read] = {}
        self._here = local()

    def whole(self, descriptor: Descriptor, names: frozenset[str] | None) -> Read:
        read, here = self.of_message(descriptor, names), self._here

        def bounded(message: Any) -> Any:
            here.left, here.around = MOST_VALUES, 0
            return read(message)

        return bounded

    def of_message(self, descriptor: Descriptor, names: frozenset[str] | None = None) -> Read:
        special = self._well_known(descriptor)
        if special is not None:
            return special
        fields: list[tuple[str, bool, Read]] = []
        here = self._here

        def read(message: Any) -> dict[str, Any]:
            here.left -= len(fields)
            if here.left < 0:
                raise ValueError(f"holds more than {MOST_VALUES:,} values with those that have no byte")
            has = message.HasField
            return {
                name: convert(getattr(message, name)) for name, presence, convert in fields if not presence or has(name)
            }

        if names is None:
            self._known[descriptor.full_name] = read
        for field in descriptor.fields:
            if names is None or field.name in names:
                fields.append((field.name, field.has_presence, self._of_field(field)))
        return read

    def _nested(self, descriptor: Descriptor) -> Read:
        return self._known.get(descriptor.full_name) or self.of_message(descriptor)

    def _of_field(self, field: FieldDescriptor) -> Read:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            key, value = kind.fields_by_name["key"], self._of_one(kind.fields_by_name["value"])
            name = _boolean if key.type == key.TYPE_BOOL else str
            return lambda items: {name(item): value(items[item]) for item in items}
        one = self._of_one(field)
        return (lambda items: [one(item) for item in items]) if field.is_repeated else one

    def _of_one(self, field: FieldDescriptor) -> Read:
        if field.message_type is not None:
            return self._nested(field.message_type)
        if field.enum_type is not None:
            symbols = {number: symbol.name for number, symbol in field.enum_type.values_by_number.items()}
            return lambda number: symbols.get(number, number)
        if field.type == field.TYPE_BYTES:
            return base64_text
        return _finite if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT) else _same

    def _well_known(self, descriptor: Descriptor) -> Read | None:
        if not descriptor.full_name.startswith(PACKAGE):
            return None
        name = descriptor.full_name.removeprefix(PACKAGE)
        if name in _TEXTS:
            return lambda message: message.ToJsonString()
        if name in _FREE:
            return _free
        if name == "Any":
            return lambda message: self._any(message, descriptor)
        if name.removesuffix("Value") in _WRAPPERS and name.endswith("Value"):
            value = self._of_one(descriptor.fields_by_name["value"])
            return lambda message: value(message.value)
        return None

    def _any(self, message: Any, descriptor: Descriptor) -> dict[str, Any]:
        """The message in an Any, with its type; an empty Any has none."""
        if not message.type_url:
            return {}
        around = self._here.around
        if around == MOST_INSIDE:
            raise ValueError(f"holds an Any inside of {MOST_INSIDE} others")
        name = message.type_url.rpartition("/")[2]
        try:
            kind = descriptor.file.pool.FindMessageTypeByName(name)
        except KeyError:
            raise ValueError("holds a type that the schema does not have") from None
        self._here.around = around + 1
        value = self._nested(kind)(GetMessageClass(kind).FromString(message.value))
        self._here.around = around
        plain = isinstance(value, dict) and self._well_known(kind) is None
        return {"@type": message.type_url, **(value if plain else {"value": value})}


def _same(value: Any) -> Any:
    return value


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _boolean(key: bool) -> str:
    return "true" if key else "false"


def _free(message: Any) -> Any:
    try:
        return json_format.MessageToDict(message)
    except json_format.Error:
        raise ValueError("holds a number that JSON does not have, or no value") from None
