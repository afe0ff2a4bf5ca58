"""The tables of the leased contracts, for servers; in SQLite they are those of `leased_ddl`, column by column (a test compares)."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Double, Table

from connectors.sql import columns

# Times are microseconds since 1970; a row that nobody has is locked until 0.
TIMEOUT = columns.table(
    "timeout",
    *(columns.name("id"), columns.name("destination"), columns.count("due_at")),
    *(columns.bytes(name, nullable=True) for name in ("message_key", "payload")),
    *(columns.bytes("headers"), columns.name("owner", nullable=True)),
    *(columns.count("locked_until"), columns.name("locked_by")),
    keys=["id"],
    indexes=[["due_at", "id"]],
)

BUFFER: tuple[Table, ...] = ()
TIMEOUTS: tuple[Table, ...] = (TIMEOUT,)

# A message never changes; what becomes of it stands in narrow tables beside it. `seq` grows with each insert.
MESSAGE = columns.table(
    "message",
    Column("seq", BigInteger, autoincrement=True),
    Column("id", columns.NAME, nullable=False, unique=True),
    columns.name("topic"),
    columns.bytes("message_key", nullable=True),
    columns.bytes("value", nullable=True),
    columns.bytes("headers"),
    columns.bytes("lane_key", nullable=True),
    Column("created_at", Double, nullable=False),
    keys=["seq"],
)
# `holder` until `held_until` is whoever claimed this row alone (order: none).
PENDING = columns.table(
    "message_pending",
    *map(columns.count, ("lane", "seq", "attempts")),
    Column("next_attempt_at", Double),
    Column("holder", columns.NAME),
    Column("held_until", Double),
    keys=["lane", "seq"],
)
# One row for all that were dispatched at once: `seqs` are `size` packed 64-bit integers from `low` to `high`.
SENT = columns.table(
    "message_sent",
    Column("dispatched_at", Double, nullable=False),
    *map(columns.count, ("low", "high", "lane", "size")),
    columns.bytes("seqs"),
    keys=["dispatched_at", "low"],
)
DEAD_MESSAGE = columns.table("message_dead", *map(columns.count, ("seq", "lane", "attempts")), columns.bytes("reason"), keys=["seq"])
ATTEMPT = columns.table(
    "message_attempt",
    *map(columns.count, ("seq", "number")),
    Column("tried_at", Double, nullable=False),
    columns.name("outcome"),
    columns.bytes("error"),
    keys=["seq", "number"],
)
# `given` are the (number, seq) of pending rows that have their numbers.
LANE = columns.table(
    "lane",
    columns.count("lane"),
    columns.name("token"),
    Column("expires_at", Double, nullable=False),
    columns.count("next_number"),
    columns.bytes("given"),
    keys=["lane"],
)
OUTBOX: tuple[Table, ...] = (MESSAGE, PENDING, SENT, DEAD_MESSAGE, ATTEMPT, LANE)

ALL = (*BUFFER, *TIMEOUTS, *OUTBOX)

# Free room in a page lets a row be locked without touching its indexes.
_ROOM = "alter table sluicegate_timeout set (fillfactor = 60)"
_LANES = "insert into sluicegate_meta (name, value) values ('lanes', '16')"
FURTHER: dict[str, Sequence[str]] = {
    "postgresql": (_ROOM, f"{_LANES} on conflict do nothing"),
    "mysql": (_LANES.replace("insert", "insert ignore"),),
}
"""What else the step runs, by dialect; each may run again."""
