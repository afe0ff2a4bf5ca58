"""The row of a lane: its lease, and the numbers of its pending rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, text

from sluicegate.connectors.outboxes import lane_lost
from sluicegate.connectors.sql.leased.outbox_rows import locking, name_text

_SELECT = "select token, claimed_at, expires_at, next_number, given from sluicegate_lane where lane = :lane"
_EXISTS = "select 1 from sluicegate_lane where lane = :lane"
_ADD = "insert into sluicegate_lane (lane, token, expires_at, next_number, given) values (:lane, '', 0, 1, :given)"
_SET = """
update sluicegate_lane set token = :token, claimed_at = :claimed_at, expires_at = :expires_at,
    next_number = :next_number, given = :given
where lane = :lane"""

_RELEASE = "update sluicegate_lane set token = '', expires_at = 0 where lane = :lane and token = :token"


class NumberedRow(NamedTuple):
    """A pending row that has a number. It is not sent before `until`, in seconds since 1970."""

    number: int
    seq: int
    until: float | None = None


class LaneHold(NamedTuple):
    """`numbered` ascends by number; the lease lasts from `claimed_at` to `expires_at`, in seconds since 1970."""

    lane: int
    token: str
    claimed_at: float
    expires_at: float
    next_number: int
    numbered: Sequence[NumberedRow]

    def is_free(self, token: str, now: float) -> bool:
        return self.token in ("", token) or self.expires_at <= now


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[NumberedRow]).decode


def locked(connection: Connection, lane: int, wait: bool = True) -> LaneHold | None:
    """Lock the row until the transaction ends; add it when it is missing. None: another transaction has locked it, and
    we do not wait."""

    def row() -> Any:
        return connection.execute(text(_SELECT + locking(connection, wait)), {"lane": lane}).first()

    stored = row()
    if stored is None and (wait or not _exists(connection, lane)):
        ignore = connection.dialect.name == "mysql"
        statement = _ADD.replace("insert into", "insert ignore into") if ignore else f"{_ADD} on conflict do nothing"
        connection.execute(text(statement), {"lane": lane, "given": _encode([])})
        stored = row()
    if stored is None:
        return None
    times = stored.claimed_at or 0.0, stored.expires_at
    return LaneHold(lane, name_text(stored.token), *times, stored.next_number, _decode(stored.given))


def claimable(connection: Connection, lane: int, now: float, wait: bool = True) -> LaneHold | None:
    """Same as `locked`. A lease that begins later than now was given while the clock was ahead: it begins now."""
    row = locked(connection, lane, wait)
    if row is not None and row.claimed_at > now:
        row = row._replace(claimed_at=now, expires_at=now + row.expires_at - row.claimed_at)
        save(connection, row)
    return row


def _exists(connection: Connection, lane: int) -> bool:
    """Whether the row exists, locked or not. MariaDB's `insert ignore` of an existing row would wait for its lock."""
    return connection.execute(text(_EXISTS), {"lane": lane}).first() is not None


def save(connection: Connection, hold: LaneHold) -> None:
    connection.execute(text(_SET), hold._asdict() | {"given": _encode(hold.numbered)})


def of_token(connection: Connection, lane: int, token: str) -> LaneHold:
    """The lane's row, locked. Raises ConcurrencyError unless `token` holds the lane."""
    hold = locked(connection, lane)
    if hold is None or hold.token != token:
        raise lane_lost(lane)
    return hold


def release(connection: Connection, lane: int, token: str) -> None:
    """End the lease of `token`; nothing happens when another token holds the lane."""
    connection.execute(text(_RELEASE), {"lane": lane, "token": token})
