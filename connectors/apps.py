"""The timeouts and messages of one app in a store that several apps share: the app's own ones, and those without an
app.

A program that opens the store without an app writes timeouts and messages without an app. Earlier versions of this
program did so, too. Every app reads, sends and changes them. Leases and lanes keep two apps from sending the same one.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sluicegate.connectors.outboxes import ANY_LANE
from sluicegate.streams.contracts.lanes import MOST_LANES
from sluicegate.streams.contracts.leased import LANE_LEASE, OutboxStore, TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.errors import ConcurrencyError


def timeouts_of(app: str, open_one: Callable[[str], TimeoutStore]) -> TimeoutStore:
    """The timeouts of `app` together with the timeouts without an app. `open_one` opens the timeouts of one app."""
    return AppTimeouts(open_one(app), open_one("")) if app else open_one("")


def outbox_of(app: str, open_one: Callable[[str], OutboxStore]) -> OutboxStore:
    """The outbox of `app` together with the outbox without an app. `open_one` opens the outbox of one app."""
    return AppOutbox(open_one(app), open_one("")) if app else open_one("")


class AppTimeouts:
    """`own` holds the timeouts of the app, `common` the timeouts without an app."""

    def __init__(self, own: TimeoutStore, common: TimeoutStore) -> None:
        self._own, self._common = own, common
        self._both = own, common

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        """Leases a batch from one of the two stores. The next call begins with the other store, so neither starves."""
        self._both = first, second = self._both[::-1]
        batch = first.get_batch(batch_size)
        batch, following = (batch, second.next_due()) if batch else (second.get_batch(batch_size), batch.next_due)
        due = [at for at in (batch.next_due, following) if at is not None]
        return TimeoutBatch(batch.timeouts, batch.owner, batch.expires_at, min(due, default=None))

    def remove(self, id: UUID, owner: str | None = None) -> None:
        self._end(lambda timeouts: timeouts.remove(id, owner), owner)

    def release(self, id: UUID, owner: str | None = None) -> None:
        self._end(lambda timeouts: timeouts.release(id, owner), owner)

    def _end(self, call: Callable[[TimeoutStore], None], owner: str | None) -> None:
        """Calls `own`, then `common` if `own` lacks the timeout. Without an owner a missing timeout is no error, so
        both are called."""
        try:
            call(self._own)
        except ConcurrencyError:
            call(self._common)
        else:
            if owner is None:
                call(self._common)

    def emit(self, batch: TimeoutBatch) -> int:
        return self._own.emit(batch) + self._common.emit(batch)

    def reap_stale_leases(self) -> int:
        return self._own.reap_stale_leases() + self._common.reap_stale_leases()

    def next_due(self) -> datetime | None:
        due = self._own.next_due(), self._common.next_due()
        return min((at for at in due if at is not None), default=None)

    def insert(self, *timeouts: Timeout) -> None:
        self._own.insert(*timeouts)

    def cancel(self, id: UUID) -> bool:
        return self._own.cancel(id) or self._common.cancel(id)

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        return self._own.reschedule(id, due_at) or self._common.reschedule(id, due_at)

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        rows = [*self._own.find(destination, owner, key, limit), *self._common.find(destination, owner, key, limit)]
        return sorted(rows, key=lambda timeout: (timeout.due_at, timeout.id))[:limit]

    def count(self) -> int:
        return self._own.count() + self._common.count()


class AppOutbox:
    """`own` holds the messages of the app, `common` the messages without an app. Their lanes have different numbers."""

    def __init__(self, own: OutboxStore, common: OutboxStore) -> None:
        self._own, self._common = own, common

    def _of(self, lane: int) -> OutboxStore:
        return self._common if lane < MOST_LANES else self._own

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        self._own.add(session, messages, require_transaction)

    def lanes(self) -> int:
        return self._own.lanes()

    def lane_numbers(self) -> Sequence[int]:
        return [*self._own.lane_numbers(), *self._common.lane_numbers()]

    def set_lanes(self, count: int) -> None:
        self._own.set_lanes(count)

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        return self._of(lane).claim(lane, token, limit, after, lease)

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        batch = self._own.claim_any(limit, lease)
        return batch if batch.rows else self._common.claim_any(limit, lease)

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        """A batch of `claim_any` does not say which outbox holds its rows. Both are marked: the other one changes
        nothing."""
        if batch.lane == ANY_LANE:
            self._own.mark(batch, outcomes)
            self._common.mark(batch, outcomes)
        else:
            self._of(batch.lane).mark(batch, outcomes)

    def release(self, batch: LaneBatch) -> None:
        if batch.lane == ANY_LANE:
            self._own.release(batch)
            self._common.release(batch)
        else:
            self._of(batch.lane).release(batch)

    def wait(self, seconds: float) -> bool:
        return self._own.wait(seconds)

    def pending_age(self) -> timedelta | None:
        ages = self._own.pending_age(), self._common.pending_age()
        return max((age for age in ages if age is not None), default=None)

    def count(self, state: str = "pending") -> int:
        return self._own.count(state) + self._common.count(state)

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        swept = self._own.sweep(older_than, limit)
        return swept + (self._common.sweep(older_than, limit - swept) if swept < limit else 0)

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        rows = [*self._own.find(state, topic, limit), *self._common.find(state, topic, limit)]
        return sorted(rows, key=lambda row: row.created_at)[:limit]

    def get(self, id: str) -> StoredMessage | None:
        return self._own.get(id) or self._common.get(id)

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        return self._own.attempts_of(id) or self._common.attempts_of(id)

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        return self._own.requeue(ids) + self._common.requeue(ids)

    def drop(self, ids: Sequence[str]) -> int:
        return self._own.drop(ids) + self._common.drop(ids)
