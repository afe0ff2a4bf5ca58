"""The aggregator buffer in Redis. Rows are numbered in the order of the scripts; a row's id is its number."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import merge
from operator import itemgetter
from typing import Any

import msgspec

from sluicegate.connectors import buffers
from sluicegate.connectors.buffers import BufferCalls
from sluicegate.connectors.redis import packs
from sluicegate.connectors.redis import scripts_buffer as scripts
from sluicegate.connectors.redis import scripts_early as early
from sluicegate.connectors.redis import scripts_packs as packing
from sluicegate.connectors.redis import scripts_snapshots as snapshots
from sluicegate.connectors.redis.addresses import RedisServer
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import encode, instant, outbox_arguments, script_runner, text
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.connectors.times import length
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
    Pack,
    PositionMove,
    SealedBatch,
    Snapshot,
    Types,
    batch_id,
    positive,
    resolved,
    singles,
)
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header

_PAGE = 1000
_NO_GATE = ("", 0, "", "", "", "", "")
_DUE_SINCE = {"epoch": 0, "first": 1, "last": 2, "never": 3}
_row = msgspec.msgpack.Decoder(tuple[tuple[str, int, str, str, str], tuple[bytes, list[Header]]]).decode


class RedisBuffer(BufferCalls):
    """Messages are written for `app`. `types` have decoders."""

    at_once = 30_000

    def __init__(self, server: RedisServer, types: Types | None, app: str) -> None:
        self._server, self._types = server, types
        self._run = script_runner(server, app)

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate | None,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        moves = ("", 0, 0) if progress is None else _moves(progress)
        rows = [part for entry in entries for part in _arguments(entry, length(keep_keys))]
        arguments = [*self._gated(gate), *moves, int(gate is not None), length(keep_keys), _dues(entries), *rows]
        state, *answer = self._run(scripts.INSERT, name, *arguments)
        while state == b"packed":
            self._make_rows(name)
            state, *answer = self._run(scripts.INSERT, name, *arguments)
        if progress is not None and state == b"moved":
            raise buffers.position_moved(name, progress, int(answer[0]))
        count, sealed = answer
        return Filled(InsertResult(count, len(entries) - count), [self._batch(name, batch) for batch in sealed])

    def insert_packs(
        self, name: str, packed: Sequence[Pack], gate: Gate, progress: PositionMove
    ) -> Sequence[SealedBatch]:
        ends = "".join("01"[pack.ends] for pack in packed) if any(pack.ends for pack in packed) else ""
        arguments = (*self._gated(gate), *_moves(progress), ends, _dues(packed), *packs.pack_arguments(packed))
        state, *answer = self._run(packing.INSERT_PACKS, name, *arguments)
        if state == b"rows":
            return self.insert_and_seal(name, singles(packed), gate, progress).batches
        if state == b"moved":
            raise buffers.position_moved(name, progress, int(answer[0]))
        return [self._batch(name, sealed) for sealed in answer[0]]

    def _make_rows(self, name: str) -> None:
        """Turns the open packs into rows, group by group."""
        with translated():
            groups = self._server().hkeys(_key("packed", name))
        for group in groups:
            numbers = None
            while numbers is None:  # the group's packs have changed since they were read
                rows = packs.rows(self._elements(_pack_key(name, group)), text(group))
                numbers = self._run(packing.UNPACK, name, group, *rows)

    def _elements(self, key: Any) -> Sequence[bytes]:
        with translated():
            return list(self._server().lrange(key, 0, -1))

    def _gated(self, gate: Gate | None) -> Iterator[Any]:
        """The arguments of the gate: token, lease, count, times, whether records give deadlines, the period of early
        results, and the types that have decoders."""
        if gate is None:
            yield from _NO_GATE
        else:
            yield from (uuid.uuid4().hex, length(gate.lease), gate.count or "")
            yield from ("" if time is None else length(time) for time in (gate.after_first, gate.after_last))
            yield from ("1" if gate.dues else "", "" if gate.every is None else length(gate.every))
        yield from (-1,) if self._types is None else (len(self._types), *self._types)

    def position(self, name: str, topic_id: str, partition: int) -> int:
        with translated():
            return int(self._server().hget(_key("watermarks", name), _source(topic_id, partition)) or 0)

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        buffers.at_least_one(limit)
        token = uuid.uuid4().hex
        arguments = (name, token, length(positive(lease)), "" if limit is None else limit)
        while (answer := self._run(snapshots.SNAPSHOT, *arguments)) == b"packed":
            self._make_rows(name)
        rows, stored, ends, elsewhere, soonest = answer
        following = None if soonest is None else instant(soonest)
        if not rows:
            return EMPTY if not elsewhere else replace(EMPTY, leased_elsewhere=elsewhere, next_expiry=following)
        return Snapshot(*self._decoded(rows, stored), token, instant(ends), elsewhere, following)

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        if not snapshot.token:
            return 0
        messages = outbox_arguments(outbox if snapshot.ids else ())
        arguments = (snapshot.token, len(snapshot.ids), *snapshot.ids, *messages)
        removed = self._run(snapshots.REMOVE_SNAPSHOT, name, *arguments)
        if removed is None:
            raise buffers.lease_lost(name, "snapshot")
        return int(removed)

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        return int(self._run(snapshots.RELEASE_SNAPSHOT, name, snapshot.token)) if snapshot.token else 0

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        return [self._batch(name, batch) for batch in self._run(packing.DUE, name, *self._gated(gate), limit)]

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        sealed = self._run(packing.SEAL, name, *self._gated(gate), group)
        return None if sealed is None else self._batch(name, sealed)

    def early(self, name: str, gate: Gate, limit: int = 100) -> Sequence[OpenBatch]:
        return [self._open(leased) for leased in self._run(early.EARLY, name, *self._gated(gate), limit)]

    def _open(self, leased: Sequence[Any]) -> OpenBatch:
        name, results, whole, last, token, rows, stored = leased
        group, past = text(name), EarlyPast(results, bool(whole))
        content = self._unpacked(stored, group) if rows is None else self._decoded(rows, stored)
        return OpenBatch(group, content.entries, last, past, text(token))

    def complete_early(self, name: str, gate: Gate, ends: Sequence[buffers.EarlyEnd]) -> Sequence[bool]:
        groups = (part for batch, some in ends for part in (batch.group, batch.token, batch.last, len(some)))
        messages = (part for _, some in ends for part in outbox_arguments(some))
        arguments = (*self._gated(gate), len(ends), *groups, *messages)
        return [bool(done) for done in self._run(early.COMPLETE_EARLY, name, *arguments)]

    def complete(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        removed = super().complete(name, batch, outbox)
        return sum(map(packs.items, batch.ids)) if packs.is_packed(batch.ids) else removed

    def complete_all(self, name: str, ends: Sequence[buffers.End]) -> Sequence[bool]:
        if all(packs.is_packed(batch.ids) for batch, _ in ends):
            return self._end_packs(name, ends)
        return [self._end(name, *end) for end in ends]

    def _end(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage]) -> bool:
        if packs.is_packed(batch.ids):
            return self._end_packs(name, [(batch, outbox)])[0]
        arguments = (batch.unresolved, len(batch.ids), *batch.ids, *outbox_arguments(outbox))
        return self._run(scripts.COMPLETE, name, batch.token, *arguments) is not None

    def _end_packs(self, name: str, ends: Sequence[buffers.End]) -> list[bool]:
        tokens = (part for batch, messages in ends for part in (batch.token, len(messages)))
        messages = (part for _, messages in ends for part in outbox_arguments(messages))
        return [bool(done) for done in self._run(packing.COMPLETE_PACKS, name, len(ends), *tokens, *messages)]

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        return bool(self._run(scripts.RELEASE, name, batch.token, batch.attempts if attempts is None else attempts))

    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        arguments = (token, length(positive(lease)), "" if attempts is None else attempts)
        ends = self._run(snapshots.RENEW, name, *arguments)
        if ends is None:
            raise buffers.lease_lost(name, "lease")
        return instant(ends)

    def get_data(self, name: str) -> Sequence[Entry]:
        return [entry for raw in self.iter_raw(name) if (entry := resolved(raw, self._types)) is not None]

    def early_states(self, name: str) -> Mapping[str, EarlyState]:
        return {
            text(group): EarlyState(results, None if due is None else instant(due))
            for group, results, due in self._run(early.STATES, name)
        }

    def count(self, name: str) -> int:
        with translated():
            return sum(map(int, self._server().hvals(_key("types", name))))

    def count_resolved(self, name: str) -> int:
        if self._types is None:
            return self.count(name)
        if not self._types:
            return 0
        with translated():
            return sum(int(count or 0) for count in self._server().hmget(_key("types", name), list(self._types)))

    def iter_raw(self, name: str) -> Iterator[Entry]:
        rows = ((int(row), entry) for row, entry in self._entries(name))
        for _, entry in merge(sorted(self._packs(name).items()), rows, key=itemgetter(0)):
            yield entry

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        self._make_rows(name)
        for row, entry in self._entries(name):
            if entry.correlation_id != correlation_id:
                continue
            answer = self._run(snapshots.REMOVE_ONE, name, row, int(force))
            if answer == b"leased":
                raise buffers.row_leased(name, correlation_id)
            if answer == b"done":
                return
        raise buffers.not_found(name, correlation_id, self.count(name))

    def remove_all(self, name: str) -> int:
        return int(self._run(snapshots.REMOVE_ALL, name))

    def _packs(self, name: str) -> dict[int, Entry]:
        """The open packs by the number of their first record. A pack that is sealed or cut meanwhile appears once."""
        entries: dict[int, Entry] = {}
        for key, group in self._run(packing.LISTS, name):
            for row in packs.stored(self._elements(key), text(group)):
                entries.setdefault(row.number, row.entry)
        return entries

    def _entries(self, name: str) -> Iterator[tuple[str, Entry]]:
        """Rows with their numbers, read page by page. A row that is added or removed meanwhile may or may not
        appear."""
        rows: Sequence[bytes] = [b"-inf"]
        while rows:
            rows, stored = self._run(snapshots.PAGE, name, rows[-1], _PAGE)
            yield from _numbered(rows, stored)

    def _decoded(self, rows: Sequence[bytes], stored: Sequence[bytes]) -> buffers.Decoded:
        return buffers.decoded(_numbered(rows, stored), self._types)

    def _unpacked(self, blobs: Sequence[bytes], group: str) -> buffers.Decoded:
        """The records of packs. The ids are the ids of all packs, decoded or not."""
        stored = packs.stored(blobs, group)
        entries = [row.entry for row in stored]
        if self._types is not None:
            entries = [entry for row in entries if (entry := resolved(row, self._types)) is not None]
        return buffers.Decoded([row.id for row in stored], entries, len(stored) - len(entries))

    def _batch(self, name: str, sealed: Sequence[Any]) -> SealedBatch:
        first, group, reason, attempts, token, ends, rows, stored, results, whole = sealed
        group = text(group)
        content = self._unpacked(stored, group) if rows is None else self._decoded(rows, stored)
        id = batch_id(name, group, text(first))
        lease, past = (text(token), instant(ends), attempts), EarlyPast(results, bool(whole))
        return SealedBatch(id, group, text(reason), *content, *lease, past)


def _arguments(entry: Entry, keep: int) -> Iterator[Any]:
    head = (entry.idempotency_key, keep, entry.correlation_id, entry.type, entry.group)
    row = encode(head) + encode((entry.data, entry.headers))
    yield from (entry.idempotency_key, entry.group, entry.type, row, int(entry.ends))


def _dues(records: Sequence[Entry | Pack]) -> bytes:
    """The deadlines that entries give, or the last records of packs, in the form of `dues_of`."""
    dues = [(at, record.due) for at, record in enumerate(records, 1) if record.due is not None]
    return encode([part for at, due in dues for part in (at, _DUE_SINCE[due.since], due.after)]) if dues else b""


def _key(kind: str, name: str) -> str:
    return f"{PREFIX}buffer:{kind}:{name}"


def _pack_key(name: str, group: bytes) -> bytes:
    """The key of the group's open packs."""
    encoded = name.encode()
    return b"%sbuffer:pack:%d:%s:%s" % (PREFIX.encode(), len(encoded), encoded, group)


def _moves(progress: PositionMove) -> tuple[str, int, int]:
    return _source(progress.topic_id, progress.partition), progress.expected, progress.next


def _source(topic_id: str, partition: int) -> str:
    return f"{topic_id}/{partition}"


def _numbered(rows: Sequence[bytes], stored: Sequence[bytes]) -> Iterator[tuple[str, Entry]]:
    return ((text(row), _entry(content)) for row, content in zip(rows, stored, strict=True))


def _entry(stored: bytes) -> Entry:
    with translated():
        (key, _, correlation, kind, group), (data, headers) = _row(b"\x92" + stored[8:])
        return Entry(key, correlation, kind, data, headers, group)
