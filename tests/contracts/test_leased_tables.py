"""The tables of the leased contracts: what SQLite makes of them, and what SQLAlchemy is told of them."""

import sqlite3

import pytest

from sluicegate.connectors.sql import tables
from sluicegate.connectors.sql.leased import leased_tables


@pytest.fixture(scope="module")
def db() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    for text in (tables.created(tables.META, "sqlite"), *tables.texts(2, "sqlite")):
        made.execute(text)
    return made


@pytest.mark.parametrize("table", tables.LEASED, ids=lambda table: table.name)
def test_a_table_has_the_columns_nulls_and_keys_in_sqlite(db: sqlite3.Connection, table: tables.Table) -> None:
    columns = [(column.name, column.nullable, column.name in table.keys) for column in table.columns]
    rows = db.execute(f"pragma table_info({table.name})").fetchall()
    assert [(name, not not_null, key > 0) for _, name, _, not_null, _, key in rows] == columns


@pytest.mark.parametrize("name", ["TIMEOUT", "BUFFER_ROW", "BUFFER_HOLD"])
def test_sqlalchemy_knows_the_same_columns_nulls_and_keys(name: str) -> None:
    table, mapped = getattr(tables, name), getattr(leased_tables, name)
    columns = [(column.name, column.nullable, column.name in table.keys) for column in table.columns]
    assert [(column.name, column.nullable, column.primary_key) for column in mapped.columns] == columns


def test_sqlite_has_no_other_tables(db: sqlite3.Connection) -> None:
    names = {
        name
        for (name,) in db.execute("select name from sqlite_master where type = 'table' and name like 'sluicegate%'")
    }
    assert names == {table.name for table in tables.LEASED} | {"sluicegate_meta"}
