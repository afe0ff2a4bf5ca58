"""The columns that our tables have on servers."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY

NAME = Text().with_variant(VARBINARY(700), "mysql")
BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql")


def table(name: str, *columns: Column[object], keys: Sequence[str]) -> Table:
    for column in columns:
        column.primary_key = column.name in keys
    return Table(f"sluicegate_{name}", MetaData(), *columns, mysql_engine="InnoDB", mysql_charset="utf8mb4")


def name(name: str) -> Column[object]:
    return Column(name, NAME, nullable=False)


def count(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False, autoincrement=False)


def bytes(name: str, nullable: bool = False) -> Column[object]:
    return Column(name, BYTES, nullable=nullable)
