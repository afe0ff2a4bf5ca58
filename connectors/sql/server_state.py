"""The store in PostgreSQL, MySQL or MariaDB: one transaction per commit, fenced by the row count of its first statement."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from operator import itemgetter
from typing import Any

import msgspec

from sluicegate.connectors.commits import alone, check, following, remaining, runs
from sluicegate.connectors.sessions import SqlSession, unchanged
from sluicegate.connectors.sql import steps, texts, timeout_rows
from sluicegate.connectors.sql.buffer import SqlBuffer
from sluicegate.connectors.sql.outbox import SqlOutbox
from sluicegate.connectors.sql.server import Product, Server, Session
from sluicegate.connectors.sql.timeouts import SqlTimeouts
from sluicegate.connectors.sql.transactions import OnServer
from sluicegate.connectors.sql.units import unit
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError, SystemNotReady
from sluicegate.streams.leased.options import STANDARD, LeasedOptions
from sluicegate.streams.values import Changes, Claim, DeadRow, Level, OutboxRow, Partition, PartitionView, Source, Trying

_PAGE = 16
_RUNS = 50

_encode = msgspec.msgpack.Encoder().encode
_row = msgspec.msgpack.Decoder(OutboxRow).decode
_source = msgspec.msgpack.Decoder(Source).decode
_trying = msgspec.msgpack.Decoder(Trying).decode


class ServerStore:
    """One database; any thread may call. Times are the server's. `new_name` gives a random name for new data."""

    def __init__(self, product: Product, new_name: Callable[[], str] = lambda: uuid.uuid4().hex, options: LeasedOptions = STANDARD) -> None:
        self._options = options
        self._server = Server(product)
        self._transactions = OnServer(self._server)
        self._waiter = product.waiter()
        self._product = product
        self._new_name = new_name

    @property
    def incarnation(self) -> str:
        """Raises SystemNotReady before the first `migrate`."""
        found = self._server.run(lambda db: db.rows(texts.INCARNATION))
        if not found:
            raise SystemNotReady("the store's data have no name yet: run `sluicegate migrate`")
        return _text(found[0][0])

    @cached_property
    def _transactions(self) -> OnServer:
        return OnServer(self._server)

    @cached_property
    def buffer(self) -> SqlBuffer:
        return SqlBuffer(self._transactions, self._options.types)

    @cached_property
    def timeouts(self) -> SqlTimeouts:
        return SqlTimeouts(self._transactions, self._options.timeouts)

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        key = _key(partition)

        def work(db: Session) -> Claim:
            taken = token, member.encode(), key
            db.rows(texts.INCARNATION) or db.run(self._product.if_absent(texts.NAME_DATA), (self._new_name(),))
            if not db.rows(texts.CLAIM, (key,)):
                db.run(self._product.if_absent(texts.ADD_CLAIM), (key, *partition))
            db.run(texts.TAKE_CLAIM, taken)
            return _claim(partition, db.rows(texts.CLAIM, (key,))[0], self._now(db))

        return self._server.run(work, self._product.begin)

    def restore(self, claim: Claim) -> Iterator[bytes]:
        for first in range(claim.first, claim.last + 1, _PAGE):
            values = _key(claim.partition), first, min(first + _PAGE - 1, claim.last)
            for (entry,) in self._server.run(lambda db, values=values: db.rows(texts.ENTRIES, values)):  # type: ignore[misc]
                yield entry

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        return alone(self.commit_all, claim, changes)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        for claim, changes in commits:
            check(claim, changes)
        try:
            return self._server.run(lambda db: self._write(db, commits), self._product.begin)
        except PersistenceError as error:
            return [error] * len(commits)
        except SystemNotReady as gone:
            return [Fenced(f"{_key(claim.partition)}: the store's data are gone: {gone}") for claim, _ in commits]

    def _write(self, db: Session, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        afters = [following(claim, changes, claim.store_time) for claim, changes in commits]
        # In one order everywhere, so that two workers with the same partitions do not wait for each other.
        fences = {key: db.run(texts.FENCE, values) for key, values in sorted(map(_fence, commits, afters))}
        now = self._now(db)  # with PostgreSQL the row counts are not known before
        results: list[Claim | SluicegateError] = []
        for (claim, changes), after in zip(commits, afters, strict=True):
            key = _key(claim.partition)
            if fences[key].rowcount == 0:
                results.append(Fenced(f"{key}: a newer claim or commit exists"))
                continue
            self._settle(db, key, changes)
            self._append(db, claim, after, changes)
            self._schedule(db, changes)
            results.append(msgspec.structs.replace(after, store_time=now))
        return results

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        return unchanged(lambda: self._unit(claim, work))

    def _unit(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        try:
            return unit(self._server, lambda db: self._hold(db, claim), work, lambda db, changes: self._write_alone(db, claim, changes))
        except PersistenceError:
            raise
        except SystemNotReady as gone:
            raise Fenced(f"{_key(claim.partition)}: the store's data are gone: {gone}") from gone

    def transaction(self) -> AbstractContextManager[SqlSession]:
        return self._transactions.open()

    @cached_property
    def outbox(self) -> SqlOutbox:
        return SqlOutbox(self._transactions, self._options.outbox, self._waiter.wait)

    def _hold(self, db: Session, claim: Claim) -> None:
        """Nobody claims or commits until our transaction ends."""
        if not db.rows(texts.HELD, (_key(claim.partition), claim.token, claim.version)):
            raise Fenced(f"{_key(claim.partition)}: a newer claim or commit exists")

    def _write_alone(self, db: Session, claim: Claim, changes: Changes) -> Claim:
        check(claim, changes)
        return alone(lambda commits: self._write(db, commits), claim, changes)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        found = self._server.run(lambda db: db.rows(texts.UNSENT, (_key(partition), after, limit)))
        return [_row(message) for (message,) in found]

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        found = self._server.run(lambda db: db.rows(texts.DEAD_ROWS, (_key(partition), limit)))
        return [(_row(message), DeadRow(number, bytes(reason).decode(), attempts)) for number, reason, attempts, message in found]

    def acquit(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        key = _key(partition)

        def work(db: Session) -> None:
            for mark, owner in db.rows(texts.TRYING, (key,)):
                trying = None if mark is None else _trying(mark)
                left = remaining(trying, processes)
                if left != trying or _text(owner) == token:
                    db.run(texts.SET_TRYING, (None if left is None else _encode(left), key))

        self._server.run(work, self._product.begin)

    def read(self, partition: Partition) -> PartitionView | None:
        key = _key(partition)

        def work(db: Session) -> PartitionView | None:
            found = db.rows(texts.CLAIM, (key,))
            if not found:
                return None
            claim = _claim(partition, found[0], self._now(db))
            entries = [entry for (entry,) in db.rows(texts.ENTRIES, (key, claim.first, claim.last))]
            return PartitionView(claim, entries, db.rows(texts.COUNT_UNSENT, (key,))[0][0], db.rows(texts.COUNT_DEAD, (key,))[0][0])

        return self._server.run(work, self._product.begin_reading)

    def partitions(self, app: str) -> Sequence[Partition]:
        found = self._server.run(lambda db: db.rows(texts.PARTITIONS, (app,)))
        return sorted(Partition(_text(name), _text(agent), _text(topic), number) for name, agent, topic, number in found)

    def level(self) -> Level:
        return self._server.run(self._product.level)

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        if dry_run:
            return steps.names(self._server.run(lambda db: steps.outstanding(self._server, db)))
        return steps.apply(self._server, self._new_name())

    def close(self) -> None:
        self._waiter.close()
        self._server.close()

    def _now(self, db: Session) -> float:
        return float(db.rows(self._product.now)[0][0])

    def _settle(self, db: Session, key: str, changes: Changes) -> None:
        for dead in changes.dead:
            db.run(texts.ADD_DEAD, (dead.reason.encode(), dead.attempts, key, dead.number))
        gone = runs(changes.dispatched) + [(dead.number, dead.number) for dead in changes.dead]
        for at in range(0, len(gone), _RUNS):
            page = gone[at : at + _RUNS]
            db.run(texts.dropping(len(page)), (key, *(number for run in page for number in run)))

        for first, last in runs(changes.revived):
            db.run(texts.DROP_DEAD, (key, first, last))

    def _append(self, db: Session, claim: Claim, after: Claim, changes: Changes) -> None:
        key = _key(claim.partition)
        entries = list(enumerate(changes.entries, claim.last + 1))
        rows = [(row.number, _encode(row)) for row in changes.outbox]
        for table, column, values in (("sluicegate_changelog", "entry", entries), ("sluicegate_outbox", "message", rows)):
            for text, arguments in self._product.bulk(table, column, key, values):
                db.run(text, arguments)
        if after.first > claim.first:
            db.run(texts.DROP_ENTRIES, (key, after.first))

    def _schedule(self, db: Session, changes: Changes) -> None:
        """In the order of ids, so that two workers do not wait for each other."""
        cancels = sorted(id.hex for id in changes.cancels)
        timeouts = sorted(map(timeout_rows.values, changes.timeouts), key=itemgetter(0))
        for at in range(0, len(cancels), timeout_rows.PAGE):
            page = cancels[at : at + timeout_rows.PAGE]
            db.run(timeout_rows.dropping(len(page)), page)
        for at in range(0, len(timeouts), timeout_rows.PAGE):
            rows = timeouts[at : at + timeout_rows.PAGE]
            db.run(self._product.if_absent(timeout_rows.adding(len(rows))), [value for row in rows for value in row])


def _key(partition: Partition) -> str:
    return f"{partition.app}/{partition.agent}/{partition.topic}/{partition.number}"


def _text(value: str | bytes) -> str:
    """MySQL's names are bytes."""
    return value if isinstance(value, str) else value.decode()


def _claim(partition: Partition, row: Sequence[Any], now: float) -> Claim:
    token, version, offset, epoch, number, first, last, source, trying, incarnation, member = row
    return Claim(
        partition, _text(token), version, offset, epoch, number, first, last,
        source=None if source is None else _source(source), trying=None if trying is None else _trying(trying),
        incarnation=_text(incarnation), member=member.decode(), store_time=now,
    )  # fmt: skip


def _fence(commit: tuple[Claim, Changes], after: Claim) -> tuple[str, Sequence[object]]:
    claim, changes = commit
    key = _key(claim.partition)
    trying = None if changes.trying is None else _encode(changes.trying)
    source = None if changes.source is None else _encode(changes.source)
    values = (after.version, after.offset, after.epoch, after.number, after.first, after.last, trying, source)
    return key, (*values, key, claim.token, claim.version)
