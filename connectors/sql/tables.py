"""The tables on a server, and the steps that make them. A step that was released never changes: a new one is added.

They are those of `statements`, with the types of servers. MySQL compares text without case and trailing spaces: there names are
bytes. What people write (member, reason) is bytes everywhere, because PostgreSQL's text has no character zero.
"""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Dialect, Double, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY
from sqlalchemy.schema import CreateTable

NAME = Text().with_variant(VARBINARY(700), "mysql")
BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql")


def _table(name: str, *columns: Column[object], keys: Sequence[str]) -> Table:
    for column in columns:
        column.primary_key = column.name in keys
    return Table(f"sluicegate_{name}", MetaData(), *columns, mysql_engine="InnoDB", mysql_charset="utf8mb4")


def _name(name: str) -> Column[object]:
    return Column(name, NAME, nullable=False)


def _count(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False, autoincrement=False)


def _bytes(name: str, nullable: bool = False) -> Column[object]:
    return Column(name, BYTES, nullable=nullable)


STEP = _table("step", _count("number"), _name("name"), Column("done_at", Double, nullable=False), keys=["number"])
META = _table("meta", _name("name"), _name("value"), keys=["name"])
CLAIM = _table(
    "claim",
    *map(_name, ("partition_key", "app", "agent", "topic")),
    _count("number"),
    _name("token"),
    *map(_count, ("version", "next_offset", "epoch", "last_number", "first_entry", "last_entry")),
    _bytes("source", nullable=True),
    _bytes("trying", nullable=True),
    _name("incarnation"),
    _bytes("member"),
    keys=["partition_key"],
)
CHANGELOG = _table("changelog", _name("partition_key"), _count("number"), _bytes("entry"), keys=["partition_key", "number"])
OUTBOX = _table("outbox", _name("partition_key"), _count("number"), _bytes("message"), keys=["partition_key", "number"])
DEAD = _table(
    "dead",
    *(_name("partition_key"), _count("number"), _bytes("reason"), _count("attempts"), _bytes("message")),
    keys=["partition_key", "number"],
)

# Entries are compressed already; free room in a page lets the claim row be updated without touching its index.
POSTGRESQL = (
    "alter table sluicegate_changelog alter column entry set storage external",
    "alter table sluicegate_claim set (fillfactor = 50)",
)

STEPS: tuple[tuple[str, Sequence[Table], dict[str, Sequence[str]]], ...] = (
    ("tables for claims, changelog, outbox and dead rows", (META, CLAIM, CHANGELOG, OUTBOX, DEAD), {"postgresql": POSTGRESQL}),
)


def created(table: Table, dialect: Dialect) -> str:
    """The statement that makes the table where it is not there."""
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect))


def texts(step: int, dialect: Dialect) -> Sequence[str]:
    """What the step (from 1) runs. Each may run again after a kill: MySQL takes no statement of a schema back."""
    _, tables, further = STEPS[step - 1]
    return [*(created(table, dialect) for table in tables), *further.get(dialect.name, ())]
