"""The outbox in memory. Each call holds the store's lock."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Any

from sluicegate.connectors.memory.messages import MemoryLane, MessageRow, blocked
from sluicegate.connectors.outboxes import (
    ANY_LANE,
    check_claim,
    check_lanes,
    check_states,
    datetime_of,
    lane_lost,
    outcomes_of,
    space_of,
    verdict,
)
from sluicegate.connectors.sessions import MemorySession, joined
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.lanes import LANES, lane_of
from sluicegate.streams.contracts.leased import LANE_LEASE
from sluicegate.streams.contracts.leased_values import positive
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions


class MemoryOutbox:
    """The messages of `app`. `lock` is the store's; `clock` returns seconds since 1970."""

    def __init__(
        self, lock: threading.RLock, clock: Callable[[], float], options: OutboxOptions, app: str = ""
    ) -> None:
        self._space = space_of(app)
        self._lock = threading.Condition(lock)
        self._clock, self._options = clock, options
        self._rows: dict[str, MessageRow] = {}
        self._count, self._lanes = LANES, {number: MemoryLane() for number in range(LANES)}
        self._sequence = count(1)
        self._added = self._noticed = 0

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        if joined(session, MemorySession, require_transaction):
            session.values.messages += messages
        else:
            self.write(messages)

    def write(self, messages: Sequence[OutboxMessage]) -> None:
        """Add the messages whose ids are new."""
        with self._lock:
            for message in messages:
                if message.id not in self._rows:
                    row = self._rows[message.id] = MessageRow(
                        next(self._sequence), message, lane_of(message, self._count), self._clock()
                    )
                    self._lanes[row.lane].waiting[row.seq] = row
                    self._added += 1
            self._lock.notify_all()

    def lanes(self) -> int:
        return self._count

    def lane_numbers(self) -> Sequence[int]:
        return self._space.numbers(self._count)

    def set_lanes(self, count: int) -> None:
        with self._lock:
            check_lanes(count, self.count())
            self._count = count
            for number in range(count):
                self._lanes.setdefault(number, MemoryLane())

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        with self._lock:
            place = lane - self._space.base
            check_claim(place, self._count, token, limit)
            queue, now = self._lanes[place], self._clock()
            if not queue.is_free(token, now):
                return None
            queue.token, queue.claimed_at, queue.expires_at = token, now, now + positive(lease).total_seconds()
            rows, until = queue.taken(limit, after, now, self._latest(now))
            claimed = [_lane_row(row, row.number) for row in rows]
            return LaneBatch(lane, token, datetime_of(queue.expires_at), claimed, None if rows else _at(until))

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        with self._lock:
            check_claim(0, 1, token := uuid.uuid4().hex, limit)
            now = self._clock()
            until = now + positive(lease).total_seconds()
            rows = list(islice(self._free(now), limit))
            for row in rows:
                row.holder, row.held_at, row.held_until = token, now, until
            return LaneBatch(ANY_LANE, token, datetime_of(until), [_lane_row(row, row.seq) for row in rows])

    def _free(self, now: float) -> Iterator[MessageRow]:
        for lane in self._lanes.values():
            if lane.is_free("", now):
                yield from (row for row in lane.rows() if blocked(row, now, self._latest(now)) is None)

    def _latest(self, now: float) -> float:
        """The end of the longest back-off that may begin now."""
        return now + self._options.backoff_most.total_seconds()

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        with self._lock:
            if batch.lane != ANY_LANE and self._lanes[batch.lane - self._space.base].token != batch.token:
                raise lane_lost(batch.lane)
            named = {outcome.id: outcome for outcome in outcomes_of(batch, outcomes)}
            for lane_row in batch.rows:
                row, outcome = self._rows.get(lane_row.id), named.get(lane_row.id)
                if (
                    row is not None
                    and outcome is not None
                    and _is_held(row, batch, lane_row)
                    and not _counted(row, batch, lane_row, outcome)
                ):
                    self._settle(row, outcome)

    def _settle(self, row: MessageRow, outcome: Outcome) -> None:
        now = self._clock()
        row.holder = ""
        if outcome.kind == "outage":
            return
        if outcome.kind == "dispatched":
            row.state, row.dispatched_at, row.next_attempt_at = "dispatched", now, None
            result = "success"
        else:
            row.attempts += 1
            result = verdict(self._options, outcome.kind, row.attempts)
            if result == "transient":
                row.next_attempt_at = now + self._options.pause(row.attempts).total_seconds()
            else:
                row.state, row.reason, row.next_attempt_at = "dead", outcome.error, None
        row.history.append(Attempt(len(row.history) + 1, datetime_of(now), result, outcome.error))
        if row.state != "pending":
            self._lanes[row.lane].forget(row)

    def release(self, batch: LaneBatch) -> None:
        with self._lock:
            for lane_row in batch.rows:
                row = self._rows.get(lane_row.id)
                if row is not None and row.holder == batch.token:
                    row.holder = ""
            queue = self._lanes.get(batch.lane - self._space.base)
            if queue is not None and queue.token == batch.token:
                queue.token, queue.expires_at = "", 0.0

    def wait(self, seconds: float) -> bool:
        with self._lock:
            added = self._lock.wait_for(lambda: self._added != self._noticed, seconds)
            self._noticed = self._added
            return added

    def pending_age(self) -> timedelta | None:
        with self._lock:
            added = [row.created_at for lane in self._lanes.values() for row in lane.rows()]
            return timedelta(seconds=max(0.0, self._clock() - min(added))) if added else None

    def count(self, state: str = "pending") -> int:
        check_states([state])
        with self._lock:
            return sum(1 for row in self._rows.values() if row.state == state)

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        with self._lock:
            before = self._clock() - older_than.total_seconds()
            sent = ((row.dispatched_at or before, id) for id, row in self._rows.items())
            old = sorted(entry for entry in sent if entry[0] < before)[:limit]
            for _, id in old:
                del self._rows[id]
            return len(old)

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        check_states([] if state is None else [state])
        with self._lock:
            rows = (row for row in self._rows.values() if state in (None, row.state))
            rows = (row for row in rows if topic in (None, row.message.topic))
            return [_stored(row) for row in islice(rows, limit)]

    def get(self, id: str) -> StoredMessage | None:
        with self._lock:
            row = self._rows.get(id)
            return None if row is None else _stored(row)

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        with self._lock:
            row = self._rows.get(id)
            return tuple(row.history) if row else ()

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        with self._lock:
            named = set(self._rows if ids is None else ids)
            dead = [row for id, row in self._rows.items() if id in named and row.state == "dead"]
            for row in dead:
                row.state, row.attempts, row.number, row.reason, row.holder = "pending", 0, 0, "", ""
                row.lane = lane_of(row.message, self._count)
                self._lanes[row.lane].waiting[row.seq] = row
            self._added += len(dead)
            self._lock.notify_all()
            return len(dead)

    def drop(self, ids: Sequence[str]) -> int:
        with self._lock:
            rows = [row for id in dict.fromkeys(ids) if (row := self._rows.get(id)) and row.state != "dispatched"]
            for row in rows:
                self._lanes[row.lane].forget(row)
                del self._rows[row.message.id]
            return len(rows)


def _is_held(row: MessageRow, batch: LaneBatch, lane_row: LaneRow) -> bool:
    if row.state != "pending":
        return False
    return row.number == lane_row.number if batch.lane != ANY_LANE else row.holder == batch.token


def _counted(row: MessageRow, batch: LaneBatch, lane_row: LaneRow, outcome: Outcome) -> bool:
    """Whether an earlier call, whose reply was lost, has already counted this failure."""
    return batch.lane != ANY_LANE and outcome.kind == "failed" and row.attempts != lane_row.attempts


def _lane_row(row: MessageRow, number: int) -> LaneRow:
    it = row.message
    return LaneRow(
        number, it.id, it.topic, it.key, it.value, it.headers, it.lane_key, row.attempts, datetime_of(row.created_at)
    )


def _stored(row: MessageRow) -> StoredMessage:
    times = datetime_of(row.created_at), _at(row.dispatched_at), _at(row.next_attempt_at)
    return StoredMessage(row.message, row.state, row.lane, row.attempts, *times, row.reason)


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime_of(seconds)
