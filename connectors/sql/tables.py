"""The tables of a store, and the migration steps that make them. A released step never changes: add a new one.

MySQL compares text without case and trailing spaces, so its names are bytes. Free text (member, reason) is bytes on
servers, because PostgreSQL's text cannot hold NUL.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TYPES: Mapping[str, Mapping[str, str]] = {
    "name": {"sqlite": "text", "postgresql": "text", "mysql": "varbinary(700)"},
    "prose": {"sqlite": "text", "postgresql": "bytea", "mysql": "longblob"},
    "count": {"sqlite": "integer", "postgresql": "bigint", "mysql": "bigint"},
    "key": {"sqlite": "blob", "postgresql": "bytea", "mysql": "varbinary(512)"},
    "bytes": {"sqlite": "blob", "postgresql": "bytea", "mysql": "longblob"},
    "time": {"sqlite": "real", "postgresql": "double precision", "mysql": "double"},
    "sequence": {
        "sqlite": "integer primary key autoincrement",
        "postgresql": "bigserial",
        "mysql": "bigint auto_increment",
    },
}


class Column(NamedTuple):
    name: str
    kind: str
    nullable: bool = False


class Table(NamedTuple):
    """A table. `by_key`: SQLite stores the rows in the order of the key (`without rowid`), which suits small rows."""

    name: str
    columns: Sequence[Column]
    keys: Sequence[str]
    indexes: Sequence[Sequence[str]] = ()
    unique: Sequence[str] = ()
    by_key: bool = False


class Addition(NamedTuple):
    """Columns and indexes that a table gets later; each column has a default, or is nullable."""

    table: str
    columns: Sequence[Column]
    indexes: Sequence[Sequence[str]]


class Step(NamedTuple):
    """A migration step. `further` are statements by product. Each must be idempotent: MySQL cannot roll back a schema
    statement, so a killed migration runs it again. An addition is made unless its first column exists."""

    name: str
    tables: Sequence[Table]
    further: Mapping[str, Sequence[str]]
    additions: Sequence[Addition] = ()


def _table(name: str, columns: str, keys: Sequence[str], **options: Any) -> Table:
    """A table from the name and kind of each column, with `null` where the column is nullable. `options` are the other
    fields."""
    made = [Column(name, kind, bool(null)) for name, kind, *null in map(str.split, columns.split(","))]
    return Table(f"sluicegate_{name}", made, keys, **options)


STEP = _table("step", "number count, name name, done_at time", ["number"])
META = _table("meta", "name name, value name", ["name"], by_key=True)
CLAIM = _table(
    "claim",
    """
    partition_key name, app name, agent name, topic name, number count, token name, version count, next_offset count,
    epoch count, last_number count, first_entry count, last_entry count, source bytes null, trying bytes null,
    incarnation name, member prose """,
    ["partition_key"],
)
_PLACE = ["partition_key", "number"]
CHANGELOG = _table("changelog", "partition_key name, number count, entry bytes", _PLACE)
OUTBOX = _table("outbox", "partition_key name, number count, message bytes", _PLACE, by_key=True)
DEAD = _table(
    "dead", "partition_key name, number count, reason prose, attempts count, message bytes", _PLACE, by_key=True
)

COLD = _table(
    "cold",
    "partition_key name, group_key key, due time null, state bytes",
    ["partition_key", "group_key"],
    indexes=[["partition_key", "due", "group_key"]],
    by_key=True,
)

# Times are microseconds since 1970; an unlocked row is locked until 0.
_TIMEOUT = _table(
    "timeout",
    """
    id name, destination name, due_at count, message_key bytes null, payload bytes null, headers bytes, owner name null,
    locked_until count, locked_by name
    """,
    ["id"],
    indexes=[["due_at", "id"]],
)
_OF_APP = Addition(
    _TIMEOUT.name,
    [Column("app", "name"), Column("scheduled_at", "count", True)],
    [["app", "due_at", "id"], ["app", "scheduled_at"]],
)
TIMEOUT = _TIMEOUT._replace(columns=[*_TIMEOUT.columns, *_OF_APP.columns])

# A writer locks the row of the buffer's name first; `last_row` is the last row number given, `longest_keep` the longest
# time for which an insert asked to keep keys.
_BUFFER_NAME = _table("buffer", "name name, last_row count", ["name"], by_key=True)
# `holder` is the id of the snapshot or batch that has the row, else empty; a batch returned `broken` rows as
# undecodable.
BUFFER_ROW = _table(
    "buffer_row",
    """
    name name, number count, idempotency_key name, correlation_id name, group_name name, type name, data bytes, headers
    bytes, inserted_at count, kept_for count, holder name, broken count """,
    ["name", "number"],
    indexes=[["name", "correlation_id"], ["name", "holder", "group_name", "number"]],
    unique=["name", "idempotency_key"],
)
# A snapshot (its token is its id, too) or a sealed batch; `reason` is `snapshot` or the reason of the batch.
_BUFFER_HOLD = _table(
    "buffer_hold",
    "name name, id name, reason name, group_name name, first_row count, token name, leased_until count, attempts count",
    ["name", "id"],
    by_key=True,
)
_BUFFER_DEADLINE = _table(
    "buffer_deadline",
    "name name, group_name name, due_at count",
    ["name", "group_name"],
    indexes=[["name", "due_at"]],
    by_key=True,
)
# The newest deadline that a row gave, and the time from which it counts: null for a time of the gate, and for an
# instant.
_OF_ROWS = Addition(
    _BUFFER_DEADLINE.name, [Column("given", "bytes", True), Column("due_since", "count", True)], [["name", "due_since"]]
)
BUFFER_DEADLINE = _BUFFER_DEADLINE._replace(columns=[*_BUFFER_DEADLINE.columns, *_OF_ROWS.columns])
# The early results of an open group: how many, the last row that they cover, when the next one is due (null: a row must
# come first), and the token of the worker that makes it.
BUFFER_EARLY = _table(
    "buffer_early",
    "name name, group_name name, results count, covered count, due_at count null, token name",
    ["name", "group_name"],
    indexes=[["name", "due_at"]],
    by_key=True,
)
# How many early results the group of a batch had, and 1 if the last one covers all of its rows; null for none.
_PAST = Addition(_BUFFER_HOLD.name, [Column("results", "count", True), Column("whole", "count", True)], [])
BUFFER_KEY = _table(
    "buffer_key",
    "name name, idempotency_key name, kept_until count",
    ["name", "idempotency_key"],
    indexes=[["name", "kept_until"]],
    by_key=True,
)
BUFFER_POSITION = _table(
    "buffer_watermark",
    "name name, topic_id name, partition_number count, next_offset count",
    ["name", "topic_id", "partition_number"],
    by_key=True,
)

# A message never changes; its state stands in narrow tables beside it. `seq` grows with each insert.
MESSAGE = _table(
    "message",
    """
    seq sequence, id name, topic name, message_key bytes null, value bytes null, headers bytes, lane_key bytes null,
    created_at time """,
    ["seq"],
    unique=["id"],
)
# `holder` has claimed the single row from `held_at` until `held_until` (order: none).
_PENDING = _table(
    "message_pending",
    "lane count, seq count, attempts count, next_attempt_at time null, holder name null, held_until time null",
    ["lane", "seq"],
    by_key=True,
)
# One row for all messages that were marked as dispatched together: `seqs` are `size` numbers from `low` to `high`.
SENT = _table(
    "message_sent",
    "dispatched_at time, low count, high count, lane count, size count, seqs bytes",
    ["dispatched_at", "low"],
)
DEAD_MESSAGE = _table("message_dead", "seq count, lane count, attempts count, reason bytes", ["seq"])
ATTEMPT = _table(
    "message_attempt",
    "seq count, number count, tried_at time, outcome name, error bytes",
    ["seq", "number"],
    by_key=True,
)
# `given` are the pending rows that have numbers, as (number, seq, until).
_LANE = _table("lane", "lane count, token name, expires_at time, next_number count, given bytes", ["lane"])

# When each lease began. It is null in rows of an earlier version.
_BEGINS = (
    Addition(_BUFFER_NAME.name, [Column("longest_keep", "count", True)], []),
    Addition(_BUFFER_HOLD.name, [Column("leased_at", "count", True)], []),
    Addition(_PENDING.name, [Column("held_at", "time", True)], []),
    Addition(_LANE.name, [Column("claimed_at", "time", True)], []),
)
BUFFER_NAME, BUFFER_HOLD, PENDING, LANE = (
    table._replace(columns=[*table.columns, *addition.columns])
    for table, addition in zip((_BUFFER_NAME, _BUFFER_HOLD, _PENDING, _LANE), _BEGINS, strict=True)
)
BUFFER_HOLD = BUFFER_HOLD._replace(columns=[*BUFFER_HOLD.columns, *_PAST.columns])

_BUFFERS = (_BUFFER_NAME, BUFFER_ROW, _BUFFER_HOLD, _BUFFER_DEADLINE, BUFFER_KEY, BUFFER_POSITION)
LEASED = (*_BUFFERS, _TIMEOUT, MESSAGE, _PENDING, SENT, DEAD_MESSAGE, ATTEMPT, _LANE)

# Entries are compressed already. Free space in a page lets the claim row be updated without its index.
_POSTGRESQL = (
    "alter table sluicegate_changelog alter column entry set storage external",
    "alter table sluicegate_claim set (fillfactor = 50)",
)
_LANES = "insert into sluicegate_meta (name, value) values ('lanes', '16')"
_LEASED = {
    "sqlite": (f"{_LANES} on conflict do nothing",),
    # Free space in a page lets a row be locked without its indexes.
    "postgresql": ("alter table sluicegate_timeout set (fillfactor = 60)", f"{_LANES} on conflict do nothing"),
    "mysql": (_LANES.replace("insert", "insert ignore"),),
}

# In the order of the key, SQLite writes a row of more than a quarter of a page to pages of its own. In pages of 4 KiB,
# a row of 1,500 bytes took 19 µs to write and to delete with this order, and 8 without it.
_UNORDERED_OUTBOX = (
    "create table if not exists sluicegate_outbox_rows (partition_key text not null, number integer not null, "
    "message blob not null, primary key (partition_key, number))",
    "insert into sluicegate_outbox_rows select * from sluicegate_outbox",
    "drop table sluicegate_outbox",
    "alter table sluicegate_outbox_rows rename to sluicegate_outbox",
)

STEPS: tuple[Step, ...] = (
    Step(
        "tables for claims, changelog, outbox and dead rows",
        (META, CLAIM, CHANGELOG, OUTBOX, DEAD),
        {"postgresql": _POSTGRESQL},
    ),
    Step("tables for buffers, timeouts and messages of applications", LEASED, _LEASED),
    Step("the app of a timeout, and when it was scheduled", (), {}, [_OF_APP]),
    Step("when a lease began, and how long a buffer keeps keys", (), {}, _BEGINS),
    Step("table for cold groups", (COLD,), {}),
    Step("deadlines that the records of a buffer give", (), {}, [_OF_ROWS]),
    Step("early results of the groups of a buffer", (BUFFER_EARLY,), {}, [_PAST]),
    Step("outbox rows of SQLite in the order in which they are written", (), {"sqlite": _UNORDERED_OUTBOX}),
)


def created(table: Table, dialect: str) -> str:
    """The statement that creates the table if it is missing. MySQL has no `create index if not exists`: its indexes are
    part of the table."""
    inner = [
        f"{column.name} {TYPES[column.kind][dialect]}{'' if column.nullable else ' not null'}"
        for column in table.columns
    ]
    if "primary key" not in inner[0]:
        inner.append(f"primary key ({', '.join(table.keys)})")
    if table.unique:
        inner.append(f"unique ({', '.join(table.unique)})")
    if dialect == "mysql":
        inner += [f"index {_index(table, index)} ({', '.join(index)})" for index in table.indexes]
    ends = {"mysql": " engine=InnoDB charset=utf8mb4", "sqlite": " without rowid" if table.by_key else ""}
    return f"create table if not exists {table.name} (\n    {', '.join(inner)}\n){ends.get(dialect, '')}"


def _index(table: Table, columns: Sequence[str]) -> str:
    return "_".join([table.name, *columns])


def added(addition: Addition, dialect: str) -> Sequence[str]:
    """The statements of the addition. In MySQL they are one, since it cannot roll back the first of two."""
    table, columns, indexes = addition
    defined = [
        f"add column {name} {TYPES[kind][dialect]}" + ("" if nullable else " not null default ''")
        for name, kind, nullable in columns
    ]
    named = {f"{table}_{'_'.join(index)}": ", ".join(index) for index in indexes}
    if dialect == "mysql":
        keys = [f"add index {name} ({of})" for name, of in named.items()]
        return [f"alter table {table} {', '.join([*defined, *keys])}"]
    statements = [f"create index if not exists {name} on {table} ({of})" for name, of in named.items()]
    return [*(f"alter table {table} {change}" for change in defined), *statements]


def texts(step: int, dialect: str) -> Sequence[str]:
    """The statements of the step (from 1)."""
    _, tables, further, _ = STEPS[step - 1]
    statements = []
    for table in tables:
        statements.append(created(table, dialect))
        if dialect != "mysql":
            statements += [
                f"create index if not exists {_index(table, index)} on {table.name} ({', '.join(index)})"
                for index in table.indexes
            ]
    return [*statements, *further.get(dialect, ())]
