"""The rows of `sluicegate_timeout`, for SQLAlchemy and for the drivers."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.connectors.times import micros, moment
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import PersistenceError

COLUMNS = ("id", "destination", "due_at", "message_key", "payload", "headers", "owner", "locked_until", "locked_by")
PAGE = 500
"""Rows in one statement: PostgreSQL takes 65,535 values."""

ADD = f"insert into sluicegate_timeout ({', '.join(COLUMNS)})"  # nosec B608
DROP = "delete from sluicegate_timeout where id in ({})"

_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(tuple[Header, ...]).decode


def values(timeout: Timeout) -> tuple[Any, ...]:
    """An unlocked row, in the order of COLUMNS."""
    message = timeout.key, timeout.value, _encode(timeout.headers)
    return timeout.id.hex, timeout.destination, micros(timeout.due_at), *message, timeout.owner, 0, ""


def named(timeout: Timeout) -> Mapping[str, Any]:
    return dict(zip(COLUMNS, values(timeout), strict=True))


def timeout(row: Sequence[Any]) -> Timeout:
    """The timeout of the first seven columns. Raises PersistenceError when it cannot be read."""
    id, destination, due_at, key, value, headers, owner = row
    try:
        return Timeout(UUID(id), destination, moment(due_at), key, value, _headers(headers), owner)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PersistenceError(f"a stored timeout cannot be read: {type(error).__name__}") from error


def dropping(count: int) -> str:
    return DROP.format(", ".join(["%s"] * count))
