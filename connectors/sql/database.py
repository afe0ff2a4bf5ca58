"""One SQL database: what its product does in its own way, transactions that are repeated as a whole, and its errors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import PersistenceError, SluicegateError, SystemNotReady, permanent

if TYPE_CHECKING:
    from sluicegate.connectors.sql.lending import Lender

ATTEMPTS = 4
RUNS = 50
"""In one statement."""

T = TypeVar("T")
Ask = Callable[..., Sequence[Any]]
"""The rows of a statement, and of its values if it has any."""
Row = tuple[str, int, bytes]
"""The partition's key, number and value."""


class StoreSession(Protocol):
    """What a statement is run on: the driver's connection, autocommitting outside of `begin` and `commit`."""

    connection: Any

    def run(self, text: str, values: Sequence[object] = ()) -> Any:
        """A cursor. Its rows and its row count may only be known later: see `Product.session`."""

    def rows(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]: ...

    def settle(self) -> None:
        """Everything was answered after it; an error of what was run before is raised here."""


class ConnectionPool(Protocol):
    """The driver's connections."""

    def lent(self) -> AbstractContextManager[Any]:
        """One of them. Nothing of its transaction is left after an exception."""

    def forget(self) -> None:
        """The connections that nobody uses."""

    def close(self) -> None: ...


class Waiter(Protocol):
    """Is told that rows were added to the outbox."""

    def wait(self, seconds: float) -> bool:
        """Until it is told, at most so long; False at once where the database cannot tell."""

    def close(self) -> None: ...


class Untold:
    """The waiter of a database that cannot tell."""

    def wait(self, seconds: float) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to close."""


class Product(Protocol):
    """All that PostgreSQL, MySQL and SQLite do not share. Statements have `%s` for each value."""

    name: str
    dialect: str
    """SQLAlchemy's name of it."""
    errors: type[Exception]
    """The driver's."""
    retryable: frozenset[str] = frozenset()
    """Codes of errors after which nothing of the transaction is left."""
    no_table: str
    begin: Sequence[str] = ("begin",)
    begin_reading: Sequence[str]
    """One picture for all statements up to the commit."""
    begin_migrating: Sequence[str]
    end_migrating: str = statements.COMMIT
    begin_unit: Sequence[str] = ("begin",)
    """Of a transaction that the application's statements share; `end_unit` commits it, `undo_unit` rolls it back."""
    end_unit: Sequence[str] = (statements.COMMIT,)
    undo_unit: Sequence[str] = (statements.ROLLBACK,)
    lender: "Lender"
    """Asking for it raises ConfigurationError without SQLAlchemy."""
    ended: frozenset[str]
    """Codes of a savepoint that is not there, because its transaction is not."""
    aborted: frozenset[str] = frozenset()
    """Codes that follow an error after which the transaction takes no statement any more."""
    steps_exist: str
    locking: str = " for update"
    """The end of a select whose rows nobody else changes before the transaction ends."""

    def pool(self) -> ConnectionPool: ...

    def exists(self) -> bool:
        """Is there anything to connect to?"""
        return True

    def create(self) -> None:
        """Make what is connected to, where that is ours to make."""
        return

    def session(self, connection: Any) -> AbstractContextManager[StoreSession]:
        """PostgreSQL gets its statements without a wait for the answers; asking for rows is what waits."""

    def code(self, error: Exception) -> str:
        """The database's code, empty when the connection failed."""

    def outage(self, error: Exception, connection: Any) -> bool:
        """Did the connection or the database fail, rather than the statement?"""

    def refused(self, error: Exception) -> bool:
        """Does this answer to a commit mean that nothing of it remains?"""
        return False

    def said(self, error: Exception) -> str:
        """The error's text without anything that we sent."""

    def turned_away(self, error: Exception) -> SluicegateError | None:
        """The error when we were not let in: by a certificate, a password or the rights of a file."""

    def absent(self, error: Exception) -> str:
        """What to do when a server says that the URL's role or database is not there; empty for other errors."""
        return ""

    def now(self, ask: Ask) -> float:
        """The store's clock, seconds since 1970."""

    def prose(self, text: str) -> str | bytes:
        """Text that people write (member, reason), as it is stored: PostgreSQL's text has no character zero."""
        return text.encode()

    def if_absent(self, insert: str) -> str:
        return f"{insert} on conflict do nothing"

    def add_missing(self, db: StoreSession, insert: str, rows: Sequence[Sequence[object]]) -> None:
        """`insert` names table and columns. What is there already stays as it is."""
        marks = f"({', '.join(['%s'] * len(rows[0]))})"
        db.run(
            self.if_absent(f"{insert} values {', '.join([marks] * len(rows))}"),
            [value for row in rows for value in row],
        )

    def drop_unsent(self, db: StoreSession, key: str, runs: Sequence[tuple[int, int]]) -> None:
        """Each run is the first and the last number."""
        for at in range(0, len(runs), RUNS):
            page = runs[at : at + RUNS]
            db.run(statements.dropping(len(page)), (key, *(number for run in page for number in run)))

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        """`insert` names table and columns, the rows are of one partition and not empty."""

    def level(self, ask: Ask) -> Level: ...

    def waiter(self) -> Waiter:
        return Untold()


class Database:
    """Any thread may call. A connection that saw an error is not used again."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._pool = product.pool()

    def run(self, work: Callable[[StoreSession], T], begin: Sequence[str] = (), end: str = "") -> T:
        """`work` in a transaction (without `begin`: each statement for itself), again as a whole after a deadlock."""

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
        """The rows of one statement for itself."""
        return self.run(lambda db: db.rows(text, values))

    def repeated(self, work: Callable[[Any], T]) -> T:
        """`work` on a driver's connection, again as a whole after a deadlock and the like."""
        with self.translated():
            for left in range(ATTEMPTS - 1, -1, -1):
                try:
                    with self._pool.lent() as connection:
                        return work(connection)
                except self.product.errors as error:
                    if not left or self.product.code(error) not in self.product.retryable:
                        raise
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A driver's connection, its errors translated; after any error it is not used again."""
        with self.translated(), self._pool.lent() as connection:
            yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """The driver's errors become ours, without what a server quotes of our values."""
        name = self.product.name
        try:
            yield
        except self.product.errors as error:
            if (code := self.product.code(error)) == self.product.no_table:
                raise SystemNotReady(f"{name}: the store has no tables yet: run `sluicegate migrate`") from error
            if not code:
                self._pool.forget()
            text = f"{name}: {type(error).__name__} {code}: {self.product.said(error)[:300]}"
            if absent := self.product.absent(error):
                raise permanent(PersistenceError(f"{text}; {absent}")) from error
            raise self.product.turned_away(error) or PersistenceError(text) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PersistenceError(f"{name}: a stored value cannot be read: {type(error).__name__}") from error

    def close(self) -> None:
        self._pool.close()
