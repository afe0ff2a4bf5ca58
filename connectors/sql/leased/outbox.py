"""The outbox in SQL: one implementation for SQLite, PostgreSQL, MySQL and MariaDB."""

import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from sluicegate.connectors.outboxes import ANY_LANE, check_claim, check_states, space_of
from sluicegate.connectors.sessions import SqlSession, joined
from sluicegate.connectors.sql.leased import outbox_care, outbox_claims, outbox_lanes, outbox_marks, outbox_reading
from sluicegate.connectors.sql.leased.outbox_claims import ClaimTimes
from sluicegate.connectors.sql.leased.outbox_rows import lanes, write_rows
from sluicegate.connectors.sql.leased.transactions import TransactionRunner
from sluicegate.streams.contracts.leased import LANE_LEASE
from sluicegate.streams.contracts.leased_values import positive
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions

T = TypeVar("T")


class SqlOutbox:
    """The messages of `app`. Any thread may call. `wait` is `Waiter.wait`."""

    def __init__(
        self,
        transactions: TransactionRunner,
        options: OutboxOptions,
        app: str = "",
        wait: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        self._transactions, self._options, self._space = transactions, options, space_of(app)
        self.wait = wait

    def _run(self, work: Callable[[Connection, float], T]) -> T:
        return self._transactions.run(lambda connection: work(connection, self._transactions.now(connection)))

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        if joined(session, SqlSession, require_transaction):
            write_rows(session.connection, messages, self._transactions.now(session.connection), self._space)
        else:
            self._run(lambda connection, now: write_rows(connection, messages, now, self._space))

    def lanes(self) -> int:
        return self._transactions.run(lambda connection: lanes(connection, self._space))

    def lane_numbers(self) -> Sequence[int]:
        return self._space.numbers(self.lanes())

    def set_lanes(self, count: int) -> None:
        self._transactions.run(lambda connection: outbox_care.set_lanes(connection, self._space, count))

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        positive(lease)

        def work(connection: Connection, now: float) -> LaneBatch | None:
            check_claim(lane - self._space.base, lanes(connection, self._space), token, limit)
            times = self._times(now, lease)
            return outbox_claims.claim_lane(connection, self._space, lane, token, limit, after, times)

        return self._run(work)

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        check_claim(0, 1, token := uuid.uuid4().hex, limit)
        positive(lease)
        return self._run(
            lambda connection, now: outbox_claims.claim_any(
                connection, self._space, token, limit, self._times(now, lease)
            )
        )

    def _times(self, now: float, lease: timedelta) -> ClaimTimes:
        return ClaimTimes(now, now + lease.total_seconds(), now + self._options.backoff_most.total_seconds())

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        def marked(connection: Connection, now: float, ask: bool = False) -> None:
            outbox_marks.mark(connection, batch, outcomes, self._options, now, self._space, ask)

        try:
            self._run(marked)
        except outbox_marks.Dropped:
            self._run(lambda connection, now: marked(connection, now, ask=True))

    def release(self, batch: LaneBatch) -> None:
        def work(connection: Connection) -> None:
            if batch.lane == ANY_LANE:
                for lane, rows in outbox_marks.held_alone(connection, batch, self._space).items():
                    outbox_marks.free(connection, lane, list(rows))
            else:
                outbox_lanes.release(connection, batch.lane, batch.token)

        self._transactions.run(work)

    def pending_age(self) -> timedelta | None:
        def work(connection: Connection, now: float) -> timedelta | None:
            oldest = outbox_care.oldest(connection, self._space)
            return None if oldest is None else timedelta(seconds=max(0.0, now - oldest))

        return self._run(work)

    def count(self, state: str = "pending") -> int:
        check_states([state])
        return self._transactions.run(lambda connection: outbox_care.count(connection, self._space, state))

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        age = older_than.total_seconds()
        return self._run(lambda connection, now: outbox_care.sweep(connection, self._space, now - age, limit))

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        check_states([] if state is None else [state])
        return self._transactions.run(
            lambda connection: outbox_reading.find(connection, self._space, state, topic, limit)
        )

    def get(self, id: str) -> StoredMessage | None:
        return self._transactions.run(lambda connection: outbox_reading.get(connection, self._space, id))

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        return self._transactions.run(lambda connection: outbox_reading.attempts_of(connection, self._space, id))

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        return self._transactions.run(lambda connection: outbox_care.requeue(connection, self._space, ids))

    def drop(self, ids: Sequence[str]) -> int:
        return self._transactions.run(lambda connection: outbox_care.drop(connection, self._space, ids))
