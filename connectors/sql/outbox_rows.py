"""The one way in which messages get into the outbox of a SQL store, and the number of its lanes."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from sluicegate.streams.contracts.lanes import LANES, lane_of
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import PersistenceError

CHANNEL = "sluicegate_outbox"
PAGE = 1000
_RACES = 5

T = TypeVar("T")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Header, ...]).decode

# Who sets the number of lanes waits for whoever adds, and the other way round. The lock of PostgreSQL writes no row.
_LOCK = 7236542071924
_SHARED = {
    "postgresql": f"select pg_advisory_xact_lock_shared({_LOCK}), pg_notify('{CHANNEL}', '')",
    "mysql": "select value from sluicegate_meta where name = 'lanes' lock in share mode",
}
_ALONE = {
    "postgresql": f"select pg_advisory_xact_lock({_LOCK})",
    "mysql": "select value from sluicegate_meta where name = 'lanes' for update",
}
_COUNT = "select value from sluicegate_meta where name = 'lanes'"

_AT_ONCE = """
with given as (
    select * from unnest(%b::text[], %b::int8[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])
        as given(id, lane, topic, message_key, value, headers, lane_key)
), added as (
    insert into sluicegate_message (id, topic, message_key, value, headers, lane_key, created_at)
    select id, topic, message_key, value, headers, lane_key, %b::float8 from given
    on conflict (id) do nothing returning seq, id
)
insert into sluicegate_message_pending (lane, seq, attempts)
select given.lane, added.seq, 0 from added join given on given.id = added.id"""

_ADD = """
insert into sluicegate_message (id, topic, message_key, value, headers, lane_key, created_at)
values (:id, :topic, :message_key, :value, :headers, :lane_key, :created_at)"""
# Without a constant among its values: PyMySQL would send such rows one by one.
ADD_PENDING = "insert into sluicegate_message_pending (lane, seq, attempts) values (:lane, :seq, :attempts)"
_LAST = "select coalesce(max(seq), 0) from sluicegate_message"
_SINCE = "select id, seq from sluicegate_message where seq > :before"


def write_rows(connection: Connection, messages: Sequence[OutboxMessage], now: float) -> None:
    """Add the messages inside the transaction, but for those whose id is there. `now` is the store's time, seconds
    since 1970."""
    distinct = list({message.id: message for message in reversed(messages)}.values())[::-1]
    if not distinct:
        return
    lanes = _lanes(connection, _SHARED)
    write = _write_at_once if connection.dialect.name == "postgresql" else _write_new
    for page in in_pages(distinct, PAGE):
        write(connection, page, lanes, now)


def lanes(connection: Connection) -> int:
    return _lanes(connection, {})


def lock_lanes(connection: Connection) -> int:
    """How many there are; nobody adds or changes their number before the transaction ends."""
    return _lanes(connection, _ALONE)


def share_lanes(connection: Connection) -> int:
    """How many there are; nobody changes their number before the transaction ends."""
    return _lanes(connection, _SHARED)


def _lanes(connection: Connection, locks: dict[str, str]) -> int:
    if lock := locks.get(connection.dialect.name):
        connection.execute(text(lock)).all()
    found = connection.execute(text(_COUNT)).scalar()
    return LANES if found is None else int(found)


def _write_at_once(connection: Connection, messages: Sequence[OutboxMessage], lanes: int, now: float) -> None:
    driver: Any = connection.connection.driver_connection
    columns = (
        [message.id for message in messages],
        [lane_of(message, lanes) for message in messages],
        [message.topic for message in messages],
        [message.key for message in messages],
        [message.value for message in messages],
        [headers_bytes(message) for message in messages],
        [message.lane_key for message in messages],
    )
    driver.execute(_AT_ONCE, (*columns, now))


def _write_new(connection: Connection, messages: Sequence[OutboxMessage], lanes: int, now: float) -> None:
    """Somebody else may add the same id meanwhile: then it is there at the next look."""
    for _ in range(_RACES):
        before = connection.execute(text(_LAST)).scalar()
        try:
            with connection.begin_nested():
                connection.execute(text(_ADD), [_row(message, now) for message in messages])
        except IntegrityError:
            known = seqs_of(connection, [message.id for message in messages])
            messages = [message for message in messages if message.id not in known]
            if not messages:
                return
            continue
        added = {plain(id): seq for id, seq in connection.execute(text(_SINCE), {"before": before})}
        connection.execute(
            text(ADD_PENDING),
            [{"lane": lane_of(each, lanes), "seq": added[each.id], "attempts": 0} for each in messages],
        )
        return
    raise PersistenceError(
        f"{len(messages)} outbox messages were not added: others added the same ids at the same time, {_RACES} times"
    )


def _row(message: OutboxMessage, now: float) -> dict[str, object]:
    return {
        "id": message.id,
        "topic": message.topic,
        "message_key": message.key,
        "value": message.value,
        "headers": headers_bytes(message),
        "lane_key": message.lane_key,
        "created_at": now,
    }


def seqs_of(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Of those of the messages that are there."""
    found: dict[str, int] = {}
    for page in in_pages(ids, PAGE):
        names = {f"id{number}": id for number, id in enumerate(page)}
        marks = ", ".join(f":{name}" for name in names)
        # nosec B608
        for id, seq in connection.execute(text(f"select id, seq from sluicegate_message where id in ({marks})"), names):
            found[plain(id)] = seq
    return found


def in_pages(items: Sequence[T], size: int = 5 * PAGE) -> Iterator[Sequence[T]]:
    """As many as one statement takes."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def locking(connection: Connection) -> str:
    """What a select ends with so that nobody else changes its rows; in SQLite nobody does."""
    return "" if connection.dialect.name == "sqlite" else " for update"


def plain(value: str | bytes) -> str:
    """MySQL's names are bytes."""
    return value if isinstance(value, str) else value.decode()


def headers_bytes(message: OutboxMessage) -> bytes:
    return _encode(message.headers) if message.headers else b""


def headers_of(stored: bytes) -> Sequence[Header]:
    return _decode(stored) if stored else ()
