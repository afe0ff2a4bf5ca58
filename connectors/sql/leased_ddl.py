"""The tables of the leased contracts in SQLite, as text: the store needs no SQLAlchemy until a contract is used."""

TIMEOUT = """
create table if not exists sluicegate_timeout (
    id text primary key, destination text not null, due_at integer not null, message_key blob, payload blob, headers blob not null,
    owner text, locked_until integer not null, locked_by text not null
)"""
TIMEOUT_DUE = "create index if not exists sluicegate_timeout_due_at_id on sluicegate_timeout (due_at, id)"

BUFFER: tuple[str, ...] = ()
TIMEOUTS: tuple[str, ...] = (TIMEOUT, TIMEOUT_DUE)
OUTBOX: tuple[str, ...] = ()
