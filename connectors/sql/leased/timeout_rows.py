"""The rows of `sluicegate_timeout`, for SQLAlchemy and for the drivers."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.connectors.times import MICROSECOND, micros, moment
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import PersistenceError

READ = ("id", "destination", "due_at", "message_key", "payload", "headers", "owner", "scheduled_at")
COLUMNS = (*READ, "locked_until", "locked_by", "app")
PAGE = 500
"""Rows in one statement: PostgreSQL takes 65,535 values."""

ADD = f"insert into sluicegate_timeout ({', '.join(COLUMNS)})"  # nosec B608
DROP = "delete from sluicegate_timeout where app in ('', %s) and id in ({})"

_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(tuple[Header, ...]).decode


def values(timeout: Timeout, app: str) -> tuple[Any, ...]:
    """An unlocked row, in the order of COLUMNS."""
    message = timeout.key, timeout.value, _encode(timeout.headers)
    scheduled = None if timeout.scheduled_at is None else micros(timeout.scheduled_at)
    return timeout.id.hex, timeout.destination, micros(timeout.due_at), *message, timeout.owner, scheduled, 0, "", app


def named(timeout: Timeout, app: str) -> Mapping[str, Any]:
    return dict(zip(COLUMNS, values(timeout, app), strict=True))


def timeout(row: Sequence[Any]) -> Timeout:
    """The timeout of the columns READ. Raises PersistenceError when it cannot be read."""
    id, destination, due_at, key, value, headers, owner, scheduled = row
    after = None if scheduled is None else (due_at - scheduled) * MICROSECOND
    try:
        return Timeout(UUID(id), destination, moment(due_at), key, value, _headers(headers), owner, after)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PersistenceError(f"a stored timeout cannot be read: {type(error).__name__}") from error


def dropping(count: int) -> str:
    return DROP.format(", ".join(["%s"] * count))
