"""Adds messages to the outbox of a SQL store; the number of its lanes; statements about lists of rows."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from sluicegate.connectors.outboxes import Space
from sluicegate.connectors.sql.database import pages
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import PersistenceError

CHANNEL = "sluicegate_outbox"
PAGE = 1000
SEQS = 5000
"""Numbers of rows in one statement."""
_RACES = 5

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Header, ...]).decode

# Setting the number of lanes and adding messages lock each other out. PostgreSQL's advisory lock writes no row.
_LOCK = 7236542071924
_SHARED = {
    "postgresql": f"select pg_advisory_xact_lock_shared({_LOCK}), pg_notify('{CHANNEL}', '')",
    "mysql": "select value from sluicegate_meta where name = 'lanes' lock in share mode",
}
_ALONE = {
    "postgresql": f"select pg_advisory_xact_lock({_LOCK})",
    "mysql": "select value from sluicegate_meta where name = 'lanes' for update",
}
_COUNT = "select value from sluicegate_meta where name = :name"

_AT_ONCE = """
with given as (
    select * from unnest(%b::int8[], %b::text[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])
        as given(lane, id, topic, message_key, value, headers, lane_key)
), added as (
    insert into sluicegate_message (id, topic, message_key, value, headers, lane_key, created_at)
    select id, topic, message_key, value, headers, lane_key, %b::float8 from given
    on conflict (id) do nothing returning seq, id
)
insert into sluicegate_message_pending (lane, seq, attempts)
select given.lane, added.seq, 0 from added join given on given.id = added.id"""

_COLUMNS = ("id", "topic", "message_key", "value", "headers", "lane_key", "created_at")
_ADD = """
insert into sluicegate_message (id, topic, message_key, value, headers, lane_key, created_at)
values (:id, :topic, :message_key, :value, :headers, :lane_key, :created_at)"""
# Without a constant among its values: PyMySQL would send such rows one by one.
ADD_PENDING = "insert into sluicegate_message_pending (lane, seq, attempts) values (:lane, :seq, :attempts)"
_LAST = "select coalesce(max(seq), 0) from sluicegate_message"
_SINCE = "select id, seq from sluicegate_message where seq > :before"


def write_rows(connection: Connection, messages: Sequence[OutboxMessage], now: float, space: Space) -> None:
    """Adds the messages whose ids are new, inside the transaction. `now` is the store's time, seconds since 1970."""
    distinct = list({message.id: message for message in reversed(messages)}.values())[::-1]
    if not distinct:
        return
    lanes = _lanes(connection, _SHARED, space)
    write = _write_at_once if connection.dialect.name == "postgresql" else _write_new
    for page in pages(distinct, PAGE):
        write(connection, page, lanes, now, space)


def lanes(connection: Connection, space: Space) -> int:
    return _lanes(connection, {}, space)


def lock_lanes(connection: Connection, space: Space) -> int:
    """The number of lanes, exclusively locked: no other transaction adds messages or changes the number until this one
    ends."""
    return _lanes(connection, _ALONE, space)


def share_lanes(connection: Connection, space: Space) -> int:
    """The number of lanes, under a shared lock: no other transaction changes the number until this one ends."""
    return _lanes(connection, _SHARED, space)


def lanes_name(space: Space) -> str:
    """The name under which the number of lanes is stored."""
    return f"lanes/{space.app}" if space.app else "lanes"


def _lanes(connection: Connection, locks: dict[str, str], space: Space) -> int:
    if lock := locks.get(connection.dialect.name):
        connection.execute(text(lock)).all()
    count = connection.execute(text(_COUNT), {"name": lanes_name(space)}).scalar()
    return LANES if count is None else int(count)


def _write_at_once(
    connection: Connection, messages: Sequence[OutboxMessage], lanes: int, now: float, space: Space
) -> None:
    driver: Any = connection.connection.driver_connection
    columns = [list(column) for column in zip(*(_columns(message, space) for message in messages), strict=True)]
    driver.execute(_AT_ONCE, ([space.lane_of(message, lanes) for message in messages], *columns, now))


def _write_new(connection: Connection, messages: Sequence[OutboxMessage], lanes: int, now: float, space: Space) -> None:
    """Adds the messages whose ids are new. If another transaction adds the same id at the same time, the next attempt
    finds it."""
    for _ in range(_RACES):
        before = connection.execute(text(_LAST)).scalar()
        try:
            with connection.begin_nested():
                rows = [dict(zip(_COLUMNS, (*_columns(message, space), now), strict=True)) for message in messages]
                connection.execute(text(_ADD), rows)
        except IntegrityError:
            known = seqs_of(connection, [message.id for message in messages], space)
            messages = [message for message in messages if message.id not in known]
            if not messages:
                return
            continue
        added = {name_text(id): seq for id, seq in connection.execute(text(_SINCE), {"before": before})}
        connection.execute(
            text(ADD_PENDING),
            [
                {"lane": space.lane_of(message, lanes), "seq": added[space.prefix + message.id], "attempts": 0}
                for message in messages
            ],
        )
        return
    raise PersistenceError(
        f"{len(messages)} outbox messages were not added: others added the same ids at the same time, {_RACES} times"
    )


def _columns(message: OutboxMessage, space: Space) -> Sequence[object]:
    headers = _encode(message.headers) if message.headers else b""
    return space.prefix + message.id, message.topic, message.key, message.value, headers, message.lane_key


def seqs_of(connection: Connection, ids: Sequence[str], space: Space) -> dict[str, int]:
    """The numbers of the messages that are there, by id."""
    numbers: dict[str, int] = {}
    for page in pages(ids, PAGE):
        names = {f"id{number}": space.prefix + id for number, id in enumerate(page)}
        marks = ", ".join(f":{name}" for name in names)
        wanted = text(f"select id, seq from sluicegate_message where id in ({marks})")  # nosec B608
        for id, seq in connection.execute(wanted, names):
            numbers[name_text(id).removeprefix(space.prefix)] = seq
    return numbers


def fetched(connection: Connection, statement: str) -> Sequence[Any]:
    """The rows of a statement without parameters. PostgreSQL sends them in its binary format."""
    if connection.dialect.name == "postgresql":
        driver: Any = connection.connection.driver_connection
        rows: Sequence[Any] = driver.execute(statement.encode(), binary=True).fetchall()
        return rows
    return connection.exec_driver_sql(statement).fetchall()


def fetched_among(connection: Connection, statement: str, seqs: Sequence[int], **parts: object) -> list[Any]:
    """The rows of the statement for these seqs. `{among}` stands for the condition on them, `parts` fill the rest."""
    return [
        row
        for page in pages(seqs, SEQS)
        for row in fetched(connection, statement.format(among=among(connection, page), **parts))
    ]


def run_among(connection: Connection, statement: str, seqs: Sequence[int], **parts: object) -> int:
    """Same as `fetched_among`, for a statement that writes. Returns the number of changed rows."""
    texts = [statement.format(among=among(connection, page), **parts) for page in pages(seqs, SEQS)]
    return sum(connection.exec_driver_sql(text).rowcount for text in texts)


def among(connection: Connection, seqs: Sequence[int]) -> str:
    """The condition that `seq` is one of these numbers. PostgreSQL reads one array faster than thousands of
    constants."""
    numbers = ",".join(map(str, seqs))
    return f"= any(cast('{{{numbers}}}' as int8[]))" if connection.dialect.name == "postgresql" else f"in ({numbers})"


def locking(connection: Connection, wait: bool = True) -> str:
    """The end of a select that locks its rows; a transaction of SQLite locks the whole file."""
    if connection.dialect.name == "sqlite":
        return ""
    return " for update" if wait else " for update skip locked"


def name_text(value: str | bytes) -> str:
    """The text of a name. MySQL's names are bytes."""
    return value if isinstance(value, str) else value.decode()


def headers_of(stored: bytes) -> Sequence[Header]:
    return _decode(stored) if stored else ()
