"""The tables of buffers and timeouts for SQLAlchemy."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Column, Dialect, LargeBinary, MetaData, Table, Text, TypeDecorator
from sqlalchemy.dialects.mysql import VARBINARY
from sqlalchemy.types import TypeEngine

from sluicegate.connectors.sql import tables


class NameColumn(TypeDecorator[str]):
    """Text that is compared byte by byte. MySQL stores it as bytes."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind: TypeEngine[Any] = VARBINARY(700) if dialect.name == "mysql" else Text()
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> object:
        return value.encode() if value is not None and dialect.name == "mysql" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return value if value is None or isinstance(value, str) else value.decode()


KINDS: Mapping[str, TypeEngine[Any]] = {"name": NameColumn(), "count": BigInteger(), "bytes": LargeBinary()}


def _mapped(table: tables.Table) -> Table:
    columns = [
        Column(name, KINDS[kind], nullable=nullable, primary_key=name in table.keys, autoincrement=False)
        for name, kind, nullable in table.columns
    ]
    return Table(table.name, MetaData(), *columns)


TIMEOUT = _mapped(tables.TIMEOUT)
BUFFER_NAME = _mapped(tables.BUFFER_NAME)
BUFFER_ROW = _mapped(tables.BUFFER_ROW)
BUFFER_HOLD = _mapped(tables.BUFFER_HOLD)
BUFFER_DEADLINE = _mapped(tables.BUFFER_DEADLINE)
BUFFER_EARLY = _mapped(tables.BUFFER_EARLY)
BUFFER_KEY = _mapped(tables.BUFFER_KEY)
BUFFER_POSITION = _mapped(tables.BUFFER_POSITION)
