"""The store in SQLite: one write transaction per commit, fenced by the row count of its first statement."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sluicegate.connectors.commits import alone, check, following, remaining, runs
from sluicegate.connectors.sessions import SqlSession, unchanged
from sluicegate.connectors.sql import migrations, statements, timeout_rows
from sluicegate.connectors.sql.sqlite import Database
from sluicegate.streams.errors import ConfigurationError, Fenced, NotCommitted, PersistenceError, SluicegateError, SystemNotReady
from sluicegate.streams.leased.options import STANDARD, LeasedOptions
from sluicegate.streams.values import Changes, Claim, DeadRow, Level, OutboxRow, Partition, PartitionView, Source, Trying

if TYPE_CHECKING:
    from sluicegate.connectors.sql.buffer import SqlBuffer
    from sluicegate.connectors.sql.outbox import SqlOutbox
    from sluicegate.connectors.sql.timeouts import SqlTimeouts
    from sluicegate.connectors.sql.transactions import OnFile

_PAGE = 16

_NO_SQLALCHEMY = 'sessions on SQLite need SQLAlchemy: pip install "sluicegate[sqlite]"'

_encode = msgspec.msgpack.Encoder().encode
_row = msgspec.msgpack.Decoder(OutboxRow).decode
_source = msgspec.msgpack.Decoder(Source).decode
_trying = msgspec.msgpack.Decoder(Trying).decode


class SqliteStore:
    """One file on a local disk; any thread may call, any number of processes may have it open.

    `clock` gives seconds since 1970, `new_name` a random name for new data.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        new_name: Callable[[], str] = lambda: uuid.uuid4().hex,
        options: LeasedOptions = STANDARD,
    ) -> None:
        self._options = options
        self._database = Database(path)
        self._clock = clock
        self._new_name = new_name

    @property
    def incarnation(self) -> str:
        """Raises SystemNotReady before the first `migrate`."""
        with self._database.transaction(statements.BEGIN_READING) as db:
            found = db.execute(statements.INCARNATION).fetchone()
        if found is None:
            raise SystemNotReady("the store's data have no name yet: run `sluicegate migrate`")
        return str(found[0])

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        key = _key(partition)
        with self._database.transaction(statements.BEGIN) as db:
            db.execute(statements.NAME_DATA, (self._new_name(),))
            db.execute(statements.ADD_CLAIM, (key, *partition))
            db.execute(statements.TAKE_CLAIM, (token, member, key))
            return _claim(partition, db.execute(statements.CLAIM, (key,)).fetchone(), self._clock())

    def restore(self, claim: Claim) -> Iterator[bytes]:
        for first in range(claim.first, claim.last + 1, _PAGE):
            last = min(first + _PAGE - 1, claim.last)
            with self._database.transaction(statements.BEGIN_READING) as db:
                page = db.execute(statements.ENTRIES, (_key(claim.partition), first, last)).fetchall()
            for (entry,) in page:
                yield entry

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        return alone(self.commit_all, claim, changes)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        for claim, changes in commits:
            check(claim, changes)
        try:
            with self._database.transaction(statements.BEGIN) as db:
                results = [_write(db, claim, changes) for claim, changes in commits]
        except SystemNotReady as gone:
            return [Fenced(f"{_key(claim.partition)}: the store's data are gone: {gone}") for claim, _ in commits]
        except PersistenceError as error:
            return [error] * len(commits)
        now = self._clock()
        return [result if isinstance(result, Fenced) else msgspec.structs.replace(result, store_time=now) for result in results]

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        return unchanged(lambda: self._unit(claim, work))

    def _unit(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        worked, written = self._worked, False
        try:
            with self._database.transaction(statements.BEGIN) as db:
                if db.execute(statements.HELD, (_key(claim.partition), claim.token, claim.version)).fetchone() is None:
                    raise Fenced(f"{_key(claim.partition)}: a newer claim or commit exists")
                changes = worked(db, work)
                check(claim, changes)
                after = _write(db, claim, changes)
                if isinstance(after, Fenced):
                    raise after
                written = True
        except SystemNotReady as gone:
            raise Fenced(f"{_key(claim.partition)}: the store's data are gone: {gone}") from gone
        except PersistenceError as error:
            if written and isinstance(error.__cause__, sqlite3.IntegrityError):
                raise NotCommitted(str(error)) from error.__cause__
            raise
        return msgspec.structs.replace(after, store_time=self._clock())

    def transaction(self) -> AbstractContextManager[SqlSession]:
        return self._transactions.open()

    @cached_property
    def outbox(self) -> SqlOutbox:
        transactions = self._transactions
        from sluicegate.connectors.sql.outbox import SqlOutbox

        return SqlOutbox(transactions, self._options.outbox)

    @cached_property
    def _transactions(self) -> OnFile:
        """Raises ConfigurationError without SQLAlchemy."""
        try:
            from sluicegate.connectors.sql.transactions import OnFile
        except ImportError:
            raise ConfigurationError('this on SQLite needs SQLAlchemy: pip install "sluicegate[sqlite]"') from None
        return OnFile(self._database, self._clock)

    @cached_property
    def buffer(self) -> SqlBuffer:
        transactions = self._transactions
        from sluicegate.connectors.sql.buffer import SqlBuffer

        return SqlBuffer(transactions, self._options.types)

    @cached_property
    def timeouts(self) -> SqlTimeouts:
        transactions = self._transactions
        from sluicegate.connectors.sql.timeouts import SqlTimeouts

        return SqlTimeouts(transactions, self._options.timeouts)

    @cached_property
    def _worked(self) -> Callable[[sqlite3.Connection, Callable[[Any], Changes]], Changes]:
        try:
            from sluicegate.connectors.sql import lending, sqlite_unit
        except ImportError:
            raise ConfigurationError(_NO_SQLALCHEMY) from None
        lender = lending.Lender("sqlite+pysqlite://")
        return lambda db, work: sqlite_unit.worked(db, lender, work)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        with self._database.transaction(statements.BEGIN_READING) as db:
            return [_row(message) for (message,) in db.execute(statements.UNSENT, (_key(partition), after, limit))]

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        with self._database.transaction(statements.BEGIN_READING) as db:
            found = db.execute(statements.DEAD_ROWS, (_key(partition), limit))
            return [(_row(message), DeadRow(number, reason, attempts)) for number, reason, attempts, message in found]

    def acquit(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        with self._database.transaction(statements.BEGIN) as db:
            found = db.execute(statements.TRYING, (_key(partition),)).fetchone()
            if found is None:
                return
            trying = None if found[0] is None else _trying(found[0])
            left = remaining(trying, processes)
            if left != trying or found[1] == token:
                db.execute(statements.SET_TRYING, (None if left is None else _encode(left), _key(partition)))

    def read(self, partition: Partition) -> PartitionView | None:
        key = _key(partition)
        with self._database.transaction(statements.BEGIN_READING) as db:
            found = db.execute(statements.CLAIM, (key,)).fetchone()
            if found is None:
                return None
            claim = _claim(partition, found, self._clock())
            entries = [entry for (entry,) in db.execute(statements.ENTRIES, (key, claim.first, claim.last))]
            unsent = db.execute(statements.COUNT_UNSENT, (key,)).fetchone()[0]
            dead = db.execute(statements.COUNT_DEAD, (key,)).fetchone()[0]
        return PartitionView(claim, entries, unsent, dead)

    def partitions(self, app: str) -> Sequence[Partition]:
        with self._database.transaction(statements.BEGIN_READING) as db:
            return sorted(Partition(*row) for row in db.execute(statements.PARTITIONS, (app,)))

    def level(self) -> Level:
        return self._database.level()

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        if dry_run and not self._database.exists():
            return [name for name, _ in migrations.STEPS]
        if dry_run:
            with self._database.transaction(statements.BEGIN_READING) as db:
                return [name for _, name, _ in migrations.outstanding(db)]
        with self._database.transaction(statements.BEGIN, create=True) as db:
            done = migrations.apply(db, self._clock())
            db.execute(statements.NAME_DATA, (self._new_name(),))
        return done

    def close(self) -> None:
        self._database.close()


def _key(partition: Partition) -> str:
    return f"{partition.app}/{partition.agent}/{partition.topic}/{partition.number}"


def _claim(partition: Partition, row: Sequence[object], now: float) -> Claim:
    token, version, offset, epoch, number, first, last, source, trying, incarnation, member = row
    return msgspec.convert(
        {
            "partition": partition, "token": token, "version": version, "offset": offset, "epoch": epoch, "number": number,
            "first": first, "last": last, "source": None if source is None else _source(source),  # type: ignore[arg-type]
            "trying": None if trying is None else _trying(trying),  # type: ignore[arg-type]
            "incarnation": incarnation, "member": member, "store_time": now,
        },
        Claim,
    )  # fmt: skip


def _write(db: sqlite3.Connection, claim: Claim, changes: Changes) -> Claim | Fenced:
    """What a lost fence returns has changed nothing."""
    key, after = _key(claim.partition), following(claim, changes, claim.store_time)
    if not _fence(db, claim, after, changes):
        return Fenced(f"{key}: a newer claim or commit exists")
    _settle(db, key, changes)
    _append(db, claim, after, changes)
    if changes.outbox:
        db.executemany(statements.ADD_UNSENT, [(key, row.number, _encode(row)) for row in changes.outbox])
    if changes.cancels:
        db.executemany(timeout_rows.SQLITE_DROP, [(id.hex,) for id in changes.cancels])
    if changes.timeouts:
        db.executemany(timeout_rows.SQLITE_ADD, list(map(timeout_rows.values, changes.timeouts)))
    return after


def _fence(db: sqlite3.Connection, claim: Claim, after: Claim, changes: Changes) -> bool:
    trying = None if changes.trying is None else _encode(changes.trying)
    source = None if changes.source is None else _encode(changes.source)
    values = (after.version, after.offset, after.epoch, after.number, after.first, after.last, trying, source)
    fence = db.execute(statements.FENCE, (*values, _key(claim.partition), claim.token, claim.version))
    return bool(fence.rowcount == 1)


def _settle(db: sqlite3.Connection, key: str, changes: Changes) -> None:
    for dead in changes.dead:
        db.execute(statements.ADD_DEAD, (dead.reason, dead.attempts, key, dead.number))
        db.execute(statements.DROP_UNSENT, (key, dead.number, dead.number))
    if changes.dispatched:
        db.executemany(statements.DROP_UNSENT, [(key, first, last) for first, last in runs(changes.dispatched)])
    if changes.revived:
        db.executemany(statements.DROP_DEAD, [(key, first, last) for first, last in runs(changes.revived)])


def _append(db: sqlite3.Connection, claim: Claim, after: Claim, changes: Changes) -> None:
    key = _key(claim.partition)
    if changes.entries:
        entries = enumerate(changes.entries, claim.last + 1)
        db.executemany(statements.ADD_ENTRY, [(key, number, entry) for number, entry in entries])
    if after.first > claim.first:
        db.execute(statements.DROP_ENTRIES, (key, after.first))
