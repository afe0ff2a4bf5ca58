"""One SQLite file: opening it, transactions on it, and what its durability rests on."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from sluicegate.connectors.sql import statements
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady, permanent
from sluicegate.streams.values import Level

BUSY_SECONDS = 20.0
PAGE_BYTES = 16384
FULL = 2  # pragma synchronous
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "lustre", "gpfs"}
VOLATILE = {"tmpfs", "ramfs"}

INSIDE = (
    "this thread has a transaction open on the SQLite store: call the store before or after its block, write through its session inside"
)


class Database:
    """One connection for any number of threads, one at a time; opened when needed, dropped after any error.

    A file that was deleted or replaced is noticed before each transaction: nothing is ever written to the old one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def transaction(self, begin: str, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Commit at the end, nothing at an exception. Raises SystemNotReady without file or tables, else PersistenceError."""
        with self._lock, self._translated():
            db = self.connection(create)
            if db.in_transaction:
                raise ConfigurationError(INSIDE)
            db.execute(begin)
            try:
                yield db
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute(statements.ROLLBACK)
                raise
            db.execute(statements.COMMIT)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            text = str(error)
            if "no such table" in text:
                raise SystemNotReady(f"the store {self._path} has no tables yet: run `sluicegate migrate`") from error
            if "unable to open database file" in text and not os.access(self._path, os.R_OK | os.W_OK):
                raise permanent(SystemNotReady(self._why_closed())) from error
            raise PersistenceError(f"sqlite {self._path}: {text}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PersistenceError(f"sqlite {self._path}: a row cannot be read: {error}") from error

    def connection(self, create: bool) -> sqlite3.Connection:
        if self._open is not None and self._file != _identity(self._path):
            self.close()
        if self._open is None:
            self._open = _opened(self._path, create)
            self._file = _identity(self._path)
        return self._open

    def _why_closed(self) -> str:
        folder = self._path.parent
        if not folder.is_dir():
            return f"the folder of the store {self._path} is not there: make it, or correct the URL"
        if not self._path.exists() and os.access(folder, os.W_OK):
            return f"there is no store {self._path}: put it back if there was one, or make a new one with `sluicegate migrate`"
        return f"the store {self._path} cannot be opened: give this user the right to read and write it and its folder"

    def level(self) -> Level:
        """Of a file that is not there yet: what it will be. Makes none."""
        if not self._path.exists():
            if not os.access(self._path.parent, os.W_OK):
                raise permanent(SystemNotReady(self._why_closed()))
            return judged("wal", FULL, filesystem(self._path))
        with self._lock, self._translated():
            db = self.connection(create=False)
            journal = str(db.execute("pragma journal_mode").fetchone()[0])
            synchronous = int(db.execute("pragma synchronous").fetchone()[0])
        return judged(journal, synchronous, filesystem(self._path))

    def exists(self) -> bool:
        return self._path.exists()

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path, create: bool) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}"
    db = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        # Entries are large: bigger pages (of a new file) mean a third less CPU time per commit.
        db.execute(f"pragma page_size = {PAGE_BYTES}")
        _use_wal(db)
        db.execute("pragma synchronous = full")
        db.execute("pragma fullfsync = on")
    except BaseException:
        db.close()
        raise
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait for others when the mode of a new file is changed: so we do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while db.execute("pragma journal_mode").fetchone()[0] != "wal":
        try:
            db.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def judged(journal: str, synchronous: int, kind: str | None) -> Level:
    """The level that these settings give; `kind` is the type of the file system, None when it cannot be told."""
    weak = []
    if journal != "wal":
        weak.append(f"journal_mode is {journal}, not wal")
    if synchronous < FULL:
        weak.append(f"synchronous is {synchronous}, below {FULL} (full)")
    if kind in REMOTE:
        weak.append(f"the file is on {kind}, a network file system: WAL needs a local disk")
    if kind in VOLATILE:
        weak.append(f"the file is on {kind}, which a restart of the machine empties")
    if weak:
        return Level("lossy", tuple(weak))
    return Level("durable", () if kind else ("the type of the file system is unknown",))


def filesystem(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the file system that holds `path`, None where the system does not say."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    folders = {str(folder) for folder in path.resolve().parents}
    found = [(line.split(" ")[1].replace("\\040", " "), line.split(" ")[2]) for line in lines]
    held = [(len(folder), at, kind) for at, (folder, kind) in enumerate(found) if folder in folders]
    return max(held)[2] if held else None
