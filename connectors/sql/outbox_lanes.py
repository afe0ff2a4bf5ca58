"""A lane's row: who holds the lane, and which pending rows have which numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, text

from sluicegate.connectors.sql.outbox_rows import plain
from sluicegate.streams.errors import ConcurrencyError

_SELECT = "select token, expires_at, next_number, given from sluicegate_lane where lane = :lane"
_ADD = "insert into sluicegate_lane (lane, token, expires_at, next_number, given) values (:lane, '', 0, 1, :given)"
_SET = """
update sluicegate_lane set token = :token, expires_at = :expires_at, next_number = :next_number, given = :given
where lane = :lane"""

_RELEASE = "update sluicegate_lane set token = '', expires_at = 0 where lane = :lane and token = :token"


class Given(NamedTuple):
    """A pending row that has its number; it waits until `until`, in seconds since 1970."""

    number: int
    seq: int
    until: float | None = None


class LaneHold(NamedTuple):
    """`given` ascend by number; `expires_at` in seconds since 1970."""

    lane: int
    token: str
    expires_at: float
    next_number: int
    given: Sequence[Given]

    def is_free(self, token: str, now: float) -> bool:
        return self.token in ("", token) or self.expires_at <= now


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Given]).decode


def locked(connection: Connection, lane: int, wait: bool = True) -> LaneHold | None:
    """Nobody else changes it before the transaction ends. Makes it when it is not there. None: another has it, and we
    do not wait."""
    found = _row(connection, lane, wait)
    if found is None and (wait or not _is_there(connection, lane)):
        _add(connection, lane)
        found = _row(connection, lane, wait)
    return found


def _row(connection: Connection, lane: int, wait: bool) -> LaneHold | None:
    lock = "" if connection.dialect.name == "sqlite" else " for update" if wait else " for update skip locked"
    row: Any = connection.execute(text(_SELECT + lock), {"lane": lane}).first()
    return (
        None if row is None else LaneHold(lane, plain(row.token), row.expires_at, row.next_number, _decode(row.given))
    )


def _is_there(connection: Connection, lane: int) -> bool:
    """Locked or not: MariaDB's `insert ignore` of a row that is there waits for whoever has it."""
    return (
        connection.execute(text("select 1 from sluicegate_lane where lane = :lane"), {"lane": lane}).first() is not None
    )


def _add(connection: Connection, lane: int) -> None:
    ignore = connection.dialect.name == "mysql"
    statement = _ADD.replace("insert into", "insert ignore into") if ignore else f"{_ADD} on conflict do nothing"
    connection.execute(text(statement), {"lane": lane, "given": _encode([])})


def save(connection: Connection, held: LaneHold) -> None:
    connection.execute(text(_SET), held._asdict() | {"given": _encode(held.given)})


def of_token(connection: Connection, lane: int, token: str) -> LaneHold:
    """Locked. Raises ConcurrencyError when it is another's."""
    held = locked(connection, lane)
    if held is None or held.token != token:
        raise ConcurrencyError(f"lane {lane} of the outbox is another's now")
    return held


def release(connection: Connection, lane: int, token: str) -> None:
    """Others may have it; nothing happens when it is another's already."""
    connection.execute(text(_RELEASE), {"lane": lane, "token": token})
