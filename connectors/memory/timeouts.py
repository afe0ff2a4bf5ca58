"""The TimeoutStore in memory. It leases timeouts like every other store."""

import threading
import uuid
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from uuid import UUID

from sluicegate.connectors import scheduling, times
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import OutboxMessage, emitted
from sluicegate.streams.contracts.options import TimeoutOptions

DueOrder = tuple[int, str]
"""Due time in microseconds and id: the order."""
_ANY = UUID(int=0)


@dataclass(slots=True)
class TimeoutRow:
    timeout: Timeout
    place: DueOrder
    locked_until: int = 0
    locked_by: str = ""


class MemoryTimeouts:
    """`lock` is the store's, `clock` returns seconds since 1970, `write` adds messages to the outbox."""

    def __init__(
        self,
        lock: threading.RLock,
        clock: Callable[[], float],
        options: TimeoutOptions,
        write: Callable[[Sequence[OutboxMessage]], object],
    ) -> None:
        self._lock, self._clock, self._options, self._write = lock, clock, options, write
        self._rows: dict[UUID, TimeoutRow] = {}
        self._order: list[tuple[DueOrder, UUID]] = []

    # -- due ---------------------------------------------------------------------------------------------------------

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        if batch_size is not None:
            scheduling.check_size(batch_size)
        with self._lock:
            now, owner = self._now(), uuid.uuid4().hex
            until = now + times.length(self._options.lease)
            self._set_locks_back(until)
            self._set_back(now)
            due = list(islice(self._due(now), batch_size))
            for row in due:
                row.locked_until, row.locked_by = until, owner
            expires = times.moment(until) if due else None
            return TimeoutBatch(tuple(row.timeout for row in due), owner, expires, self._next(now))

    def _set_locks_back(self, latest: int) -> None:
        """Shortens locks that end later than a lock that begins now: they were made while the clock was ahead."""
        for row in self._rows.values():
            row.locked_until = min(row.locked_until, latest)

    def _set_back(self, now: int) -> None:
        """A timeout that was scheduled later than now was written while the clock was ahead: its `after` counts from
        now."""
        free = (row for row in self._rows.values() if row.locked_until <= now)
        ahead = [row.timeout for row in free if (at := row.timeout.scheduled_at) and times.micros(at) > now]
        if ahead:
            self._drop([timeout.id for timeout in ahead])
            self._add([scheduling.set_back(timeout, now) for timeout in ahead])

    def _due(self, now: int) -> Iterator[TimeoutRow]:
        for (due_at, _), id in self._order:
            if due_at > now:
                return
            if self._rows[id].locked_until <= now:
                yield self._rows[id]

    def remove(self, id: UUID, owner: str | None = None) -> None:
        with self._lock:
            self._locked_row(id, owner)
            self._drop([id])

    def release(self, id: UUID, owner: str | None = None) -> None:
        with self._lock:
            if (row := self._locked_row(id, owner)) is not None:
                row.locked_until, row.locked_by = 0, ""

    def _locked_row(self, id: UUID, owner: str | None) -> TimeoutRow | None:
        row = self._rows.get(id)
        if owner is not None and not self._ours(row, owner):
            raise scheduling.lost(id)
        return row

    def _ours(self, row: TimeoutRow | None, owner: str) -> bool:
        return row is not None and row.locked_by == owner and row.locked_until > self._now()

    # -- emission ----------------------------------------------------------------------------------------------------

    def emit(self, batch: TimeoutBatch) -> int:
        following = scheduling.recurring(batch, self._options)
        with self._lock:
            sent = [timeout for timeout in batch if self._ours(self._rows.get(timeout.id), batch.owner)]
            if sent:
                self._write([emitted(timeout) for timeout in sent])
            ended = {timeout.id for timeout in sent}
            self._drop(ended)
            self._add([timeout for timeout in following if timeout.id in ended])
            return len(sent)

    def reap_stale_leases(self) -> int:
        with self._lock:
            now = self._now()
            stale = [row for row in self._rows.values() if 0 < row.locked_until <= now]
            for row in stale:
                row.locked_until, row.locked_by = 0, ""
            return len(stale)

    def next_due(self) -> datetime | None:
        with self._lock:
            return self._next(self._now())

    def _next(self, now: int) -> datetime | None:
        free = (due_at for (due_at, _), id in self._order if self._rows[id].locked_until <= now)
        first = next(free, None)
        return None if first is None else times.moment(first)

    # -- scheduling --------------------------------------------------------------------------------------------------

    def insert(self, *timeouts: Timeout) -> None:
        with self._lock:
            ids = {timeout.id for timeout in timeouts}
            if len(ids) < len(timeouts) or any(id in self._rows for id in ids):
                raise scheduling.id_exists(timeouts)
            self._add(timeouts)

    def cancel(self, id: UUID) -> bool:
        with self._lock:
            return self._drop([id]) == 1

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        scheduling.check_zone(due_at)
        with self._lock:
            if (row := self._rows.get(id)) is None:
                return False
            self._drop([id])
            self._add([replace(row.timeout, due_at=due_at, after=None)])
            return True

    def has(self, id: UUID) -> bool:
        return id in self._rows

    def apply(self, cancels: Iterable[UUID], timeouts: Iterable[Timeout]) -> None:
        """Cancels and adds the timeouts of a commit. A timeout whose id exists stays as it is."""
        self._drop(cancels)
        self._add([timeout for timeout in timeouts if timeout.id not in self._rows])

    def _add(self, timeouts: Sequence[Timeout]) -> None:
        rows = {
            timeout.id: TimeoutRow(timeout, (times.micros(timeout.due_at), timeout.id.hex))
            for timeout in reversed(timeouts)
        }
        self._rows |= rows
        placed = [(row.place, id) for id, row in rows.items()]
        if len(placed) == 1:
            insort(self._order, placed[0])
        elif placed:
            self._order += placed
            self._order.sort()

    def _drop(self, ids: Iterable[UUID]) -> int:
        gone = {id: row.place for id in ids if (row := self._rows.pop(id, None)) is not None}
        if gone:
            first = bisect_left(self._order, (min(gone.values()), _ANY))
            end = bisect_left(self._order, (max(gone.values()), _ANY)) + 1
            self._order[first:end] = [entry for entry in self._order[first:end] if entry[1] not in gone]
        return len(gone)

    # -- reading -----------------------------------------------------------------------------------------------------

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        with self._lock:
            timeouts = (self._rows[id].timeout for _, id in self._order)
            timeouts = (timeout for timeout in timeouts if destination in (None, timeout.destination))
            timeouts = (
                timeout for timeout in timeouts if owner in (None, timeout.owner) and key in (None, timeout.key)
            )
            return list(islice(timeouts, limit))

    def count(self) -> int:
        with self._lock:
            return len(self._rows)

    def _now(self) -> int:
        return times.clock(self._clock())
