"""The tables of the leased contracts, for servers; in SQLite they are those of `leased_ddl`, column by column (a test compares)."""

from sqlalchemy import Table

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
OUTBOX: tuple[Table, ...] = ()

ALL = (*BUFFER, *TIMEOUTS, *OUTBOX)
