"""Values of looked-up rows as JSON, and keys in the form in which they are compared."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from sluicegate.schemas.codecs import base64_text
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import LookupKey, RowFields
from sluicegate.streams.errors import LookupFailed

LARGEST = 2**63
KEYS_AT_ONCE = 1_000
"""Keys of one query."""
_PLAIN = frozenset({str, bool, int, type(None)})


def json_value(value: Any) -> Any:
    """Decimals, times, UUIDs and values of other types are text, bytes are base64."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64_text(bytes(value))
    if isinstance(value, Mapping):
        return {str(name): json_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(element) for element in value]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else str(value)
    if isinstance(value, date | datetime | time | timedelta):
        return msgspec.to_builtins(value)
    return int(value) if isinstance(value, int) else str(value)


def name_of(value: Any) -> str:
    """The form of a key in comparisons: the text `42`, the number 42 and the decimal 42.00 are one key."""
    if isinstance(value, float | Decimal) and value == int(value):
        value = int(value)
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)


def storable(keys: Sequence[LookupKey]) -> Sequence[LookupKey]:
    """The keys without numbers that no store has, and that a driver refuses."""
    return [key for key in keys if isinstance(key, str) or -LARGEST <= key < LARGEST]


def by_key(
    lookup: Lookup, keys: Sequence[LookupKey], rows: Iterable[tuple[Any, Sequence[Any]]]
) -> Mapping[LookupKey, RowFields]:
    """The rows by the requested keys. `rows` are pairs of a row's own key and its fields. Raises LookupFailed for two
    rows with one key."""
    by_name: dict[str, RowFields] = {}
    fields = lookup.fields
    for key, values in rows:
        name = key if type(key) is str else name_of(key)
        if name in by_name:
            raise failed(lookup, f"two rows have the same {lookup.column}; look up by a column that is unique")
        by_name[name] = {
            field: value if type(value) in _PLAIN else json_value(value)
            for field, value in zip(fields, values, strict=True)
        }
    return {key: by_name[name] for key in keys if (name := key if type(key) is str else name_of(key)) in by_name}


def failed(lookup: Lookup, why: str) -> LookupFailed:
    return LookupFailed(f"lookup-failed: {lookup.name} ({lookup.kind} {lookup.source}): {why}")
