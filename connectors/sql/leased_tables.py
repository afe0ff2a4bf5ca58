"""The tables of the leased contracts, for servers; in SQLite they are those of `leased_ddl`, column by column (a test compares)."""

from sqlalchemy import Table

BUFFER: tuple[Table, ...] = ()
TIMEOUTS: tuple[Table, ...] = ()
OUTBOX: tuple[Table, ...] = ()

ALL = (*BUFFER, *TIMEOUTS, *OUTBOX)
