"""Change events of Debezium: an envelope with `op`, `before`, `after` and `source` around the rows of a table.

A converter of Kafka Connect writes the envelope alone, or as the `payload` beside a `schema`. Both have one form here:
the envelope alone.
"""

from typing import Any

import msgspec

from sluicegate.schemas.json import encode

READ, CREATE, UPDATE, DELETE = "r", "c", "u", "d"
OPERATIONS = (READ, CREATE, UPDATE, DELETE, "t", "m")
"""Of a snapshot, insert, update, delete; `t` truncates the table, and `m` is a message in the database's log."""
UNAVAILABLE = b'"__debezium_unavailable_value"'
"""Stands for a large value that an update did not change, and that the database's log does not have."""
_NULL = msgspec.Raw(b"null")


class _Whole(msgspec.Struct, gc=False):
    op: Any = None
    payload: msgspec.Raw = _NULL


class _Rows(msgspec.Struct, gc=False):
    op: str = ""
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL


_whole = msgspec.json.Decoder(_Whole).decode
_rows = msgspec.json.Decoder(_Rows).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def document(value: bytes) -> bytes:
    """The envelope alone, as JSON. Raises msgspec.DecodeError."""
    try:
        made = _whole(value)
        if made.op is None and bytes(made.payload) != b"null":
            value = bytes(made.payload)
            made = _whole(value)
    except msgspec.ValidationError:
        raise msgspec.DecodeError("is not a change event: it is not a JSON object") from None
    if made.op is None:
        raise msgspec.DecodeError("is not a change event: it has no op")
    if made.op not in OPERATIONS:
        raise msgspec.DecodeError("is not a change event: its op is none of c, r, u, d, t and m")
    return value


def row_after(value: bytes, known: bytes | None = None) -> bytes | None:
    """The row after the change of an envelope; None: there is none. `known` is the row before it, which has the values
    that the database's log leaves out. Raises msgspec.DecodeError."""
    change = _read(value)
    if change.op == DELETE:
        return None
    if change.op not in (READ, CREATE, UPDATE):
        what = "truncates the table and does not tell which rows are gone" if change.op == "t" else "is about no row"
        raise msgspec.DecodeError(f"is a change event that {what}: its op is {change.op}")
    row = bytes(change.after)
    if row[:1] != b"{":
        raise msgspec.DecodeError(f"is a change event without a row: its op is {change.op}, and after is not an object")
    return row if UNAVAILABLE not in row else _completed(row, known)


def _completed(row: bytes, known: bytes | None) -> bytes:
    """The row, with large values that the update did not change taken from the known row."""
    values = _members(row)
    before = {} if known is None else _members(known)
    for name, value in values.items():
        if bytes(value) == UNAVAILABLE:
            if name not in before:
                raise msgspec.DecodeError(
                    "is a change event without a whole row: the database left out a large value that did not change, "
                    "and the row before it is not known (on PostgreSQL, REPLICA IDENTITY FULL has the value)"
                )
            values[name] = before[name]
    return encode(values)


def rows(value: bytes) -> tuple[bytes | None, bytes | None]:
    """The rows before and after a change of a group, from the text of `change`. Raises msgspec.DecodeError."""
    made = _read(value)
    before, after = bytes(made.before), bytes(made.after)
    return None if before == b"null" else before, None if after == b"null" else after


def change(before: bytes | None, after: bytes | None) -> bytes:
    """The text of a group's change from one row to another. None: there is no row."""
    op = CREATE if before is None else DELETE if after is None else UPDATE
    return encode({"op": op, "before": _raw(before), "after": _raw(after)})


def _raw(row: bytes | None) -> msgspec.Raw:
    return _NULL if row is None else msgspec.Raw(row)


def _read(value: bytes) -> _Rows:
    try:
        return _rows(value)
    except msgspec.ValidationError:
        raise msgspec.DecodeError("is not a change event: it is not a JSON object with op, before and after") from None
