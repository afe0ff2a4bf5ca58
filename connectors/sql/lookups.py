"""Reads the rows of `lookup:` in the transaction of a commit, on the driver's own connection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from sluicegate.connectors.lookups import KEYS_AT_ONCE, LARGEST, by_key, failed, storable
from sluicegate.connectors.sql.database import Product, pages
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import LookupKey, RowFields


class ColumnType(NamedTuple):
    """The array type and the conversion for the keys of a PostgreSQL column. `of` returns None for a key that no row of
    this type can have."""

    array: str
    of: Callable[[LookupKey], Any]


def _integer(key: LookupKey) -> int | None:
    try:
        number = int(key)
    except ValueError:
        return None
    return number if str(number) == str(key) and -LARGEST <= number < LARGEST else None


def _decimal(key: LookupKey) -> str | None:
    return None if (number := _integer(key)) is None else str(number)


def _uuid(key: LookupKey) -> str | None:
    try:
        return str(key) if str(UUID(str(key))) == key else None
    except ValueError:
        return None


def _text(key: LookupKey) -> str | None:
    return None if "\0" in (text := str(key)) else text


POSTGRESQL: Mapping[int, ColumnType] = {
    **dict.fromkeys((20, 21, 23), ColumnType("bigint[]", _integer)),
    **dict.fromkeys((25, 1043), ColumnType("text[]", _text)),
    1042: ColumnType("bpchar[]", _text),
    1700: ColumnType("numeric[]", _decimal),
    2950: ColumnType("uuid[]", _uuid),
}
"""The column types by the object id of the type. A key of another type would fail the whole query, and with it the
partition."""
PADDED = 1042
OTHER_CHARACTERS = frozenset({"1267", "1270", "1271", "3854"})
"""Codes of MariaDB and MySQL for a text that cannot be converted to the character set of a column."""

CURE = "correct the lookup, make the table, or grant the right to read it"


class SqlLookups:
    """The lookups of one database. Types of columns are read once."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._types: dict[tuple[str, str], int] = {}
        # SQLite takes an unknown name in double quotes for text.
        self._quote = '"' if product.dialect == "postgresql" else "`"

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        """Same as `RowLookups.look_up`."""
        cursor, product = session.connection.connection.driver_connection.cursor(), self._product
        rows: list[tuple[Any, Sequence[Any]]] = []
        try:
            with product.reading_any_value(cursor):
                for page in pages(storable(keys), KEYS_AT_ONCE) if keys else ((),):
                    rows += self._storable_page(cursor, lookup, page)
        except product.errors as error:
            self._types.clear()
            if product.code(error) in product.retryable or product.outage(error, cursor.connection):
                raise
            raise failed(lookup, f"{self._words(error)}; {CURE}") from error
        return by_key(lookup, keys, rows)

    def _words(self, error: Exception) -> str:
        code, text = self._product.code(error), self._product.text_of(error)[:300]
        return text if code in text else f"{code} {text}"

    def _storable_page(
        self, cursor: Any, lookup: Lookup, keys: Sequence[LookupKey]
    ) -> Sequence[tuple[Any, Sequence[Any]]]:
        """The rows of the keys that the column's character set can hold; no row has another key. MySQL refuses a query
        with such a key, and continues the transaction."""
        try:
            return self._page(cursor, lookup, keys)
        except self._product.errors as error:
            if self._product.dialect != "mysql" or self._product.code(error) not in OTHER_CHARACTERS:
                raise
            if len(keys) < 2:
                return ()
            halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
            return [row for half in halves for row in self._storable_page(cursor, lookup, half)]

    def _page(self, cursor: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> list[tuple[Any, Sequence[Any]]]:
        column = self._quoted(lookup.column)
        values: list[Any] = []
        padded = False
        if self._product.dialect == "postgresql":
            kind = self._type(cursor, lookup)
            keys_: list[Any] = [value for key in keys if (value := POSTGRESQL[kind].of(key)) is not None]
            where, values, padded = f"{column} = any(%s::{POSTGRESQL[kind].array})", [keys_], kind == PADDED
        else:
            # MySQL finds no index for a text column that is compared with numbers.
            values = [str(key) for key in keys] if self._product.dialect == "mysql" else list(keys)
            where = f"{column} in ({', '.join([self._mark] * len(keys) or ['null'])})"
        names = ", ".join(map(self._quoted, lookup.fields))
        # In the order of keys, so that two workers with the same rows do not deadlock.
        lock = f" order by {column}{self._product.sharing}" if lookup.lock else ""
        table = self._quoted(lookup.source)
        cursor.execute(f"select {column}, {names} from {table} where {where}{lock}", values)  # nosec B608
        return [(key.rstrip(" ") if padded else key, fields) for key, *fields in cursor.fetchall()]

    @property
    def _mark(self) -> str:
        return "?" if self._product.dialect == "sqlite" else "%s"

    def _type(self, cursor: Any, lookup: Lookup) -> int:
        """The object id of the column's type. Raises LookupFailed for a type that cannot be a key."""
        place = lookup.source, lookup.column
        if place not in self._types:
            column, table = self._quoted(lookup.column), self._quoted(lookup.source)
            cursor.execute(f"select {column} from {table} where false")  # nosec B608
            kind = cursor.description[0].type_code
            if kind not in POSTGRESQL:
                raise failed(
                    lookup, f"{lookup.column} is of a type that is no key; use an integer, text or uuid column"
                )
            self._types[place] = kind
        return self._types[place]

    def _quoted(self, name: str) -> str:
        return ".".join(f"{self._quote}{part}{self._quote}" for part in name.split("."))
