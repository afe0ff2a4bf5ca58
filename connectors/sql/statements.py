"""Every SQL statement of the store, in one place.

`partition_key` is `app/agent/topic/number`. Rows of the outbox and the columns `source` and `trying` are msgpack.
"""

META = "create table if not exists sluicegate_meta (name text primary key, value text not null) without rowid"

CLAIMS = """
create table if not exists sluicegate_claim (
    partition_key text primary key, app text not null, agent text not null, topic text not null, number integer not null,
    token text not null, version integer not null, next_offset integer not null, epoch integer not null,
    last_number integer not null, first_entry integer not null, last_entry integer not null,
    source blob, trying blob, incarnation text not null, member text not null
)"""

CHANGELOG = """
create table if not exists sluicegate_changelog (
    partition_key text not null, number integer not null, entry blob not null, primary key (partition_key, number)
)"""

OUTBOX = """
create table if not exists sluicegate_outbox (
    partition_key text not null, number integer not null, message blob not null, primary key (partition_key, number)
) without rowid"""

DEAD = """
create table if not exists sluicegate_dead (
    partition_key text not null, number integer not null, reason text not null, attempts integer not null, message blob not null,
    primary key (partition_key, number)
) without rowid"""

STEPS = "create table if not exists sluicegate_step (number integer primary key, name text not null, done_at real not null)"
STEPS_EXIST = "select count(*) from sqlite_master where type = 'table' and name = 'sluicegate_step'"
STEPS_DONE = "select number from sluicegate_step order by number"
STEP_DONE = "insert into sluicegate_step (number, name, done_at) values (?, ?, ?)"

BEGIN = "begin immediate"
BEGIN_READING = "begin"
COMMIT = "commit"
ROLLBACK = "rollback"

NAME_DATA = "insert into sluicegate_meta (name, value) values ('incarnation', ?) on conflict do nothing"
INCARNATION = "select value from sluicegate_meta where name = 'incarnation'"

ADD_CLAIM = """
insert into sluicegate_claim
values (?, ?, ?, ?, ?, '', 0, -1, -1, 0, 1, 0, null, null, (select value from sluicegate_meta where name = 'incarnation'), '')
on conflict do nothing"""
TAKE_CLAIM = "update sluicegate_claim set token = ?, member = ? where partition_key = ?"
CLAIM = """
select token, version, next_offset, epoch, last_number, first_entry, last_entry, source, trying, incarnation, member
from sluicegate_claim where partition_key = ?"""
PARTITIONS = "select app, agent, topic, number from sluicegate_claim where app = ?"

HELD = "select 1 from sluicegate_claim where partition_key = ? and token = ? and version = ?"
SAVEPOINT = "savepoint sluicegate"
RELEASE = "release savepoint sluicegate"

FENCE = """
update sluicegate_claim
set version = ?, next_offset = ?, epoch = ?, last_number = ?, first_entry = ?, last_entry = ?, trying = ?, source = coalesce(?, source)
where partition_key = ? and token = ? and version = ?"""

TRYING = "select trying, token from sluicegate_claim where partition_key = ?"
SET_TRYING = "update sluicegate_claim set trying = ?, token = '' where partition_key = ?"

ADD_ENTRY = "insert into sluicegate_changelog (partition_key, number, entry) values (?, ?, ?)"
DROP_ENTRIES = "delete from sluicegate_changelog where partition_key = ? and number < ?"
ENTRIES = "select entry from sluicegate_changelog where partition_key = ? and number between ? and ? order by number"

ADD_UNSENT = "insert into sluicegate_outbox (partition_key, number, message) values (?, ?, ?)"
DROP_UNSENT = "delete from sluicegate_outbox where partition_key = ? and number between ? and ?"
UNSENT = "select message from sluicegate_outbox where partition_key = ? and number > ? order by number limit ?"
COUNT_UNSENT = "select count(*) from sluicegate_outbox where partition_key = ?"

ADD_DEAD = """
insert into sluicegate_dead (partition_key, number, reason, attempts, message)
select partition_key, number, ?, ?, message from sluicegate_outbox where partition_key = ? and number = ?"""
DROP_DEAD = "delete from sluicegate_dead where partition_key = ? and number between ? and ?"
DEAD_ROWS = "select number, reason, attempts, message from sluicegate_dead where partition_key = ? order by number limit ?"
COUNT_DEAD = "select count(*) from sluicegate_dead where partition_key = ?"
