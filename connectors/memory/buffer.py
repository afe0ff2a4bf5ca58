"""The aggregator buffer in memory. Each call holds the store's lock and makes all checks before any change."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from sluicegate.connectors import buffers
from sluicegate.connectors.buffers import BufferCalls
from sluicegate.connectors.memory.buffered import Buffered, BufferRow, StoredBatch, has_decoder
from sluicegate.connectors.times import clock, length, moment
from sluicegate.streams.contracts.leased import LEASE, NOT_KEPT
from sluicegate.streams.contracts.leased_values import (
    EMPTY,
    EarlyPast,
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


class MemoryBuffer(BufferCalls):
    """`names` are the buffers of the store, `lock` is the store's, `write` adds messages to its outbox."""

    at_once = 1_000

    def __init__(
        self,
        lock: AbstractContextManager[object],
        clock: Callable[[], float],
        types: Types | None,
        write: Callable[[Sequence[OutboxMessage]], object],
        names: dict[str, Buffered] | None = None,
    ) -> None:
        self._lock, self._clock, self._types, self._write = lock, clock, types, write
        self._names: dict[str, Buffered] = {} if names is None else names

    def _insert(
        self, name: str, entries: Sequence[Entry], progress: PositionMove | None, keep_keys: timedelta, now: int
    ) -> list[Entry]:
        """Returns the entries that are new."""
        buffer = self._buffer(name)
        if progress is not None:
            place = progress.topic_id, progress.partition
            if buffer.positions.get(place, 0) != progress.expected:
                raise buffers.position_moved(name, progress, buffer.positions.get(place, 0))
            buffer.positions[place] = progress.next
        buffer.keep = max(buffer.keep, length(keep_keys))
        buffer.forget(now)
        buffer.set_keys_back(now)
        new = []
        for entry in entries:
            if not buffer.knows(entry.idempotency_key, now):
                buffer.add(entry, now, length(keep_keys))
                new.append(entry)
        return new

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate | None,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            new = self._insert(name, entries, progress, keep_keys, now)
            result = InsertResult(len(new), len(entries) - len(new))
            if gate is None:
                return Filled(result, [])
            ends = buffers.may_end(gate, new, buffer.first, now)
            ids = []
            for group in dict.fromkeys(entry.group for entry in entries):
                ready = buffer.ready(group, self._types, now)
                for reason, rows in buffers.full_batches(
                    ready,
                    gate,
                    lambda row: row.entry.idempotency_key,
                    ends.get(group, {}),
                    buffer.first(group) if ready else now,
                    now,
                ):
                    ids.append(buffer.seal(name, group, reason, rows))
                buffer.set_deadline(group, gate)
                buffer.expect_early(group, gate, now)
            return Filled(result, [self._handed_out(buffer, id, gate, now) for id in ids])

    def complete_all(self, name: str, ends: Sequence[buffers.End]) -> Sequence[bool]:
        with self._lock:
            return [self._complete(self._buffer(name), batch, outbox) for batch, outbox in ends]

    def position(self, name: str, topic_id: str, partition: int) -> int:
        with self._lock:
            return self._buffer(name).positions.get((topic_id, partition), 0)

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        positive(lease)
        buffers.at_least_one(limit)
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            buffer.set_leases_back(now)
            others = [row.expires for row in buffer.rows.values() if row.expires > now and not row.batch]
            others += [batch.expires for batch in buffer.batches.values() for _ in batch.rows]
            ends = [expires for expires in others if expires > now]
            elsewhere = len(others), moment(min(ends)) if ends else None
            rows = [row for row in buffer.rows.values() if row.free(now)][:limit]
            if not rows:
                return Snapshot((), (), 0, "", None, *elsewhere) if others else EMPTY
            token, expires = uuid.uuid4().hex, now + length(lease)
            for row in rows:
                row.token, row.leased_at, row.expires = token, now, expires
            return Snapshot(*self._decoded(rows), token, moment(expires), *elsewhere)

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        with self._lock:
            buffer, ids = self._buffer(name), set(snapshot.ids)
            ours = _leased_by(buffer, snapshot.token)
            rows = [buffer.rows[int(id)] for id in ids if int(id) in buffer.rows and int(id) in ours]
            if outbox and ids:
                if len(rows) < len(ids):
                    raise buffers.lease_lost(name, "snapshot")
                self._write(outbox)
            dropped = buffer.drop(rows, self._now())
            _free(row for row in ours.values() if str(row.id) not in ids)
            return dropped

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        with self._lock:
            return _free(_leased_by(self._buffer(name), snapshot.token).values())

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            buffer.set_leases_back(now)
            buffer.set_deadlines_back(gate, now)
            ids = [id for id, batch in sorted(buffer.batches.items(), key=_age) if batch.expires <= now][:limit]
            for group in sorted(buffer.deadlines, key=buffer.deadlines.__getitem__):
                if (
                    len(ids) < limit
                    and buffer.deadlines[group] <= now
                    and (ready := buffer.ready(group, self._types, now))
                ):
                    ids.append(buffer.seal(name, group, "timeout", ready[: gate.count]))
                    buffer.set_deadline(group, gate)
                    buffer.expect_early(group, gate, now)
            return [self._handed_out(buffer, id, gate, now) for id in ids]

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            if not (ready := buffer.ready(group, self._types, now)):
                return None
            id = buffer.seal(name, group, "manual", ready[: gate.count])
            buffer.set_deadline(group, gate)
            buffer.expect_early(group, gate, now)
            return self._handed_out(buffer, id, gate, now)

    def _handed_out(self, buffer: Buffered, id: str, gate: Gate, now: int) -> SealedBatch:
        batch = buffer.batches[id]
        batch.token, batch.attempts = uuid.uuid4().hex, batch.attempts + 1
        batch.leased_at, batch.expires = now, now + length(gate.lease)
        content = self._decoded(batch.rows)
        lease = batch.token, moment(batch.expires), batch.attempts
        return SealedBatch(id, batch.group, batch.reason, *content, *lease, batch.past)

    def early(self, name: str, gate: Gate, limit: int = 100) -> Sequence[OpenBatch]:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            buffer.set_early_back(gate, now)
            dues = [(early.due_at, group) for group, early in buffer.early.items() if early.due_at is not None]
            batches: list[OpenBatch] = []
            for due_at, group in sorted(dues):
                if due_at > now or len(batches) >= limit:
                    break
                if rows := buffer.ready(group, self._types, now):
                    state, last = buffer.early[group], rows[-1].id
                    state.token, state.due_at = uuid.uuid4().hex, now + length(gate.lease)
                    past = EarlyPast(state.count, last == state.covered)
                    batches.append(OpenBatch(group, self._decoded(rows).entries, last, past, state.token))
            return batches

    def complete_early(self, name: str, gate: Gate, ends: Sequence[buffers.EarlyEnd]) -> Sequence[bool]:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            return [self._complete_early(buffer, gate, batch, outbox, now) for batch, outbox in ends]

    def _complete_early(
        self, buffer: Buffered, gate: Gate, batch: OpenBatch, outbox: Sequence[OutboxMessage], now: int
    ) -> bool:
        state = buffer.early.get(batch.group)
        if state is None or state.token != batch.token:
            return False
        if outbox:
            self._write(outbox)
        state.count, state.covered, state.due_at, state.token = state.count + 1, batch.last, None, ""
        buffer.expect_early(batch.group, gate, now)
        return True

    def _complete(self, buffer: Buffered, batch: SealedBatch, outbox: Sequence[OutboxMessage]) -> bool:
        rows = {str(row.id): row for row in self._ours(buffer, batch)}
        if not rows or not rows.keys() >= set(batch.ids) or len(rows) != len(batch.ids) + batch.unresolved:
            return False
        if outbox:
            self._write(outbox)
        del buffer.batches[batch.id]
        for id in rows.keys() - set(batch.ids):
            rows[id].batch, rows[id].broken = "", True
        buffer.drop([rows[id] for id in batch.ids], self._now())
        return True

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        with self._lock:
            buffer = self._buffer(name)
            if not self._ours(buffer, batch):
                return False
            stored = buffer.batches[batch.id]
            stored.token, stored.expires = "", 0
            stored.attempts = batch.attempts if attempts is None else attempts
            return True

    def _ours(self, buffer: Buffered, batch: SealedBatch) -> list[BufferRow]:
        """The rows of the batch; none when the caller does not hold it."""
        stored = buffer.batches.get(batch.id)
        return stored.rows if stored and stored.token == batch.token else []

    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        positive(lease)
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            everything: list[BufferRow | StoredBatch] = [*_leased_by(buffer, token).values(), *buffer.batches.values()]
            ours = [item for item in everything if item.token == token and item.expires > now]
            if not ours:
                raise buffers.lease_lost(name, "lease")
            for item in ours:
                item.leased_at, item.expires = now, now + length(lease)
                if isinstance(item, StoredBatch) and attempts is not None:
                    item.attempts = attempts
            return moment(now + length(lease))

    def get_data(self, name: str) -> Sequence[Entry]:
        with self._lock:
            return list(self._decoded(self._buffer(name).rows.values()).entries)

    def count(self, name: str) -> int:
        with self._lock:
            return len(self._buffer(name).rows)

    def count_resolved(self, name: str) -> int:
        with self._lock:
            return sum(has_decoder(row.entry, self._types) for row in self._buffer(name).rows.values())

    def early_states(self, name: str) -> Mapping[str, EarlyState]:
        with self._lock:
            states = self._buffer(name).early.items()
            return {
                group: EarlyState(state.count, None if state.due_at is None else moment(state.due_at))
                for group, state in states
            }

    def iter_raw(self, name: str) -> Iterator[Entry]:
        with self._lock:
            return iter([row.entry for row in self._buffer(name).rows.values()])

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        with self._lock:
            now, buffer = self._now(), self._buffer(name)
            row = next((row for row in buffer.rows.values() if row.entry.correlation_id == correlation_id), None)
            if row is None:
                raise buffers.not_found(name, correlation_id, len(buffer.rows))
            if not row.free(now) and not force:
                raise buffers.row_leased(name, correlation_id)
            buffer.drop([row], now)

    def remove_all(self, name: str) -> int:
        with self._lock:
            buffer = self._buffer(name)
            buffer.batches.clear()
            return buffer.drop(buffer.rows.values(), self._now())

    def _now(self) -> int:
        return clock(self._clock())

    def _buffer(self, name: str) -> Buffered:
        return self._names.setdefault(name, Buffered())

    def _decoded(self, rows: Iterable[BufferRow]) -> buffers.Decoded:
        return buffers.decoded(((str(row.id), row.entry) for row in rows), self._types)


def _leased_by(buffer: Buffered, token: str) -> dict[int, BufferRow]:
    return {row.id: row for row in buffer.rows.values() if token and row.token == token}


def _free(rows: Iterable[BufferRow]) -> int:
    freed = list(rows)
    for row in freed:
        row.token, row.expires = "", 0
    return len(freed)


def _age(item: tuple[str, StoredBatch]) -> int:
    return item[1].rows[0].id
