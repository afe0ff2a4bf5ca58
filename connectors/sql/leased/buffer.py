"""The aggregator buffer in SQL: one implementation for SQLite, PostgreSQL, MySQL and MariaDB.

Every writer first locks the row of the buffer's name: so rows are numbered in the order of commits, and two writers
never deadlock.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, Select, case, delete, func, select, update

from sluicegate.connectors import buffers
from sluicegate.connectors.buffers import BufferCalls
from sluicegate.connectors.outboxes import space_of
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased import buffer_early, buffer_rows, buffer_seals
from sluicegate.connectors.sql.leased.buffer_rows import PAGE, READ, SNAPSHOT, Condition, Locked, read
from sluicegate.connectors.sql.leased.leased_tables import (
    BUFFER_DEADLINE,
    BUFFER_EARLY,
    BUFFER_HOLD,
    BUFFER_POSITION,
    BUFFER_ROW,
)
from sluicegate.connectors.sql.leased.outbox_rows import write_rows
from sluicegate.connectors.sql.leased.transactions import TransactionRunner
from sluicegate.connectors.times import clock, length, moment
from sluicegate.streams.contracts.leased import LEASE, NOT_KEPT
from sluicegate.streams.contracts.leased_values import (
    EMPTY,
    EarlyState,
    Entry,
    Filled,
    Gate,
    InsertResult,
    OpenBatch,
    PositionMove,
    SealedBatch,
    Snapshot,
    Types,
    positive,
)
from sluicegate.streams.contracts.messages import OutboxMessage

T = TypeVar("T")

_ROW, _HOLD = BUFFER_ROW.c, BUFFER_HOLD.c


class SqlBuffer(BufferCalls):
    """The buffers of a database. Messages are written for `app`."""

    at_once = 1_000

    def __init__(self, transactions: TransactionRunner, types: Types | None, app: str = "") -> None:
        self._transactions, self._types = transactions, types
        self._space = space_of(app)

    def _changed(self, name: str, nothing: T, work: Callable[[Locked], T], taking: bool = True) -> T:
        """Run `work` with the name locked; returns `nothing` when the name is unknown."""

        def locked(connection: Connection) -> T:
            at = buffer_rows.locked(connection, lambda: self._now(connection), name, taking)
            return nothing if at is None else work(at)

        return self._transactions.run(locked)

    def _now(self, connection: Connection) -> int:
        return clock(self._transactions.now(connection))

    # -- intake ------------------------------------------------------------------------------------------------------

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate | None,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        def work(connection: Connection) -> Filled:
            at = buffer_rows.locked_or_added(connection, lambda: self._now(connection), name, taking=gate is not None)
            if progress is not None:
                buffer_rows.move(at, progress)
            if keep_keys or at.keep:
                buffer_rows.forget(at, length(keep_keys))
            new = buffer_rows.add(at, entries, length(keep_keys))
            result = InsertResult(len(new), len(entries) - len(new))
            if gate is None:
                return Filled(result, [])
            touched = list(dict.fromkeys(entry.group for entry in entries))
            holds = buffer_seals.seal_full(at, touched, new, gate, self._types)
            return Filled(result, self._handed_out(at, holds, gate))

        return self._transactions.run(work)

    def _handed_out(self, at: Locked, holds: Sequence[buffer_seals.Hold], gate: Gate) -> Sequence[SealedBatch]:
        return buffer_seals.handed_out(at, holds, gate, self._types)

    def complete_all(self, name: str, ends: Sequence[buffers.End]) -> Sequence[bool]:
        def together(some: Sequence[buffers.End]) -> Sequence[bool]:
            nothing = [False] * len(some)
            return self._changed(name, nothing, lambda at: buffer_seals.complete(at, some, self._space), taking=False)

        return buffers.complete_together(together, ends)

    def position(self, name: str, topic_id: str, partition: int) -> int:
        mark = BUFFER_POSITION.c
        place = mark.name == name, mark.topic_id == topic_id, mark.partition_number == partition
        query = select(mark.next_offset).where(*place)
        return self._transactions.run(lambda connection: connection.scalars(query).first()) or 0

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        positive(lease)
        buffers.at_least_one(limit)
        return self._changed(name, EMPTY, lambda at: self._snapshot(at, limit, lease))

    def _snapshot(self, at: Locked, limit: int | None, lease: timedelta) -> Snapshot:
        buffer_rows.set_leases_back(at)
        free = at.rows(_ROW.holder.in_(at.free))
        rows = at.connection.execute(select(*READ).where(*free).order_by(_ROW.number).limit(limit)).all()
        others, following = _elsewhere(at)
        elsewhere = others, None if following is None else moment(following)
        if not rows:
            return Snapshot((), (), 0, "", None, *elsewhere) if others else EMPTY
        token, until = uuid.uuid4().hex, at.now + length(lease)
        at.connection.execute(update(BUFFER_ROW).where(*free, _ROW.number <= rows[-1].number).values(holder=token))
        buffer_rows.add_holds(at, [(token, SNAPSHOT, "", rows[0].number, token, until, 1, at.now, None, None)])
        _end(at, at.free[1:])
        return Snapshot(*buffer_rows.decoded(rows, self._types), token, moment(until), *elsewhere)

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        def work(at: Locked) -> int:
            groups = buffer_rows.groups(at, _ROW.holder == snapshot.token)
            ours: Condition = _ROW.holder == snapshot.token
            wanted = pages(list(map(int, snapshot.ids)), PAGE)
            dropped = sum(buffer_rows.drop(at, ours, _ROW.number.in_(page)) for page in wanted)
            if outbox and snapshot.ids:
                if dropped < len(snapshot.ids):
                    raise buffers.lease_lost(name, "snapshot")
                write_rows(at.connection, outbox, self._transactions.now(at.connection), self._space)
            _free(at, snapshot.token)
            buffer_seals.clear_deadlines(at, groups)
            return dropped

        if not snapshot.token:
            return 0
        return self._changed(name, 0, work)

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        return self._changed(name, 0, lambda at: _free(at, snapshot.token)) if snapshot.token else 0

    # -- batches -----------------------------------------------------------------------------------------------------

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        def work(at: Locked) -> Sequence[SealedBatch]:
            buffer_rows.set_leases_back(at)
            buffer_seals.set_deadlines_back(at, gate)
            holds = buffer_seals.abandoned(at, limit)
            if len(holds) < limit:
                holds += buffer_seals.seal_overdue(at, gate, self._types, limit - len(holds))
            return self._handed_out(at, holds, gate)

        return self._changed(name, [], work)

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        def work(at: Locked) -> SealedBatch | None:
            holds = buffer_seals.seal_group(at, group, gate, self._types)
            return next(iter(self._handed_out(at, holds, gate)), None)

        return self._changed(name, None, work)

    def early(self, name: str, gate: Gate, limit: int = 100) -> Sequence[OpenBatch]:
        def work(at: Locked) -> Sequence[OpenBatch]:
            return buffer_early.lease_due(at, gate, self._types, limit)

        return self._changed(name, [], work)

    def complete_early(self, name: str, gate: Gate, ends: Sequence[buffers.EarlyEnd]) -> Sequence[bool]:
        nothing = [False] * len(ends)
        return self._changed(name, nothing, lambda at: buffer_early.complete(at, gate, ends, self._space))

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        ours: Condition = _HOLD.token == batch.token
        free = {"token": "", "leased_until": 0, "attempts": batch.attempts if attempts is None else attempts}
        statement = update(BUFFER_HOLD).where(_HOLD.name == name, _HOLD.id == batch.id, ours).values(free)
        return (
            bool(batch.token) and self._transactions.run(lambda connection: connection.execute(statement).rowcount) == 1
        )

    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        positive(lease)

        def work(at: Locked) -> datetime | None:
            until = at.now + length(lease)
            ours = at.holds(_HOLD.token == token, _HOLD.leased_until > at.now)
            changed = {"leased_at": at.now, "leased_until": until} | (
                {} if attempts is None else {"attempts": attempts}
            )
            renewed = at.connection.execute(update(BUFFER_HOLD).where(*ours).values(changed)).rowcount
            return moment(until) if renewed else None

        until = self._changed(name, None, work, taking=False) if token else None
        if until is None:
            raise buffers.lease_lost(name, "lease")
        return until

    def renew_all(self, name: str, tokens: Sequence[str], lease: timedelta = LEASE) -> Sequence[bool]:
        positive(lease)

        def work(at: Locked) -> set[str]:
            ours = at.holds(_HOLD.token.in_(tokens), _HOLD.leased_until > at.now)
            renewed = set(at.connection.execute(select(_HOLD.token).where(*ours)).scalars())
            lasting = {"leased_at": at.now, "leased_until": at.now + length(lease)}
            at.connection.execute(update(BUFFER_HOLD).where(*ours).values(lasting))
            return renewed

        nothing: set[str] = set()
        renewed = self._changed(name, nothing, work, taking=False)
        return [token in renewed for token in tokens]

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_data(self, name: str) -> Sequence[Entry]:
        entries = self._transactions.run(lambda connection: [read(row) for row in connection.execute(_page(name, -1))])
        return list(buffers.decoded((("", entry) for entry in entries), self._types).entries)

    def count(self, name: str) -> int:
        return self._count(name)

    def count_resolved(self, name: str) -> int:
        if self._types is not None and not self._types:
            return 0
        return self._count(name, *buffer_rows.resolvable(self._types))

    def early_states(self, name: str) -> Mapping[str, EarlyState]:
        return self._transactions.run(lambda connection: buffer_early.states(connection, name))

    def _count(self, name: str, *conditions: Condition) -> int:
        return self._transactions.run(lambda connection: _counted(connection, name, *conditions))

    # -- care --------------------------------------------------------------------------------------------------------

    def iter_raw(self, name: str) -> Iterator[Entry]:
        last = -1
        while page := self._transactions.run(partial(_thousand_after, name, last)):
            yield from map(read, page)
            last = page[-1].number

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        def work(at: Locked) -> bool:
            named = at.rows(_ROW.correlation_id == correlation_id)
            oldest = select(_ROW.number, _ROW.holder, _ROW.group_name).where(*named).order_by(_ROW.number).limit(1)
            row = at.connection.execute(oldest).first()
            if row is None:
                raise buffers.not_found(name, correlation_id, _counted(at.connection, name))
            if row.holder not in at.free and not force:
                raise buffers.row_leased(name, correlation_id)
            buffer_rows.drop(at, _ROW.number == row.number)
            if row.holder:
                _end(at, [row.holder])
            buffer_seals.clear_deadlines(at, [row.group_name])
            return True

        if not self._changed(name, False, work):
            raise buffers.not_found(name, correlation_id, 0)

    def remove_all(self, name: str) -> int:
        def work(at: Locked) -> int:
            for table in (BUFFER_HOLD, BUFFER_DEADLINE, BUFFER_EARLY):
                at.connection.execute(delete(table).where(table.c.name == name))
            return buffer_rows.drop(at)

        return self._changed(name, 0, work)


def _page(name: str, after: int) -> Select[Any]:
    return select(*READ).where(_ROW.name == name, _ROW.number > after).order_by(_ROW.number)


def _thousand_after(name: str, after: int, connection: Connection) -> Sequence[Row[Any]]:
    return connection.execute(_page(name, after).limit(1000)).all()


def _counted(connection: Connection, name: str, *conditions: Condition) -> int:
    return connection.scalars(select(func.count()).select_from(BUFFER_ROW).where(_ROW.name == name, *conditions)).one()


def _elsewhere(at: Locked) -> tuple[int, int | None]:
    """The number of leased rows, and the end of the first of these leases."""
    live = func.min(case((_HOLD.leased_until > at.now, _HOLD.leased_until)))
    leased = select(func.count(), live).select_from(
        BUFFER_ROW.join(BUFFER_HOLD, (_HOLD.name == _ROW.name) & (_HOLD.id == _ROW.holder))
    )
    count, following = at.connection.execute(leased.where(*at.rows(_ROW.holder.not_in(at.free)))).one()
    return count, following


def _free(at: Locked, token: str) -> int:
    """Free the rows of the token and end its snapshot; returns how many rows."""
    freed = at.connection.execute(update(BUFFER_ROW).where(*at.rows(_ROW.holder == token)).values(holder="")).rowcount
    at.connection.execute(delete(BUFFER_HOLD).where(*at.holds(_HOLD.id == token, _HOLD.reason == SNAPSHOT)))
    return freed


def _end(at: Locked, holders: Sequence[str]) -> None:
    """Delete each of these holders that has no rows left."""
    remaining = select(_ROW.number).where(*at.rows(_ROW.holder == _HOLD.id)).exists()
    if holders:
        at.connection.execute(delete(BUFFER_HOLD).where(*at.holds(_HOLD.id.in_(holders), ~remaining)))
