"""The tables of the leased contracts in SQLite, as text: the store needs no SQLAlchemy until a contract is used."""

TIMEOUT = """
create table if not exists sluicegate_timeout (
    id text primary key, destination text not null, due_at integer not null, message_key blob, payload blob, headers blob not null,
    owner text, locked_until integer not null, locked_by text not null
)"""
TIMEOUT_DUE = "create index if not exists sluicegate_timeout_due_at_id on sluicegate_timeout (due_at, id)"

BUFFER: tuple[str, ...] = (
    "create table if not exists sluicegate_buffer (name text primary key, last_row integer not null) without rowid",
    """
create table if not exists sluicegate_buffer_row (
    name text not null, number integer not null, idempotency_key text not null, correlation_id text not null, group_name text not null,
    type text not null, data blob not null, headers blob not null, inserted_at integer not null, kept_for integer not null,
    holder text not null, broken integer not null, primary key (name, number), unique (name, idempotency_key)
)""",
    """
create index if not exists sluicegate_buffer_row_name_holder_group_name_number
on sluicegate_buffer_row (name, holder, group_name, number)""",
    "create index if not exists sluicegate_buffer_row_name_correlation_id on sluicegate_buffer_row (name, correlation_id)",
    """
create table if not exists sluicegate_buffer_hold (
    name text not null, id text not null, reason text not null, group_name text not null, first_row integer not null,
    token text not null, leased_until integer not null, attempts integer not null, primary key (name, id)
) without rowid""",
    """
create table if not exists sluicegate_buffer_deadline (
    name text not null, group_name text not null, due_at integer not null, primary key (name, group_name)
) without rowid""",
    "create index if not exists sluicegate_buffer_deadline_name_due_at on sluicegate_buffer_deadline (name, due_at)",
    """
create table if not exists sluicegate_buffer_key (
    name text not null, idempotency_key text not null, kept_until integer not null, primary key (name, idempotency_key)
) without rowid""",
    "create index if not exists sluicegate_buffer_key_name_kept_until on sluicegate_buffer_key (name, kept_until)",
    """
create table if not exists sluicegate_buffer_watermark (
    name text not null, topic_id text not null, partition_number integer not null, next_offset integer not null,
    primary key (name, topic_id, partition_number)
) without rowid""",
)
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
