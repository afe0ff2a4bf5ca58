"""The store in SQL: each commit is one transaction, which the row count of its first statement fences."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from sluicegate.connectors.apps import outbox_of, timeouts_of
from sluicegate.connectors.commits import check, commit_one, next_claim, remaining_mark, runs
from sluicegate.connectors.sessions import SqlSession, unchanged
from sluicegate.connectors.sql import statements, steps, units
from sluicegate.connectors.sql.database import Database, Product, StoreSession, pages
from sluicegate.connectors.sql.leased import timeout_rows
from sluicegate.connectors.sql.lookups import SqlLookups
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.leased import OutboxStore, TimeoutStore
from sluicegate.streams.contracts.options import STANDARD, LeasedOptions
from sluicegate.streams.contracts.stores import LookupKey, RowFields
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    CrashMark,
    DeadRow,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
    Source,
)
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError, SystemNotReady

if TYPE_CHECKING:
    from sluicegate.connectors.sql.leased.buffer import SqlBuffer
    from sluicegate.connectors.sql.leased.transactions import TransactionRunner

_PAGE = 16

_encode = msgspec.msgpack.Encoder().encode
_row = msgspec.msgpack.Decoder(OutboxRow).decode
_source = msgspec.msgpack.Decoder(Source).decode
_trying = msgspec.msgpack.Decoder(CrashMark).decode


class SqlStore:
    """One database; any thread may call. Times are the product's.

    `buffer`, `timeouts`, `outbox` and sessions use SQLAlchemy and are imported when they are used: commits on SQLite
    need only the standard library.
    """

    def __init__(self, product: Product, options: LeasedOptions = STANDARD) -> None:
        self._options = options
        self._database = Database(product)
        self._waiter = product.waiter()
        self._product = product

    @property
    def incarnation(self) -> str:
        """Raises SystemNotReady before the first `migrate`."""
        rows = self._database.ask(statements.INCARNATION)
        if not rows:
            raise SystemNotReady("the store's data have no name yet: run `sluicegate migrate`")
        return _text(rows[0][0])

    @cached_property
    def _transactions(self) -> "TransactionRunner":
        _ = self._product.lender
        from sluicegate.connectors.sql.leased.transactions import TransactionRunner

        return TransactionRunner(self._database)

    @cached_property
    def buffer(self) -> "SqlBuffer":
        transactions = self._transactions
        from sluicegate.connectors.sql.leased.buffer import SqlBuffer

        return SqlBuffer(transactions, self._options.types, self._options.app)

    @cached_property
    def timeouts(self) -> TimeoutStore:
        transactions, options = self._transactions, self._options
        from sluicegate.connectors.sql.leased.timeouts import SqlTimeouts

        return timeouts_of(options.app, lambda app: SqlTimeouts(transactions, options.timeouts, app))

    @cached_property
    def outbox(self) -> OutboxStore:
        transactions, options, wait = self._transactions, self._options, self._waiter.wait
        from sluicegate.connectors.sql.leased.outbox import SqlOutbox

        return outbox_of(options.app, lambda app: SqlOutbox(transactions, options.outbox, app, wait))

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        key = _key(partition)

        def work(db: StoreSession) -> Claim:
            if not db.rows(statements.INCARNATION):
                db.run(self._product.if_absent(statements.NAME_DATA), (uuid.uuid4().hex,))
            if not (before := db.rows(statements.CLAIM, (key,))):
                db.run(self._product.if_absent(statements.ADD_CLAIM), (key, *partition))
            db.run(statements.TAKE_CLAIM, (token, self._product.prose(member), key))
            claim = _claim(partition, db.rows(statements.CLAIM, (key,))[0], self._product.now(db.rows))
            return msgspec.structs.replace(claim, previous=_previous(before))

        return self._database.run(work, self._product.begin)

    def restore(self, claim: Claim) -> Iterator[bytes]:
        for first in range(claim.first, claim.last + 1, _PAGE):
            values = _key(claim.partition), first, min(first + _PAGE - 1, claim.last)
            for (entry,) in self._database.ask(statements.ENTRIES, values):
                yield entry

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        return commit_one(self.commit_all, claim, changes)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        for claim, changes in commits:
            check(claim, changes)
        try:
            return self._database.run(lambda db: self._write(db, commits), self._product.begin)
        except PersistenceError as error:
            return [error] * len(commits)
        except SystemNotReady as error:
            return [_gone(claim, error) for claim, _ in commits]

    def _write(self, db: StoreSession, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        afters = [next_claim(claim, changes, claim.store_time) for claim, changes in commits]
        # In the order of keys, so that two workers with the same partitions do not deadlock.
        fences = {key: db.run(statements.FENCE, values) for key, values in sorted(map(_fence_values, commits, afters))}
        now = self._product.now(db.rows)  # PostgreSQL's row counts are known only after these rows
        results: list[Claim | SluicegateError] = []
        for (claim, changes), after in zip(commits, afters, strict=True):
            key = _key(claim.partition)
            if fences[key].rowcount == 0:
                results.append(_fenced(claim))
                continue
            for dead in changes.dead:
                db.run(statements.ADD_DEAD, (self._product.prose(dead.reason), dead.attempts, key, dead.number))
            gone = runs(changes.dispatched) + [(dead.number, dead.number) for dead in changes.dead]
            if gone:
                self._product.drop_unsent(db, key, gone)
            for first, last in runs(changes.revived):
                db.run(statements.DROP_DEAD, (key, first, last))
            self._append(db, claim, after, changes)
            # in the order of ids, so that two workers do not deadlock
            for cancels in pages(sorted(id.hex for id in changes.cancels), timeout_rows.PAGE):
                db.run(timeout_rows.dropping(len(cancels)), (self._options.app, *cancels))
            rows = sorted(
                (timeout_rows.values(timeout, self._options.app) for timeout in changes.timeouts), key=itemgetter(0)
            )
            for timeouts in pages(rows, timeout_rows.PAGE):
                self._product.add_missing(db, timeout_rows.ADD, timeouts)
            results.append(msgspec.structs.replace(after, store_time=now))
        return results

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        def hold(db: StoreSession) -> None:
            """Locks the claim row, so no one else claims or commits until this transaction ends."""
            statement = statements.HELD + self._product.locking
            if not db.rows(statement, (_key(claim.partition), claim.token, claim.version)):
                raise _fenced(claim)

        def write(db: StoreSession, changes: Changes) -> Claim:
            check(claim, changes)
            return commit_one(lambda commits: self._write(db, commits), claim, changes)

        def committed() -> Claim:
            try:
                return units.unit(self._database, hold, work, write)
            except PersistenceError:
                raise
            except SystemNotReady as error:
                raise _gone(claim, error) from error

        return unchanged(committed)

    @cached_property
    def _lookups(self) -> SqlLookups:
        return SqlLookups(self._product)

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        return self._lookups.look_up(session, lookup, keys)

    def transaction(self) -> AbstractContextManager[SqlSession]:
        return self._transactions.open()

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        with self._database.translated():
            rows = self._database.ask(statements.UNSENT, (_key(partition), after, limit))
            return [_row(message) for (message,) in rows]

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        with self._database.translated():
            rows = self._database.ask(statements.DEAD_ROWS, (_key(partition), limit))
            return [
                (_row(message), DeadRow(number, _text(reason), attempts)) for number, reason, attempts, message in rows
            ]

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        key = _key(partition)

        def work(db: StoreSession) -> list[ColdGroup]:
            return [ColdGroup._make(row) for row in self._product.cold(db, key, keys)]

        return self._database.run(work)

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        rows = self._database.ask(statements.DUE_COLD, (_key(partition), until, limit))
        return [ColdGroup._make(row) for row in rows]

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        key = _key(partition)
        text, values = (
            (statements.FIRST_COLD, (key, limit)) if after is None else (statements.COLD_PAGE, (key, after, limit))
        )
        return [ColdGroup._make(row) for row in self._database.ask(text, values)]

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        rows = self._database.ask(statements.COLD_BEFORE, (_key(partition), key, limit))
        return [ColdGroup._make(row) for row in rows]

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        key = _key(partition)

        def work(db: StoreSession) -> None:
            for mark, owner in db.rows(statements.TRYING + self._product.locking, (key,)):
                trying = None if mark is None else _trying(mark)
                rest = remaining_mark(trying, processes)
                if rest != trying or _text(owner) == token:
                    db.run(statements.SET_TRYING, (None if rest is None else _encode(rest), key))

        self._database.run(work, self._product.begin)

    def forget(self, claim: Claim) -> None:
        key = _key(claim.partition)

        def work(db: StoreSession) -> bool:
            if not db.rows(statements.HELD + self._product.locking, (key, claim.token, claim.version)):
                return False
            for delete in statements.FORGET:
                db.run(delete, (key,))
            return True

        if not self._database.run(work, self._product.begin):
            raise _fenced(claim)

    def read(self, partition: Partition) -> PartitionView | None:
        key = _key(partition)

        def work(db: StoreSession) -> PartitionView | None:
            rows = db.rows(statements.CLAIM, (key,))
            if not rows:
                return None
            claim = _claim(partition, rows[0], self._product.now(db.rows))
            entries = [entry for (entry,) in db.rows(statements.ENTRIES, (key, claim.first, claim.last))]
            counts = (db.rows(count, (key,))[0][0] for count in (statements.COUNT_UNSENT, statements.COUNT_DEAD))
            return PartitionView(claim, entries, *counts)

        return self._database.run(work, self._product.begin_reading)

    def partitions(self, app: str) -> Sequence[Partition]:
        rows = self._database.ask(statements.PARTITIONS, (app,))
        return sorted(Partition(_text(name), _text(agent), _text(topic), number) for name, agent, topic, number in rows)

    def apps(self) -> Sequence[str]:
        return sorted(_text(name) for (name,) in self._database.ask(statements.APPS))

    def level(self) -> Level:
        return self._product.level(self._database.ask)

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        return steps.planned(self._database) if dry_run else steps.apply(self._database)

    def close(self) -> None:
        self._waiter.close()
        self._database.close()

    def _append(self, db: StoreSession, claim: Claim, after: Claim, changes: Changes) -> None:
        key = _key(claim.partition)
        entries = [(key, number, entry) for number, entry in enumerate(changes.entries, claim.last + 1)]
        rows = [(key, row.number, _encode(row)) for row in changes.outbox]
        for insert, values in ((statements.ADD_ENTRY, entries), (statements.ADD_UNSENT, rows)):
            if values:
                self._product.add_rows(db, insert, values)
        if after.first > claim.first:
            db.run(statements.DROP_ENTRIES, (key, after.first))
        if changes.drop_cold:
            self._product.drop_cold(db, key, changes.drop_cold)
        if changes.drop_due:
            self._product.drop_due(db, key, changes.drop_due)
        if changes.put_cold:
            self._product.put_cold(db, key, changes.put_cold)


def _key(partition: Partition) -> str:
    return f"{partition.app}/{partition.agent}/{partition.topic}/{partition.number}"


def _fenced(claim: Claim) -> Fenced:
    return Fenced(f"{_key(claim.partition)}: a newer claim or commit exists")


def _gone(claim: Claim, error: SystemNotReady) -> Fenced:
    return Fenced(f"{_key(claim.partition)}: the store's data are gone: {error}")


def _text(value: str | bytes) -> str:
    """The text of a value. MySQL stores names as bytes; all servers store free text as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _claim(partition: Partition, row: Sequence[Any], now: float) -> Claim:
    """The claim of a row of `statements.CLAIM`, which has the fields in the order of Claim. Raises msgspec.MsgspecError
    for a value of another type: SQLite's columns take any."""
    fields: dict[str, Any] = dict(zip(Claim.__struct_fields__[:-1], (partition, *row, now), strict=True))
    fields |= {name: _text(fields[name]) for name in ("token", "incarnation", "member")}
    fields["source"] = None if fields["source"] is None else _source(fields["source"])
    fields["trying"] = None if fields["trying"] is None else _trying(fields["trying"])
    return msgspec.convert(fields, Claim)


def _previous(rows: Sequence[Sequence[Any]]) -> str:
    """The token of the worker that has not released the partition, in a row of `statements.CLAIM`; empty: there is
    none."""
    return _text(rows[0][0]) if rows and _text(rows[0][-1]) else ""


def _fence_values(commit: tuple[Claim, Changes], after: Claim) -> tuple[str, Sequence[object]]:
    claim, changes = commit
    key = _key(claim.partition)
    trying = None if changes.trying is None else _encode(changes.trying)
    source = None if changes.source is None else _encode(changes.source)
    values = (after.version, after.offset, after.epoch, after.number, after.first, after.last, trying, source)
    return key, (*values, key, claim.token, claim.version)
