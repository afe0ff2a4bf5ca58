"""One SQL server: connections, transactions that are repeated as a whole, and its errors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

import msgspec
import sqlalchemy
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from sluicegate.connectors.sql.lending import Lender
from sluicegate.streams.errors import NotAuthenticated, PersistenceError, SystemNotReady, permanent
from sluicegate.streams.values import Level

CONNECT_SECONDS = 5
REPLY_SECONDS = 20
FREE_SECONDS = 5
CONNECTIONS = 8
RECYCLE_SECONDS = 1800
ATTEMPTS = 4
BULK_BYTES = 1024 * 1024

Statement = tuple[str, Sequence[object]]
T = TypeVar("T")


class Session(Protocol):
    """What a statement is run on: the driver's connection, autocommitting outside of `begin` and `commit`."""

    def run(self, text: str, values: Sequence[object] = ()) -> Any:
        """A cursor. Its rows and its row count may only be known later: see `Product.session`."""

    def rows(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]: ...

    def settle(self) -> None:
        """Everything was answered after it; an error of what was run before is raised here."""


class Waiter(Protocol):
    """Who is told that rows were added to the outbox."""

    def wait(self, seconds: float) -> bool:
        """Until it is told, at most so long; False at once where the server cannot tell."""

    def close(self) -> None: ...


class Product(Protocol):
    """All that PostgreSQL and MySQL do not share."""

    name: str
    errors: type[Exception]
    """The driver's."""
    retryable: frozenset[str]
    """Codes of errors after which nothing of the transaction is left."""
    no_table: str
    dialect: sqlalchemy.Dialect
    begin: Sequence[str]
    begin_reading: Sequence[str]
    """One picture for all statements up to the commit."""
    begin_migrating: Sequence[str]
    end_migrating: str
    begin_unit: Sequence[str]
    """Of a transaction that the application's statements share; `end_unit` commits it, `undo_unit` rolls it back."""
    end_unit: Sequence[str]
    undo_unit: Sequence[str]
    lender: Lender
    ended: frozenset[str]
    """Codes of a savepoint that is not there, because its transaction is not."""
    aborted: frozenset[str]
    """Codes that follow an error after which the transaction takes no statement any more."""
    steps_exist: str
    now: str

    def connect(self) -> Any: ...

    def session(self, connection: Any) -> AbstractContextManager[Session]:
        """PostgreSQL gets its statements without a wait for the answers; asking for rows is what waits."""

    def code(self, error: Exception) -> str:
        """The server's code, empty when the connection failed."""

    def outage(self, error: Exception, connection: Any) -> bool:
        """Did the connection or the server fail, rather than the statement?"""

    def refused(self, error: Exception) -> bool:
        """Does this answer to a commit mean that nothing of it remains?"""

    def said(self, error: Exception) -> str:
        """The error's text without anything that we sent."""

    def turned_away(self, error: Exception) -> NotAuthenticated | None:
        """The error when it was a certificate or a password that did not let us in."""

    def absent(self, error: Exception) -> str:
        """What to do when the server answers that the role or the database of the URL is not there; empty for other errors."""

    def if_absent(self, insert: str) -> str: ...

    def bulk(self, table: str, column: str, key: str, rows: Sequence[tuple[int, bytes]]) -> Iterator[Statement]: ...

    def level(self, db: Session) -> Level: ...
    def waiter(self) -> Waiter: ...


class Server:
    """Any thread may call. A connection that saw an error is not used again."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._pool = QueuePool(
            product.connect,
            pool_size=CONNECTIONS,
            max_overflow=0,
            timeout=FREE_SECONDS,
            recycle=RECYCLE_SECONDS,
            reset_on_return=None,
        )

    def run(self, work: Callable[[Session], T], begin: Sequence[str] = (), end: str = "commit") -> T:
        """`work` in a transaction (without `begin`: each statement for itself), again as a whole after a deadlock and the like."""
        return self.repeated(lambda connection: self._once(connection, work, begin, end))

    def repeated(self, work: Callable[[Any], T]) -> T:
        """`work` on a driver's connection, again as a whole after a deadlock and the like."""
        with self.translated():
            for _ in range(ATTEMPTS - 1):
                with self._repeatable(), self._connection() as connection:
                    return work(connection)
            with self._connection() as connection:
                return work(connection)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A driver's connection, its errors translated; after any error it is not used again."""
        with self.translated(), self._connection() as connection:
            yield connection

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        try:
            yield
        except self.product.errors as error:
            if self.product.code(error) not in self.product.retryable:
                raise

    def _once(self, connection: Any, work: Callable[[Session], T], begin: Sequence[str], end: str) -> T:
        with self.product.session(connection) as db:
            for text in begin:
                db.run(text)
            result = work(db)
            if begin:
                db.run(end)
            return result

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        held: PoolProxiedConnection = self._pool.connect()
        try:
            yield held.driver_connection
        except BaseException:
            held.invalidate()
            raise
        finally:
            held.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """The driver's errors become ours, without what the server quotes of our values."""
        name = self.product.name
        try:
            yield
        except NoneFree as error:
            raise PersistenceError(f"{name}: all {CONNECTIONS} connections were in use for {FREE_SECONDS} s") from error
        except self.product.errors as error:
            if (code := self.product.code(error)) == self.product.no_table:
                raise SystemNotReady("the store has no tables yet: run `sluicegate migrate`") from error
            if not code:
                self._forget()
            text = f"{name}: {type(error).__name__} {code}: {self.product.said(error)[:300]}"
            if absent := self.product.absent(error):
                raise permanent(PersistenceError(f"{text}; {absent}")) from error
            raise self.product.turned_away(error) or PersistenceError(text) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PersistenceError(f"{name}: a stored value cannot be read: {type(error).__name__}") from error

    def _forget(self) -> None:
        """A server that went away took all connections with it, not only the one that noticed."""
        with suppress(Exception):
            self._pool.dispose()
        self._pool = self._pool.recreate()

    def close(self) -> None:
        self._pool.dispose()
