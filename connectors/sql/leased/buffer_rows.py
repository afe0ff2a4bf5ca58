"""Reads, adds and drops the rows of a buffer in SQL while its name is locked. Times are microseconds since 1970."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    exists,
    false,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from sluicegate.connectors import buffers
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased.leased_tables import (
    BUFFER_HOLD,
    BUFFER_KEY,
    BUFFER_NAME,
    BUFFER_POSITION,
    BUFFER_ROW,
)
from sluicegate.streams.contracts.leased_values import Entry, PositionMove, Types
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import PersistenceError

PAGE = 500  # values in one statement
SNAPSHOT = "snapshot"

Condition = ColumnElement[bool]

_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(tuple[Header, ...]).decode

READ = [
    BUFFER_ROW.c[name]
    for name in ("number", "idempotency_key", "correlation_id", "type", "data", "headers", "group_name")
]
_NAME: BindParameter[str] = bindparam("name")
_KEYS: BindParameter[Sequence[str]] = bindparam("keys", expanding=True)
_OF_KEYS = (BUFFER_KEY.c.name == _NAME, BUFFER_KEY.c.idempotency_key.in_(_KEYS))
_LOCK = select(BUFFER_NAME.c.last_row, BUFFER_NAME.c.longest_keep).where(BUFFER_NAME.c.name == _NAME).with_for_update()
_ADD_NAME = "insert into sluicegate_buffer (name, last_row) values (:name, 0) "
# MySQL's locks an existing row exclusively: `insert ignore` would share the lock, and two writers would deadlock.
_UNLESS_THERE = {"postgresql": "on conflict do nothing", "mysql": "on duplicate key update last_row = last_row"}
_BUFFERED = select(BUFFER_ROW.c.idempotency_key).where(
    BUFFER_ROW.c.name == _NAME, BUFFER_ROW.c.idempotency_key.in_(_KEYS)
)
_KEPT = select(BUFFER_KEY.c.idempotency_key, BUFFER_KEY.c.kept_until).where(*_OF_KEYS)
_FORGET = delete(BUFFER_KEY).where(*_OF_KEYS)
_OVER = (
    select(BUFFER_KEY.c.idempotency_key)
    .where(BUFFER_KEY.c.name == _NAME, BUFFER_KEY.c.kept_until <= bindparam("now"))
    .limit(PAGE)
)
_SNAPSHOTS = select(BUFFER_HOLD.c.id, BUFFER_HOLD.c.leased_until).where(
    BUFFER_HOLD.c.name == _NAME, BUFFER_HOLD.c.reason == SNAPSHOT
)


@dataclass(frozen=True, slots=True)
class Locked:
    """A buffer's name, locked until the transaction ends. Rows of the holders in `free` may be taken (the empty name
    means no holder). Rows of the holders in `open` are in no batch. `keep` is the longest time for which an insert
    asked to keep keys."""

    connection: Connection
    name: str
    now: int
    last: int
    keep: int
    free: Sequence[str]
    open: Sequence[str]

    def rows(self, *conditions: Condition) -> tuple[Condition, ...]:
        return BUFFER_ROW.c.name == self.name, *conditions

    def holds(self, *conditions: Condition) -> tuple[Condition, ...]:
        return BUFFER_HOLD.c.name == self.name, *conditions


def locked(connection: Connection, now: Callable[[], int], name: str, taking: bool = True) -> Locked | None:
    """Lock the name; None when nothing was ever inserted under it. Without `taking` the caller must not use `free` and
    `open`."""
    row = connection.execute(_LOCK, {"name": name}).first()
    if row is None:
        return None
    until = now()
    snapshots = connection.execute(_SNAPSHOTS, {"name": name}).all() if taking else []
    over = [id for id, leased_until in snapshots if leased_until <= until]
    numbers = row.last_row, row.longest_keep or 0
    return Locked(connection, name, until, *numbers, ("", *over), ("", *(id for id, _ in snapshots)))


def locked_or_added(connection: Connection, now: Callable[[], int], name: str, taking: bool) -> Locked:
    """Lock the name, and add it when it is missing."""
    lock = locked(connection, now, name, taking)
    if lock is None:
        connection.execute(text(_ADD_NAME + _UNLESS_THERE.get(connection.dialect.name, "")), {"name": name})
        lock = locked(connection, now, name, taking)
    assert lock is not None
    return lock


def move(at: Locked, progress: PositionMove) -> None:
    """Compare and set the position of a source. Raises WatermarkMoved."""
    place = {"name": at.name, "topic_id": progress.topic_id, "partition_number": progress.partition}
    here = [BUFFER_POSITION.c[name] == value for name, value in place.items()]
    stands = at.connection.scalars(select(BUFFER_POSITION.c.next_offset).where(*here)).first()
    if (stands or 0) != progress.expected:
        raise buffers.position_moved(at.name, progress, stands or 0)
    if stands is None:
        at.connection.execute(insert(BUFFER_POSITION), {**place, "next_offset": progress.next})
    else:
        at.connection.execute(update(BUFFER_POSITION).where(*here).values(next_offset=progress.next))


def add(at: Locked, entries: Sequence[Entry], keep: int) -> list[Entry]:
    """Returns the entries that are new."""
    known = _existing_keys(at, [entry.idempotency_key for entry in entries])
    new: list[Entry] = []
    for entry in entries:
        if entry.idempotency_key not in known:
            known.add(entry.idempotency_key)
            new.append(entry)
    if new:
        at.connection.execute(
            insert(BUFFER_ROW), [_values(at, number, entry, keep) for number, entry in enumerate(new, at.last + 1)]
        )
        at.connection.execute(
            update(BUFFER_NAME).where(BUFFER_NAME.c.name == at.name).values(last_row=at.last + len(new))
        )
    return new


def _existing_keys(at: Locked, keys: Sequence[str]) -> set[str]:
    """The keys among these that are buffered, or removed and still kept. Expired keys are deleted."""
    known: set[str] = set()
    for page in pages(keys, PAGE):
        known.update(at.connection.scalars(_BUFFERED, {"name": at.name, "keys": page}))
        kept = at.connection.execute(_KEPT, {"name": at.name, "keys": page}).all()
        known.update(key for key, until in kept if until > at.now)
        if over := [key for key, until in kept if until <= at.now]:
            at.connection.execute(_FORGET, {"name": at.name, "keys": over})
    return known


def forget(at: Locked, keep: int) -> None:
    """Deletes the expired keys. A key that is kept for longer than any insert asked was removed while the clock was
    ahead: it is kept for the longest time from now."""
    longest = max(keep, at.keep)
    if longest > at.keep:
        at.connection.execute(update(BUFFER_NAME).where(BUFFER_NAME.c.name == at.name).values(longest_keep=longest))
    latest = at.now + longest
    ahead = BUFFER_KEY.c.name == at.name, BUFFER_KEY.c.kept_until > latest
    at.connection.execute(update(BUFFER_KEY).where(*ahead).values(kept_until=latest))
    full = True
    while full:
        over = at.connection.scalars(_OVER, {"name": at.name, "now": at.now}).all()
        if over:
            at.connection.execute(_FORGET, {"name": at.name, "keys": over})
        full = len(over) == PAGE


def _values(at: Locked, number: int, entry: Entry, keep: int) -> dict[str, object]:
    return {
        "name": at.name,
        "number": number,
        "idempotency_key": entry.idempotency_key,
        "correlation_id": entry.correlation_id,
        "group_name": entry.group,
        "type": entry.type,
        "data": entry.data,
        "headers": _encode(entry.headers) if entry.headers else b"",
        "inserted_at": at.now,
        "kept_for": keep,
        "holder": "",
        "broken": 0,
    }


def read(row: Sequence[Any]) -> Entry:
    """The entry of a row of READ. Raises PersistenceError when it cannot be read."""
    number, key, correlation_id, kind, data, headers, group = row
    try:
        return Entry(key, correlation_id, kind, data, _headers(headers) if headers else (), group)
    except (msgspec.MsgspecError, ValueError) as error:
        raise PersistenceError(f"entry {number} of a buffer cannot be read: {type(error).__name__}") from error


def decoded(rows: Sequence[Sequence[Any]], types: Types | None) -> buffers.Decoded:
    """The entries of rows of READ."""
    return buffers.decoded(((str(row[0]), read(row)) for row in rows), types)


def add_holds(at: Locked, holds: Sequence[Sequence[object]]) -> None:
    """Adds holders. A holder is an id, reason, group, first row, token, end of the lease, attempts, begin of the lease,
    and the early results of the group of a batch: their number, and whether the last one covers all rows."""
    columns = BUFFER_HOLD.c.keys()
    at.connection.execute(insert(BUFFER_HOLD), [dict(zip(columns, (at.name, *hold), strict=True)) for hold in holds])


def drop(at: Locked, *conditions: Condition) -> int:
    """Delete the rows that meet the conditions, and keep their keys as long as their insert asked for. Returns how
    many."""
    kept_until = literal(at.now) + BUFFER_ROW.c.kept_for
    keys = select(BUFFER_ROW.c.name, BUFFER_ROW.c.idempotency_key, kept_until).where(
        *at.rows(BUFFER_ROW.c.kept_for > 0, *conditions)
    )
    at.connection.execute(insert(BUFFER_KEY).from_select(["name", "idempotency_key", "kept_until"], keys))
    return at.connection.execute(delete(BUFFER_ROW).where(*at.rows(*conditions))).rowcount


def set_leases_back(at: Locked) -> None:
    """A lease that begins later than now was given while the clock was ahead: it begins now."""
    leased_at, leased_until = BUFFER_HOLD.c.leased_at, BUFFER_HOLD.c.leased_until
    ahead = update(BUFFER_HOLD).where(*at.holds(leased_at > at.now, leased_until > at.now))
    at.connection.execute(ahead.values(leased_until=leased_until - leased_at + at.now, leased_at=at.now))


def groups(at: Locked, *conditions: Condition) -> Sequence[str]:
    """The groups of the rows that meet the conditions."""
    return at.connection.scalars(select(BUFFER_ROW.c.group_name).where(*at.rows(*conditions)).distinct()).all()


def ready(at: Locked, types: Types | None) -> Sequence[Condition]:
    """The condition on the rows that a gate counts."""
    return at.rows(one_of(BUFFER_ROW.c.holder, at.free), BUFFER_ROW.c.broken == 0, *resolvable(types))


def open_rows(at: Locked) -> Sequence[Condition]:
    """The condition on rows that are in no batch, and that no batch returned as undecodable."""
    return at.rows(BUFFER_ROW.c.holder.in_(at.open), BUFFER_ROW.c.broken == 0)


def is_ready(at: Locked, types: Types | None, table: Any) -> Condition:
    """The condition that the group of a row of another table has rows that a gate counts."""
    return exists(select(BUFFER_ROW.c.number).where(*ready(at, types), BUFFER_ROW.c.group_name == table.group_name))


def is_open(at: Locked, table: Any) -> Condition:
    """The condition that the group of a row of another table has open rows."""
    return exists(select(BUFFER_ROW.c.number).where(*open_rows(at), BUFFER_ROW.c.group_name == table.group_name))


def rows_of(at: Locked, groups: Sequence[str], types: Types | None) -> Iterator[tuple[str, Sequence[Sequence[Any]]]]:
    """The ready rows of each group, oldest first."""
    whole = select(*READ).where(*ready(at, types)).order_by(BUFFER_ROW.c.group_name, BUFFER_ROW.c.number)
    for page in pages(groups, PAGE):
        members = at.connection.execute(whole.where(BUFFER_ROW.c.group_name.in_(page)))
        for group, rows in groupby(members, lambda row: str(row.group_name)):
            yield group, list(rows)


def resolvable(types: Types | None) -> Sequence[Condition]:
    """The condition that the type of a row has a decoder."""
    return () if types is None else (one_of(BUFFER_ROW.c.type, types),)


def one_of(column: ColumnElement[Any], values: Collection[str]) -> Condition:
    """Same as `in_`, for statements that run many times at once. They cannot take a list."""
    return or_(*(column == value for value in values)) if values else false()
