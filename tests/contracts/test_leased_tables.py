"""The tables of the leased contracts: SQLite's text and the servers' tables say the same."""

import sqlite3

import pytest
from sqlalchemy import Table

from sluicegate.connectors.sql import leased_ddl, leased_tables, statements


@pytest.fixture(scope="module")
def db() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    for text in (statements.META, *leased_ddl.BUFFER, *leased_ddl.TIMEOUTS, *leased_ddl.OUTBOX):
        made.execute(text)
    return made


@pytest.mark.parametrize("table", leased_tables.ALL, ids=lambda table: table.name)
def test_a_table_has_the_same_columns_nulls_and_keys_in_sqlite(db: sqlite3.Connection, table: Table) -> None:
    said = [(column.name, column.nullable and not column.primary_key, column.primary_key) for column in table.columns]
    found = db.execute(f"pragma table_info({table.name})").fetchall()
    assert [(name, not (not_null or key), key > 0) for _, name, _, not_null, _, key in found] == said


def test_sqlite_has_no_other_tables(db: sqlite3.Connection) -> None:
    names = {name for (name,) in db.execute("select name from sqlite_master where type = 'table' and name like 'sluicegate%'")}
    assert names == {table.name for table in leased_tables.ALL} | {"sluicegate_meta"}
