"""The TimeoutStore in SQL: one implementation for SQLite, PostgreSQL, MySQL and MariaDB."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Text,
    Update,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import IntegrityError

from sluicegate.connectors import scheduling
from sluicegate.connectors.outboxes import space_of
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased import timeout_rows
from sluicegate.connectors.sql.leased.leased_tables import TIMEOUT
from sluicegate.connectors.sql.leased.outbox_rows import write_rows
from sluicegate.connectors.sql.leased.transactions import TransactionRunner
from sluicegate.connectors.times import clock, length, micros, moment
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import emitted
from sluicegate.streams.contracts.options import TimeoutOptions

PAGE = 1_000  # ids in one statement

_ROW = [TIMEOUT.c[name] for name in timeout_rows.READ]
_APP = TIMEOUT.c.app == bindparam("of_app")
_FREE = TIMEOUT.c.locked_until <= bindparam("now")
_OURS = (TIMEOUT.c.locked_by == bindparam("holder"), TIMEOUT.c.locked_until > bindparam("now"))
_UNLOCKED = {"locked_until": 0, "locked_by": ""}

# A lock that ends later than a lock that begins now was made while the clock was ahead.
_LATE = TIMEOUT.c.locked_until > bindparam("latest")
_DUE = (
    select(*_ROW, TIMEOUT.c.locked_until)
    .where(_APP, TIMEOUT.c.due_at <= bindparam("now"), _FREE | _LATE)
    .order_by(TIMEOUT.c.due_at, TIMEOUT.c.id)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_NEXT = select(TIMEOUT.c.due_at).where(_APP, _FREE).order_by(TIMEOUT.c.due_at, TIMEOUT.c.id).limit(1)
_REAP = update(TIMEOUT).where(_APP, _FREE, TIMEOUT.c.locked_until > 0).values(_UNLOCKED)
_AHEAD = (
    select(TIMEOUT.c.id)
    .where(_APP, TIMEOUT.c.scheduled_at > bindparam("now"), _FREE)
    .order_by(TIMEOUT.c.scheduled_at, TIMEOUT.c.id)
    .limit(PAGE)
    .with_for_update(skip_locked=True)
)
_AHEAD_LOCKED = (
    update(TIMEOUT)
    .where(_APP, TIMEOUT.c.scheduled_at > bindparam("now"), _LATE)
    .values(locked_until=bindparam("latest"))
)
_SET_BACK = update(TIMEOUT).values(
    due_at=TIMEOUT.c.due_at - TIMEOUT.c.scheduled_at + bindparam("now"), scheduled_at=bindparam("now")
)


_KEPT = select(TIMEOUT.c.id).where(_APP, *_OURS).with_for_update()


def _among(connection: Connection, ids: Sequence[str]) -> ColumnElement[bool]:
    """The condition that a row has one of these ids. One array takes PostgreSQL half of the time of a thousand
    values."""
    if connection.dialect.name == "postgresql":
        return TIMEOUT.c.id == func.any(literal(ids, ARRAY(Text)))
    return TIMEOUT.c.id.in_(ids)


class SqlTimeouts:
    """The timeouts of `app`. Any thread may call."""

    def __init__(self, transactions: TransactionRunner, options: TimeoutOptions, app: str = "") -> None:
        self._transactions, self._options = transactions, options
        self._app, self._space = app, space_of(app)

    # -- due ---------------------------------------------------------------------------------------------------------

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        most = scheduling.check_size(self._options.batch_size if batch_size is None else batch_size)
        owner = uuid.uuid4().hex
        return self._transactions.run(lambda connection: self._lock(connection, owner, most))

    def _lock(self, connection: Connection, owner: str, most: int) -> TimeoutBatch:
        now = self._now(connection)
        until = now + length(self._options.lease)
        times = {"now": now, "latest": until, "of_app": self._app}
        connection.execute(_AHEAD_LOCKED, times)
        self._set_back(connection, now)
        due = connection.execute(_DUE, {**times, "most": most}).all()
        leased = [timeout_rows.timeout(row) for *row, locked_until in due if locked_until <= now]
        late = [row.id for row in due if row.locked_until > now]
        for page in pages(late, PAGE):
            connection.execute(update(TIMEOUT).values(locked_until=until).where(_among(connection, page)))
        lock = update(TIMEOUT).values(locked_until=until, locked_by=owner)
        for page in _id_pages(leased):
            connection.execute(lock.where(_among(connection, page)))
        return TimeoutBatch(tuple(leased), owner, moment(until) if leased else None, self._next(connection, now))

    def _set_back(self, connection: Connection, now: int) -> None:
        """Moves timeouts that were scheduled later than now: they were written while the clock was ahead, and `after`
        counts from now."""
        full = True
        while full:
            ids = connection.scalars(_AHEAD, {"now": now, "of_app": self._app}).all()
            if ids:
                connection.execute(_SET_BACK.where(_among(connection, ids)), {"now": now})
            full = len(ids) == PAGE

    def remove(self, id: UUID, owner: str | None = None) -> None:
        self._end(id, owner, delete(TIMEOUT))

    def release(self, id: UUID, owner: str | None = None) -> None:
        self._end(id, owner, update(TIMEOUT).values(_UNLOCKED))

    def _end(self, id: UUID, owner: str | None, statement: Delete | Update) -> None:
        """Run the statement on the timeout; with an owner, raises ConcurrencyError unless it holds the lease."""
        one = statement.where(*self._named(id))

        def work(connection: Connection) -> None:
            if owner is None:
                connection.execute(one)
            elif not connection.execute(one.where(*_OURS), self._ours(connection, owner)).rowcount:
                raise scheduling.lost(id)

        self._transactions.run(work)

    def _named(self, id: UUID) -> tuple[ColumnElement[bool], ...]:
        return TIMEOUT.c.id == id.hex, TIMEOUT.c.app == self._app

    def _ours(self, connection: Connection, owner: str) -> dict[str, object]:
        return {"holder": owner, "now": self._now(connection)}

    # -- emission ----------------------------------------------------------------------------------------------------

    def emit(self, batch: TimeoutBatch) -> int:
        following = scheduling.recurring(batch, self._options)

        def work(connection: Connection) -> int:
            ours = self._ours(connection, batch.owner) | {"of_app": self._app}
            kept = set[str]()
            for page in _id_pages(batch):
                kept.update(connection.scalars(_KEPT.where(_among(connection, page)), ours))
            sent = [row for row in batch if row.id.hex in kept]
            write_rows(connection, [emitted(row) for row in sent], self._transactions.now(connection), self._space)
            for page in _id_pages(sent):
                connection.execute(delete(TIMEOUT).where(_among(connection, page)))
            if again := [timeout_rows.named(row, self._app) for row in following if row.id.hex in kept]:
                connection.execute(insert(TIMEOUT), again)
            return len(sent)

        return self._transactions.run(work) if batch else 0

    def reap_stale_leases(self) -> int:
        return self._transactions.run(
            lambda connection: connection.execute(_REAP, {"now": self._now(connection), "of_app": self._app}).rowcount
        )

    def next_due(self) -> datetime | None:
        return self._transactions.run(lambda connection: self._next(connection, self._now(connection)))

    def _next(self, connection: Connection, now: int) -> datetime | None:
        first = connection.scalars(_NEXT, {"now": now, "of_app": self._app}).first()
        return None if first is None else moment(first)

    # -- scheduling --------------------------------------------------------------------------------------------------

    def insert(self, *timeouts: Timeout) -> None:
        def work(connection: Connection) -> None:
            try:
                connection.execute(insert(TIMEOUT), [timeout_rows.named(timeout, self._app) for timeout in timeouts])
            except IntegrityError as error:
                raise scheduling.id_exists(timeouts) from error.orig

        if timeouts:
            self._transactions.run(work)

    def cancel(self, id: UUID) -> bool:
        statement = delete(TIMEOUT).where(*self._named(id))
        return self._transactions.run(lambda connection: connection.execute(statement).rowcount == 1)

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        scheduling.check_zone(due_at)
        moved = {"due_at": micros(due_at), "scheduled_at": None, **_UNLOCKED}
        statement = update(TIMEOUT).where(*self._named(id)).values(moved)
        return self._transactions.run(lambda connection: connection.execute(statement).rowcount == 1)

    # -- reading -----------------------------------------------------------------------------------------------------

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        statement = select(*_ROW).where(TIMEOUT.c.app == self._app)
        statement = statement.order_by(TIMEOUT.c.due_at, TIMEOUT.c.id).limit(limit)
        for column, wanted in (("destination", destination), ("owner", owner), ("message_key", key)):
            if wanted is not None:
                statement = statement.where(TIMEOUT.c[column] == wanted)
        return self._transactions.run(
            lambda connection: [timeout_rows.timeout(row) for row in connection.execute(statement)]
        )

    def count(self) -> int:
        count = select(func.count()).select_from(TIMEOUT).where(TIMEOUT.c.app == self._app)
        return self._transactions.run(lambda connection: connection.scalars(count).one())

    def _now(self, connection: Connection) -> int:
        return clock(self._transactions.now(connection))


def _id_pages(timeouts: Sequence[Timeout]) -> Iterator[Sequence[str]]:
    return pages([timeout.id.hex for timeout in timeouts], PAGE)
