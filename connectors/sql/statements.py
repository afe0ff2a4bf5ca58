"""The SQL statements of a store's partitions, for each product, in one place.

`%s` is a value; SQLite's driver wants `?` instead (see `sqlite`). `partition_key` is `app/agent/topic/number`. Rows of
the outbox and the columns `source` and `trying` are msgpack.
"""

COMMIT = "commit"
ROLLBACK = "rollback"
SAVEPOINT = "savepoint sluicegate"
RELEASE = "release savepoint sluicegate"

STEPS_DONE = "select number from sluicegate_step order by number"
STEP_DONE = "insert into sluicegate_step (number, name, done_at) values (%s, %s, %s)"

NAME_DATA = "insert into sluicegate_meta (name, value) values ('incarnation', %s)"
INCARNATION = "select value from sluicegate_meta where name = 'incarnation'"

ADD_CLAIM = """
insert into sluicegate_claim
select %s, %s, %s, %s, %s, '', 0, -1, -1, 0, 1, 0, null, null, value, ''
from sluicegate_meta where name = 'incarnation'"""
TAKE_CLAIM = "update sluicegate_claim set token = %s, member = %s where partition_key = %s"
CLAIM = """
select token, version, next_offset, epoch, last_number, first_entry, last_entry, source, trying, incarnation, member
from sluicegate_claim where partition_key = %s"""
APPS = "select distinct app from sluicegate_claim"
PARTITIONS = "select app, agent, topic, number from sluicegate_claim where app = %s"

FENCE = """
update sluicegate_claim
set version = %s, next_offset = %s, epoch = %s, last_number = %s, first_entry = %s, last_entry = %s, trying = %s,
    source = coalesce(%s, source)
where partition_key = %s and token = %s and version = %s"""

# These two lock the row that they read: `Product.locking` is their end.
HELD = "select 1 from sluicegate_claim where partition_key = %s and token = %s and version = %s"
TRYING = "select trying, token from sluicegate_claim where partition_key = %s"
SET_TRYING = "update sluicegate_claim set trying = %s, token = '' where partition_key = %s"

# The beginning of what `Product.add_rows` runs.
ADD_ENTRY = "insert into sluicegate_changelog (partition_key, number, entry)"
ADD_UNSENT = "insert into sluicegate_outbox (partition_key, number, message)"

DROP_ENTRIES = "delete from sluicegate_changelog where partition_key = %s and number < %s"
ENTRIES = "select entry from sluicegate_changelog where partition_key = %s and number between %s and %s order by number"

DROP_UNSENT = "delete from sluicegate_outbox where partition_key = %s and ({})"
RUN = "number between %s and %s"
UNSENT = "select message from sluicegate_outbox where partition_key = %s and number > %s order by number limit %s"
COUNT_UNSENT = "select count(*) from sluicegate_outbox where partition_key = %s"

ADD_DEAD = """
insert into sluicegate_dead (partition_key, number, reason, attempts, message)
select partition_key, number, %s, %s, message from sluicegate_outbox where partition_key = %s and number = %s"""
DROP_DEAD = "delete from sluicegate_dead where partition_key = %s and number between %s and %s"
DEAD_ROWS = (
    "select number, reason, attempts, message from sluicegate_dead where partition_key = %s order by number limit %s"
)
COUNT_DEAD = "select count(*) from sluicegate_dead where partition_key = %s"

ADD_COLD = "insert into sluicegate_cold (partition_key, group_key, due, state)"
DROP_COLD = "delete from sluicegate_cold where partition_key = %s and group_key in ({})"
DROP_DUE = "delete from sluicegate_cold where partition_key = %s and due <= %s and (due < %s or group_key <= %s)"
OF_PARTITION = "select group_key, due, state from sluicegate_cold where partition_key = %s"
COLD = OF_PARTITION + " and group_key in ({})"
DUE_COLD = OF_PARTITION + " and due <= %s order by due, group_key limit %s"
COLD_PAGE = OF_PARTITION + " and group_key > %s order by group_key limit %s"
COLD_BEFORE = OF_PARTITION + " and group_key < %s order by group_key limit %s"
FIRST_COLD = OF_PARTITION + " order by group_key limit %s"

FORGET = (
    "delete from sluicegate_cold where partition_key = %s",
    "delete from sluicegate_changelog where partition_key = %s",
    "delete from sluicegate_outbox where partition_key = %s",
    "delete from sluicegate_dead where partition_key = %s",
    "delete from sluicegate_claim where partition_key = %s",
)


def with_keys(text: str, count: int) -> str:
    """DROP_COLD or COLD for this number of keys."""
    return text.format(", ".join(["%s"] * count))


def dropping(runs: int) -> str:
    """DROP_UNSENT for this number of runs."""
    return DROP_UNSENT.format(" or ".join([RUN] * runs))
