"""SQLite: one file, which is opened when it is needed, and the durability of its settings."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.database import Ask, Product, Row, StoreSession, pages
from sluicegate.streams.contracts.values import ColdGroup, Level
from sluicegate.streams.errors import ConfigurationError, SluicegateError, SystemNotReady, permanent

if TYPE_CHECKING:
    from sluicegate.connectors.sql.leased.lending import Lender

T = TypeVar("T")
BUSY_SECONDS = 20.0
RETRY_SECONDS = 0.002  # between two attempts to begin a transaction
BEGIN = "begin immediate"
FULL = 2  # pragma synchronous
NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs"}
CLUSTER = {"ceph", "glusterfs", "fuse.glusterfs", "lustre", "gpfs"}
VOLATILE = {"tmpfs", "ramfs"}
# Errors of the file or the disk, not of the statement.
OUTAGES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}

COLD = (
    "with wanted (name) as (values {}) select group_key, due, state from wanted cross join sluicegate_cold "
    "on partition_key = ? and group_key = wanted.name"
)
COLD_KEYS = 512  # in one statement
PUT_COLD = (
    "with cold (name, due, state) as (values {}) "
    f"{statements.ADD_COLD} select ?, name, due, state from cold where true "  # nosec B608
    "on conflict (partition_key, group_key) do update set state = excluded.state "
    "where sluicegate_cold.due is excluded.due"
)
PUT_ROWS = 100  # in one statement
MOVE_COLD = "update sluicegate_cold set due = ?, state = ? where partition_key = ? and group_key = ? and due is not ?"

INSIDE = (
    "this thread has a transaction open on the SQLite store: call the store before or after its block, "
    "write through its session inside"
)


def _text(value: bytes) -> str | bytes:
    """The text of a column; bytes if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


class Sqlite(Product):
    """The database in the file at `path`. `clock` gives seconds since 1970: all its users share one machine."""

    dialect = "sqlite"
    errors: type[Exception] = sqlite3.Error
    no_table = "no such table"
    begin: Sequence[str] = (BEGIN,)
    begin_reading: Sequence[str] = ("begin",)
    begin_migrating: Sequence[str] = (BEGIN,)
    begin_unit: Sequence[str] = (BEGIN,)
    ended = frozenset(("no such savepoint",))
    steps_exist = "select count(*) from sqlite_master where type = 'table' and name = 'sluicegate_step'"
    column_exists = "select 1 from pragma_table_info(%s) where name = %s"
    locking = sharing = ""  # a transaction locks the whole file

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.name = f"sqlite {path}"
        self.file = File(path)
        self._clock = clock

    @cached_property
    def lender(self) -> "Lender":  # type: ignore[override]
        try:
            from sluicegate.connectors.sql.leased.lending import Lender
        except ImportError:
            raise ConfigurationError('this on SQLite needs SQLAlchemy: pip install "sluicegate[sqlite]"') from None
        return Lender("sqlite+pysqlite://")

    def pool(self) -> "File":
        return self.file

    @contextmanager
    def reading_any_value(self, cursor: sqlite3.Cursor) -> Iterator[None]:
        connection = cursor.connection
        connection.text_factory = _text
        try:
            yield
        finally:
            connection.text_factory = str

    def exists(self) -> bool:
        return self.file.path.exists()

    def create(self) -> None:
        self.file.connection(create=True)

    def session(self, connection: sqlite3.Connection) -> AbstractContextManager[StoreSession]:
        return nullcontext(_SqliteSession(connection))

    def code(self, error: Exception) -> str:
        """A part of the error's text stands for a missing table or savepoint, because SQLite has no code for them."""
        text = str(error)
        named = (phrase for phrase in (self.no_table, *self.ended) if phrase in text)
        return next(named, getattr(error, "sqlite_errorname", "of the driver"))

    def outage(self, error: Exception, connection: sqlite3.Connection) -> bool:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in OUTAGES

    def refused(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.IntegrityError)

    def text_of(self, error: Exception) -> str:
        return str(error)

    def turned_away(self, error: Exception) -> SluicegateError | None:
        if "unable to open database file" in str(error) and not os.access(self.file.path, os.R_OK | os.W_OK):
            return permanent(SystemNotReady(self._why_closed()))
        return None

    def _why_closed(self) -> str:
        path, folder = self.file.path, self.file.path.parent
        if not folder.is_dir():
            return f"the folder of the store {path} does not exist: create it, or correct the URL"
        if not path.exists() and os.access(folder, os.W_OK):
            return f"there is no store {path}: restore it if there was one, or create one with `sluicegate migrate`"
        return f"the store {path} cannot be opened: give this user the right to read and write it and its folder"

    def now(self, ask: Ask) -> float:
        return self._clock()

    def prose(self, text: str) -> str:
        return text

    # A small statement that is compiled once is faster than a large one. For an `or` of runs SQLite scans the whole
    # partition: 100 runs took 12 ms instead of 0.8.
    def add_missing(self, db: StoreSession, insert: str, rows: Sequence[Sequence[object]]) -> None:
        marks = ", ".join("?" * len(rows[0]))
        db.connection.executemany(self.if_absent(f"{insert} values ({marks})"), rows)

    def cold(self, db: StoreSession, key: str, groups: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        """Neighbours are read together, in the order of their keys. SQLite sorts the keys of an `in` into a table of
        its own."""
        for page in pages(sorted(groups), COLD_KEYS):
            marks = 1 << (len(page) - 1).bit_length()  # few texts, so that the driver keeps their statements
            text = COLD.format(", ".join(["(?)"] * marks))
            yield from db.rows(text, (*page, *[None] * (marks - len(page)), key))

    def drop_due(self, db: StoreSession, key: str, groups: Sequence[ColdGroup]) -> None:
        """SQLite goes through the index of deadlines once. By their keys, it searches for each row and for its entry
        in the index: 2.9 µs in place of 1.1."""
        last = groups[-1]
        db.run(statements.DROP_DUE, (key, last.due, last.due, last.key))

    def put_cold(self, db: StoreSession, key: str, groups: Sequence[ColdGroup]) -> None:
        """A row with the same deadline as before keeps its place in the index, which SQLite would write anew. Rows are
        written in the order of their keys: for 1,000 of a million rows that takes 17 % less CPU time."""
        connection = db.connection
        before = connection.total_changes
        for page in pages(sorted(groups, key=lambda group: group.key), PUT_ROWS):
            text = PUT_COLD.format(", ".join(["(?, ?, ?)"] * len(page)))
            connection.execute(text, (*chain.from_iterable(page), key))
        if connection.total_changes < before + len(groups):
            connection.executemany(MOVE_COLD, [(due, state, key, name, due) for name, due, state in groups])

    def drop_unsent(self, db: StoreSession, key: str, runs: Sequence[tuple[int, int]]) -> None:
        db.connection.executemany(_question_marks(statements.dropping(1)), [(key, first, last) for first, last in runs])

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        db.connection.executemany(f"{insert} values (?, ?, ?)", rows)

    def level(self, ask: Ask) -> Level:
        """A missing file is judged as if it were created; it is not created."""
        path = self.file.path
        if path.exists():
            return judged(str(ask("pragma journal_mode")[0][0]), int(ask("pragma synchronous")[0][0]), filesystem(path))
        if not os.access(path.parent, os.W_OK):
            raise permanent(SystemNotReady(self._why_closed()))
        return judged("wal", FULL, filesystem(path))


@lru_cache(maxsize=128)
def _question_marks(text: str) -> str:
    return text.replace("%s", "?")


class _SqliteSession(StoreSession):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, text: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        if text == BEGIN:
            return _begin(self.connection)
        cursor: sqlite3.Cursor = self.connection.execute(_question_marks(text), values)
        return cursor


def _begin(db: sqlite3.Connection) -> sqlite3.Cursor:
    """Begins a transaction when no other process writes. SQLite itself waits up to 0.1 s between two attempts, so it
    misses the short gaps between the transactions of processes that commit all the time. Measured beside three of them,
    with transactions of 50 ms: a process that commits every 0.3 s waited up to 3.6 s for its turn, and up to 0.9 s with
    attempts every 2 ms."""
    db.execute("pragma busy_timeout = 0")
    try:
        return _repeated(partial(db.execute, BEGIN), lambda error: error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY)
    finally:
        db.execute(f"pragma busy_timeout = {1000 * BUSY_SECONDS:.0f}")


def _repeated(attempt: Callable[[], T], passes: Callable[[sqlite3.OperationalError], bool] = lambda error: True) -> T:
    """Repeats the attempt for BUSY_SECONDS, while its error may pass."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not passes(error) or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


class File:
    """One connection, which threads use one at a time. It is opened when it is needed, and closed after an error of
    SQLite. Each transaction first checks that the file was not deleted or replaced, and never writes to an old one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            db = self.connection(create=False)
            if db.in_transaction:
                raise ConfigurationError(INSIDE)
            try:
                yield db
            except BaseException as error:
                with suppress(sqlite3.Error):
                    db.execute(statements.ROLLBACK)
                if isinstance(error, sqlite3.Error):
                    self.close()
                raise

    def connection(self, create: bool) -> sqlite3.Connection:
        with self._lock:
            if self._open is not None and self._file != _identity(self.path):
                self.close()
            if self._open is None:
                self._open = _opened(self.path, create)
                self._file = _identity(self.path)
            return self._open

    def forget(self) -> None:
        """Nothing: `lent` closes the connection after an error."""

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _opened(path: Path, create: bool) -> sqlite3.Connection:
    if create:
        # Only this user may read the file, and the files beside it, which get the same rights.
        with suppress(FileExistsError, FileNotFoundError, PermissionError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    address = f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}"
    db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # SQLite does not wait for a lock when it changes the mode of a new file, so this function waits
        if db.execute("pragma journal_mode").fetchone()[0] != "wal":
            _repeated(partial(db.execute, "pragma journal_mode = wal"))
        db.execute("pragma synchronous = full")
        db.execute("pragma fullfsync = on")
    except BaseException:
        db.close()
        raise
    return db


def judged(journal: str, synchronous: int, kind: str | None) -> Level:
    """The durability that these settings give. `kind` is the type of the file system; None: unknown."""
    problems = (
        (journal != "wal", f"journal_mode is {journal}, not wal"),
        (synchronous < FULL, f"synchronous is {synchronous}, below {FULL} (full)"),
        (kind in NETWORK | CLUSTER, f"the file is on {kind}, a network file system: WAL needs a local disk"),
        (kind in VOLATILE, f"the file is on {kind}, which a restart of the machine empties"),
    )
    if weak := tuple(text for is_weak, text in problems if is_weak):
        return Level("lossy", weak)
    return Level("durable", () if kind else ("the type of the file system is unknown",))


def filesystem(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the file system of `path`, None where the system has no list of mounts."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    folders = {str(folder) for folder in path.resolve().parents}
    mounted = [(line.split(" ")[1].replace("\\040", " "), line.split(" ")[2]) for line in lines]
    parents = [(len(folder), at, kind) for at, (folder, kind) in enumerate(mounted) if folder in folders]
    return max(parents)[2] if parents else None
