"""One SQL database: the differences between the products, transactions that are repeated as a whole, and errors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from sluicegate.connectors.sessions import Raised
from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.values import ColdGroup, Level
from sluicegate.streams.errors import PersistenceError, SluicegateError, SystemNotReady, permanent

if TYPE_CHECKING:
    from sluicegate.connectors.sql.leased.lending import Lender

ATTEMPTS = 4
COLD_ROWS, COLD_BYTES = 256, 2 * 1024 * 1024
"""Cold groups in one statement, and bytes of their states."""
RUNS = 50
"""Runs of numbers in one statement."""

T = TypeVar("T")
Ask = Callable[..., Sequence[Any]]
"""Runs a statement, with its values if it has any, and returns its rows."""
Row = tuple[str, int, bytes]
"""The partition's key, number and value."""


def pages(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`values` in slices of `size`: databases limit the values of one statement."""
    for at in range(0, len(values), size):
        yield values[at : at + size]


def _filled(keys: Sequence[bytes]) -> Sequence[bytes]:
    """The keys, the last one several times, so that there is one statement for many numbers of keys: databases keep
    those that they have prepared."""
    return [*keys, *[keys[-1]] * ((1 << (len(keys) - 1).bit_length()) - len(keys))]


class RolledBack(Raised):
    """The transaction was rolled back, so the connection can be used again."""


class StoreSession(Protocol):
    """Runs statements on the driver's connection, which autocommits outside of `begin` and `commit`."""

    connection: Any

    def run(self, text: str, values: Sequence[object] = ()) -> Any:
        """Returns a cursor. Its rows and its row count may only be known later: see `Product.session`."""

    def rows(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[tuple[Any, ...]] = self.run(text, values).fetchall()
        return rows

    def settle(self) -> None:
        """Waits for the answers to all statements of a pipeline; raises the error of one that failed."""
        return


class ConnectionPool(Protocol):
    """The driver's connections."""

    def lent(self) -> AbstractContextManager[Any]:
        """One connection. An exception other than RolledBack ends its transaction."""

    def forget(self) -> None:
        """Close the idle connections."""

    def close(self) -> None: ...


class Waiter:
    """Waits until rows are added to the outbox. This class is for a database that cannot report it."""

    def wait(self, seconds: float) -> bool:
        """Whether rows were added within `seconds`. It returns False at once where the database cannot report it."""
        return False

    def close(self) -> None:
        """Nothing to close."""


class Product(Protocol):
    """The differences between PostgreSQL, MySQL and SQLite. Statements have `%s` for each value."""

    name: str
    dialect: str
    """SQLAlchemy's name of the product."""
    errors: type[Exception]
    """The base class of the driver's errors."""
    retryable: frozenset[str] = frozenset()
    """Codes of errors that roll the whole transaction back, such as a deadlock."""
    no_table: str
    begin: Sequence[str] = ("begin",)
    begin_reading: Sequence[str]
    """All statements up to the commit read the same snapshot."""
    begin_migrating: Sequence[str]
    end_migrating: str = statements.COMMIT
    begin_unit: Sequence[str] = ("begin",)
    """Begins a transaction that runs the application's statements, too; `end_unit` commits it, `undo_unit` rolls it
    back."""
    end_unit: Sequence[str] = (statements.COMMIT,)
    undo_unit: Sequence[str] = (statements.ROLLBACK,)
    lender: "Lender"
    """Reading it raises ConfigurationError when SQLAlchemy is not installed."""
    ended: frozenset[str]
    """Codes of a missing savepoint: its transaction has ended."""
    aborted: frozenset[str] = frozenset()
    """Codes of a statement in a transaction that an earlier error aborted."""
    steps_exist: str
    column_exists: str
    """Has a row if the table (first value) has the column (second value)."""
    locking: str = " for update"
    """The end of a select that locks its rows until the transaction ends."""
    sharing: str = " for share"
    """The end of a select that keeps its rows from changing until the transaction ends."""

    replacing: str = "on conflict (partition_key, group_key) do update set due = excluded.due, state = excluded.state"
    """The end of an insert that replaces cold groups."""

    def pool(self) -> ConnectionPool: ...

    def exists(self) -> bool:
        """Whether the database exists. Servers report a missing one when they are connected."""
        return True

    def create(self) -> None:
        """Creates the database. Only SQLite does: a server's administrator creates its databases."""
        return

    def session(self, connection: Any) -> AbstractContextManager[StoreSession]:
        """PostgreSQL pipelines the statements: only `rows` and `settle` wait for answers."""

    def code(self, error: Exception) -> str:
        """The database's code of the error; empty when the connection failed."""

    def outage(self, error: Exception, connection: Any) -> bool:
        """Whether the connection or the database failed, rather than the statement."""

    def refused(self, error: Exception) -> bool:
        """Whether this error of a commit proves that nothing was committed."""
        return False

    def text_of(self, error: Exception) -> str:
        """The error's text without the statement and its values."""

    def turned_away(self, error: Exception) -> SluicegateError | None:
        """The error to raise when a certificate, a password or the permissions of a file denied access; None: another
        error."""

    def reading_any_value(self, cursor: Any) -> AbstractContextManager[None]:
        """Within this context the cursor returns text for values that Python or JSON does not have."""
        return nullcontext()

    def absent(self, error: Exception) -> str:
        """The remedy when the URL's role or database does not exist; empty for other errors."""
        return ""

    def now(self, ask: Ask) -> float:
        """The store's clock, seconds since 1970."""

    def prose(self, text: str) -> str | bytes:
        """Free text (member, reason) as it is stored. Servers store bytes: PostgreSQL's text cannot hold NUL."""
        return text.encode()

    def if_absent(self, insert: str) -> str:
        return f"{insert} on conflict do nothing"

    def add_missing(self, db: StoreSession, insert: str, rows: Sequence[Sequence[object]]) -> None:
        """Insert the rows that are not there yet. `insert` names table and columns."""
        marks = f"({', '.join(['%s'] * len(rows[0]))})"
        db.run(
            self.if_absent(f"{insert} values {', '.join([marks] * len(rows))}"),
            [value for row in rows for value in row],
        )

    def cold(self, db: StoreSession, key: str, groups: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        """The rows of the groups of these keys."""
        for page in pages(groups, COLD_ROWS):
            filled = _filled(page)
            yield from db.rows(statements.with_keys(statements.COLD, len(filled)), (key, *filled))

    def drop_cold(self, db: StoreSession, key: str, groups: Sequence[bytes]) -> None:
        """Delete the rows of the groups of these keys."""
        for page in pages(groups, COLD_ROWS):
            filled = _filled(page)
            db.run(statements.with_keys(statements.DROP_COLD, len(filled)), (key, *filled))

    def drop_due(self, db: StoreSession, key: str, groups: Sequence[ColdGroup]) -> None:
        """Delete the rows of these groups, which are those with the nearest deadlines."""
        self.drop_cold(db, key, [group.key for group in groups])

    def put_cold(self, db: StoreSession, key: str, groups: Sequence[ColdGroup]) -> None:
        """Adds the groups. Each replaces a group of the same key."""
        largest = max(len(group.state) for group in groups)
        for page in pages(groups, max(1, min(COLD_ROWS, COLD_BYTES // max(1, largest)))):
            marks = ", ".join(["(%s, %s, %s, %s)"] * len(page))
            values = [value for group in page for value in (key, *group)]
            db.run(f"{statements.ADD_COLD} values {marks} {self.replacing}", values)

    def drop_unsent(self, db: StoreSession, key: str, runs: Sequence[tuple[int, int]]) -> None:
        """Deletes the rows of these runs. A run is a first and a last number, both inclusive."""
        for page in pages(runs, RUNS):
            db.run(statements.dropping(len(page)), (key, *(number for run in page for number in run)))

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        """Inserts rows. `insert` names table and columns. There is at least one row, and all are of one partition."""

    def level(self, ask: Ask) -> Level: ...

    def waiter(self) -> Waiter:
        return Waiter()


class Database:
    """Any thread may call. A connection is closed after an error."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._pool = product.pool()

    def run(self, work: Callable[[StoreSession], T], begin: Sequence[str] = (), end: str = "") -> T:
        """Runs `work` in a transaction (without `begin`, each statement by itself); repeats it after a deadlock."""

        def once(connection: Any) -> T:
            with self.product.session(connection) as db:
                for text in begin:
                    db.run(text)
                result = work(db)
                if begin:
                    db.run(end or statements.COMMIT)
                return result

        return self.repeated(once)

    def ask(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]:
        """Run one statement outside of a transaction."""
        return self.run(lambda db: db.rows(text, values))

    def repeated(self, work: Callable[[Any], T]) -> T:
        """Runs `work` on a driver's connection; repeats it as a whole after a retryable error."""
        with self.translated():
            for remaining in range(ATTEMPTS - 1, -1, -1):
                try:
                    with self._pool.lent() as connection:
                        return work(connection)
                except self.product.errors as error:
                    if not remaining or self.product.code(error) not in self.product.retryable:
                        raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A driver's connection, with its errors translated."""
        with self.translated(), self._pool.lent() as connection:
            yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translates the driver's errors. Their text leaves out the values that a server quotes."""
        name = self.product.name
        try:
            yield
        except self.product.errors as error:
            if (code := self.product.code(error)) == self.product.no_table:
                raise SystemNotReady(f"{name}: the store has no tables yet: run `sluicegate migrate`") from error
            if not code:
                self._pool.forget()
            text = f"{name}: {type(error).__name__} {code}: {self.product.text_of(error)[:300]}"
            if absent := self.product.absent(error):
                raise permanent(PersistenceError(f"{text}; {absent}")) from error
            raise self.product.turned_away(error) or PersistenceError(text) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PersistenceError(f"{name}: a stored value cannot be read: {type(error).__name__}") from error

    def close(self) -> None:
        self._pool.close()
