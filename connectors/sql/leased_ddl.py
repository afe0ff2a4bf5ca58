"""The tables of the leased contracts in SQLite, as text: the store needs no SQLAlchemy until a contract is used."""

TIMEOUT = """
create table if not exists sluicegate_timeout (
    id text primary key, destination text not null, due_at integer not null, message_key blob, payload blob, headers blob not null,
    owner text, locked_until integer not null, locked_by text not null
)"""
TIMEOUT_DUE = "create index if not exists sluicegate_timeout_due_at_id on sluicegate_timeout (due_at, id)"

BUFFER: tuple[str, ...] = ()
TIMEOUTS: tuple[str, ...] = (TIMEOUT, TIMEOUT_DUE)
OUTBOX: tuple[str, ...] = (
    """
create table if not exists sluicegate_message (
    seq integer primary key autoincrement, id text not null unique, topic text not null, message_key blob, value blob,
    headers blob not null, lane_key blob, created_at real not null
)""",
    """
create table if not exists sluicegate_message_pending (
    lane integer not null, seq integer not null, attempts integer not null, next_attempt_at real, holder text, held_until real,
    primary key (lane, seq)
) without rowid""",
    """
create table if not exists sluicegate_message_sent (
    dispatched_at real not null, low integer not null, high integer not null, lane integer not null, size integer not null,
    seqs blob not null, primary key (dispatched_at, low)
)""",
    """
create table if not exists sluicegate_message_dead (
    seq integer primary key, lane integer not null, attempts integer not null, reason blob not null
)""",
    """
create table if not exists sluicegate_message_attempt (
    seq integer not null, number integer not null, tried_at real not null, outcome text not null, error blob not null,
    primary key (seq, number)
) without rowid""",
    """
create table if not exists sluicegate_lane (
    lane integer primary key, token text not null, expires_at real not null, next_number integer not null, given blob not null
)""",
    "insert into sluicegate_meta (name, value) values ('lanes', '16') on conflict do nothing",
)
