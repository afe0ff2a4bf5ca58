"""Follows the bytes of a datum by its writer's schema, as strictly as Avro's specification. fastavro accepts more: a
negative branch of a union, a negative symbol of an enum, an int beyond 32 bits, a varint without an end, a boolean of
any byte, a decimal without a byte. Such bytes are no datum, and another library would read something else in them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Walk = Callable[[bytes, int], int]
"""Takes the message and the offset of a datum, and returns the offset behind the datum. Raises ValueError with the
reason, and IndexError if the message ends too early."""

_INT, _LONG = 32, 64  # bits


def walking(schema: Any, named: dict[str, Walk]) -> Walk:
    """The walk of a schema that `parsed` returned; `named` has the named types before it."""
    if isinstance(schema, list):
        return _union([walking(branch, named) for branch in schema])
    if isinstance(schema, str):
        return named.get(schema) or _PRIMITIVES[schema]
    kind = schema["type"]
    if kind in ("record", "error"):
        walk = _record([walking(field["type"], named) for field in schema["fields"]])
    elif kind == "enum":
        walk = _enum(len(schema["symbols"]))
    elif kind == "fixed":
        walk = _bytes_of(schema["size"])
    elif kind == "array":
        return _blocks([walking(schema["items"], named)])
    elif kind == "map":
        return _blocks([_sized, walking(schema["values"], named)])
    elif (kind, schema.get("logicalType")) in _LOGICAL:
        return _LOGICAL[kind, schema["logicalType"]]
    else:
        return walking(kind, named)
    named[schema["name"]] = walk
    return walk


def fields(schema: Any) -> Mapping[str, Walk]:
    """The walk of each field of a record's schema, in their order."""
    named: dict[str, Walk] = {}
    return {field["name"]: walking(field["type"], named) for field in schema["fields"]}


def _varint(value: bytes, at: int, bits: int) -> tuple[int, int]:
    """The number at `at` and the offset behind it."""
    octet = value[at]
    if octet < 0x80:
        return (octet >> 1) ^ -(octet & 1), at + 1
    octet = shift = 0
    while True:
        byte = value[at]
        at += 1
        octet |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise ValueError(f"has a number of more than {bits} bits")
    if octet >> bits:
        raise ValueError(f"has a number of more than {bits} bits")
    return (octet >> 1) ^ -(octet & 1), at


def _number(bits: int) -> Walk:
    def walk(value: bytes, at: int) -> int:
        return at + 1 if value[at] < 0x80 else _varint(value, at, bits)[1]

    return walk


def _null(value: bytes, at: int) -> int:
    return at


def _boolean(value: bytes, at: int) -> int:
    if value[at] > 1:
        raise ValueError("has a boolean that is neither 0 nor 1")
    return at + 1


def _sized(value: bytes, at: int) -> int:
    """Text or bytes: a length, and so many bytes."""
    length, at = _varint(value, at, _LONG)
    if length < 0:
        raise ValueError("has a negative length")
    return _within(value, at + length)


def _decimal(value: bytes, at: int) -> int:
    end = _sized(value, at)
    if value[at] == 0:
        raise ValueError("has a decimal without a byte")
    return end


def _clock(bits: int, day: int) -> Walk:
    """The walk of a time of day, of which `day` units make a day."""

    def walk(value: bytes, at: int) -> int:
        number, at = _varint(value, at, bits)
        if not 0 <= number < day:
            raise ValueError("has a time that is not of one day")
        return at

    return walk


def _bytes_of(size: int) -> Walk:
    return lambda value, at: _within(value, at + size)


def _within(value: bytes, end: int) -> int:
    if end > len(value):
        raise IndexError
    return end


def _enum(symbols: int) -> Walk:
    def walk(value: bytes, at: int) -> int:
        index, at = _varint(value, at, _INT)
        if not 0 <= index < symbols:
            raise ValueError("names a symbol that does not exist")
        return at

    return walk


def _union(branches: Sequence[Walk]) -> Walk:
    most = len(branches)

    def walk(value: bytes, at: int) -> int:
        index, at = _varint(value, at, _LONG)
        if not 0 <= index < most:
            raise ValueError("names a branch of a union that does not exist")
        return branches[index](value, at)

    return walk


def _record(walks: Sequence[Walk]) -> Walk:
    def walk(value: bytes, at: int) -> int:
        for step in walks:
            at = step(value, at)
        return at

    return walk


def _blocks(item: Sequence[Walk]) -> Walk:
    """Blocks of items until an empty one. A negative count is followed by the block's size in bytes."""

    def walk(value: bytes, at: int) -> int:
        while True:
            count, at = _varint(value, at, _LONG)
            if count == 0:
                return at
            if count < 0:
                count, (size, at) = -count, _varint(value, at, _LONG)
                _within(value, at + size)
            for _ in range(count):
                for walk_part in item:
                    at = walk_part(value, at)

    return walk


_PRIMITIVES: dict[str, Walk] = {
    "null": _null,
    "boolean": _boolean,
    "int": _number(_INT),
    "long": _number(_LONG),
    "float": _bytes_of(4),
    "double": _bytes_of(8),
    "bytes": _sized,
    "string": _sized,
}
_LOGICAL: dict[tuple[str, str], Walk] = {
    ("bytes", "decimal"): _decimal,
    ("int", "time-millis"): _clock(_INT, 86_400_000),
    ("long", "time-micros"): _clock(_LONG, 86_400_000_000),
}
