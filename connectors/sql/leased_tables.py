"""The tables of the leased contracts, for servers; in SQLite they are those of `leased_ddl`, column by column (a test compares)."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Double, Table, UniqueConstraint

from sluicegate.connectors.sql import columns

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

# Whoever writes to a buffer locks the row of its name first; `last_row` is the last number given in it.
BUFFER_NAME = columns.table("buffer", columns.name("name"), columns.count("last_row"), keys=["name"])
# `holder` is the id of what has the row, empty when nothing does; `broken` rows were given back undecodable.
BUFFER_ROW = columns.table(
    "buffer_row",
    *(columns.name("name"), columns.count("number")),
    *map(columns.name, ("idempotency_key", "correlation_id", "group_name", "type")),
    *(columns.bytes("data"), columns.bytes("headers")),
    *map(columns.count, ("inserted_at", "kept_for")),
    *(columns.name("holder"), columns.count("broken")),
    keys=["name", "number"],
    indexes=[["name", "holder", "group_name", "number"], ["name", "correlation_id"]],
)
BUFFER_ROW.append_constraint(UniqueConstraint("name", "idempotency_key"))
# A snapshot (its token is its id, too) or a sealed batch; `reason` is snapshot, count or timeout.
BUFFER_HOLD = columns.table(
    "buffer_hold",
    *map(columns.name, ("name", "id", "reason", "group_name")),
    columns.count("first_row"),
    *(columns.name("token"), columns.count("leased_until"), columns.count("attempts")),
    keys=["name", "id"],
)
BUFFER_DEADLINE = columns.table(
    "buffer_deadline",
    *(columns.name("name"), columns.name("group_name"), columns.count("due_at")),
    keys=["name", "group_name"],
    indexes=[["name", "due_at"]],
)
BUFFER_KEY = columns.table(
    "buffer_key",
    *(columns.name("name"), columns.name("idempotency_key"), columns.count("kept_until")),
    keys=["name", "idempotency_key"],
    indexes=[["name", "kept_until"]],
)
BUFFER_WATERMARK = columns.table(
    "buffer_watermark",
    *(columns.name("name"), columns.name("topic_id"), columns.count("partition_number"), columns.count("next_offset")),
    keys=["name", "topic_id", "partition_number"],
)

BUFFER: tuple[Table, ...] = (BUFFER_NAME, BUFFER_ROW, BUFFER_HOLD, BUFFER_DEADLINE, BUFFER_KEY, BUFFER_WATERMARK)
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
