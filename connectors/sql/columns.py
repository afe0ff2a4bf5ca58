"""The columns that our tables have on servers."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, Index, LargeBinary, MetaData, Table, Text, TypeDecorator
from sqlalchemy.dialects.mysql import LONGBLOB, VARBINARY
from sqlalchemy.types import TypeEngine


class Name(TypeDecorator[str]):
    """Text that is compared byte by byte: in MySQL it is bytes, and comes back as text."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind: TypeEngine[Any] = VARBINARY(700) if dialect.name == "mysql" else Text()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> object:
        return value.encode() if value is not None and dialect.name == "mysql" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return value if value is None or isinstance(value, str) else value.decode()


NAME = Name()
BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql")


def table(name: str, *columns: Column[object], keys: Sequence[str], indexes: Sequence[Sequence[str]] = ()) -> Table:
    """`indexes`: the columns of each; it is named after the table and them."""
    for column in columns:
        column.primary_key = column.name in keys
    made = Table(f"sluicegate_{name}", MetaData(), *columns, mysql_engine="InnoDB", mysql_charset="utf8mb4")
    for index in indexes:
        Index("_".join([made.name, *index]), *(made.c[each] for each in index))
    return made


def name(name: str, nullable: bool = False) -> Column[object]:
    return Column(name, NAME, nullable=nullable)


def count(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False, autoincrement=False)


def bytes(name: str, nullable: bool = False) -> Column[object]:
    return Column(name, BYTES, nullable=nullable)
