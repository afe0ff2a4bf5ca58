"""The tables on a server, and the steps that make them. A step that was released never changes: a new one is added.

They are those of `statements`, with the types of servers. MySQL compares text without case and trailing spaces: there names are
bytes. What people write (member, reason) is bytes everywhere, because PostgreSQL's text has no character zero.
"""

from collections.abc import Sequence

from sqlalchemy import Column, Dialect, Double, Table
from sqlalchemy.schema import CreateIndex, CreateTable

from sluicegate.connectors.sql import columns, leased_tables

STEP = columns.table("step", columns.count("number"), columns.name("name"), Column("done_at", Double, nullable=False), keys=["number"])
META = columns.table("meta", columns.name("name"), columns.name("value"), keys=["name"])
CLAIM = columns.table(
    "claim",
    *map(columns.name, ("partition_key", "app", "agent", "topic")),
    columns.count("number"),
    columns.name("token"),
    *map(columns.count, ("version", "next_offset", "epoch", "last_number", "first_entry", "last_entry")),
    columns.bytes("source", nullable=True),
    columns.bytes("trying", nullable=True),
    columns.name("incarnation"),
    columns.bytes("member"),
    keys=["partition_key"],
)
PLACE = ["partition_key", "number"]
CHANGELOG = columns.table("changelog", columns.name("partition_key"), columns.count("number"), columns.bytes("entry"), keys=PLACE)
OUTBOX = columns.table("outbox", columns.name("partition_key"), columns.count("number"), columns.bytes("message"), keys=PLACE)
DEAD = columns.table(
    "dead",
    *(columns.name("partition_key"), columns.count("number"), columns.bytes("reason"), columns.count("attempts"), columns.bytes("message")),
    keys=PLACE,
)

# Entries are compressed already; free room in a page lets the claim row be updated without touching its index.
POSTGRESQL = (
    "alter table sluicegate_changelog alter column entry set storage external",
    "alter table sluicegate_claim set (fillfactor = 50)",
)

STEPS: tuple[tuple[str, Sequence[Table], dict[str, Sequence[str]]], ...] = (
    ("tables for claims, changelog, outbox and dead rows", (META, CLAIM, CHANGELOG, OUTBOX, DEAD), {"postgresql": POSTGRESQL}),
    ("tables for buffers, timeouts and messages of applications", leased_tables.ALL, leased_tables.FURTHER),
)


def created(table: Table, dialect: Dialect) -> str:
    """The statement that makes the table where it is not there."""
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect))


def _indexed(table: Table, dialect: Dialect) -> Sequence[str]:
    """The table and its indexes. MySQL has no `create index if not exists`: there they are part of the table."""
    text, indexes = created(table, dialect), sorted(table.indexes, key=lambda index: str(index.name))
    if dialect.name != "mysql":
        return [text, *(str(CreateIndex(index, if_not_exists=True).compile(dialect=dialect)) for index in indexes)]
    inner = "".join(f",\n\tINDEX {index.name} ({', '.join(index.columns.keys())})" for index in indexes)
    head, end, tail = text.rpartition("\n)")
    return [head + inner + end + tail]


def texts(step: int, dialect: Dialect) -> Sequence[str]:
    """What the step (from 1) runs. Each may run again after a kill: MySQL takes no statement of a schema back."""
    _, tables, further = STEPS[step - 1]
    return [*(text for table in tables for text in _indexed(table, dialect)), *further.get(dialect.name, ())]
