"""The aggregator buffer in MongoDB. Each write is one transaction that first locks the buffer's name."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers
from sluicegate.connectors.buffers import BufferCalls
from sluicegate.connectors.mongodb import buffered, early
from sluicegate.connectors.mongodb.buffered import FOR_REMOVAL, FREED, drop, numbered, of, unleased
from sluicegate.connectors.mongodb.connection import Document
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, POSITION, SEALED
from sluicegate.connectors.mongodb.sealing import Sealing, complete
from sluicegate.connectors.mongodb.steps import StepRunner, locked, until
from sluicegate.connectors.outboxes import space_of
from sluicegate.connectors.times import length
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

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 10_000
"""Rows that one transaction of `remove_all` removes."""

T = TypeVar("T")


class MongoBuffer(BufferCalls):
    """Messages are written for `app`. Any thread may call."""

    at_once = 1_000

    def __init__(self, steps: StepRunner, types: Types | None, app: str = "") -> None:
        self._space = space_of(app)
        self._steps, self._types = steps, types
        self._data, self._rows, self._sealed = steps.data, steps.data[BUFFER], steps.data[SEALED]

    def _run(self, name: str, work: Callable[[Document, ClientSession], T], last: int = 0, keep: int = 0) -> T:
        """Runs `work` in a transaction that holds the buffer's lock. `work` gets the lock document (see `locked`):
        `last` is the last row number given, `keep` the longest time for which an insert asked to keep keys."""
        key = f"buffer/{name}"
        counts = ({"$inc": {"last": last}} if last else {}) | ({"$max": {"keep": keep}} if keep else {})
        return self._steps.run(lambda session: work(locked(self._data, key, session, counts), session), key)

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate | None,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        wanted: dict[str, Entry] = {}
        for entry in entries:
            wanted.setdefault(entry.idempotency_key, entry)
        groups = list(dict.fromkeys(entry.group for entry in entries))

        def work(lock: Document, session: ClientSession) -> Filled:
            now, first = lock["now"], lock.get("last", 0) - len(wanted) + 1
            if progress is not None:
                place = {"_id": _place(name, progress.topic_id, progress.partition)}
                stands = (self._data[POSITION].find_one(place, session=session) or {}).get("next", 0)
                if stands != progress.expected:
                    raise buffers.position_moved(name, progress, stands)
                self._data[POSITION].update_one(place, {"$set": {"next": progress.next}}, upsert=True, session=session)
            if "keep" in lock:
                buffered.set_keys_back(self._data, name, now, lock["keep"], session)
            there = buffered.remembered(self._data, name, list(wanted), now, session) if wanted else set()
            new = [entry for key, entry in wanted.items() if key not in there]
            if new:
                rows = [buffered.row(name, number, entry, now, keep_keys) for number, entry in enumerate(new, first)]
                self._rows.insert_many(rows, session=session)
            result = InsertResult(len(new), len(entries) - len(new))
            if not gate or not groups:
                return Filled(result, [])
            return Filled(result, self._sealing(name, gate, now, session).full(groups, new, first))

        return self._run(name, work, len(wanted), length(keep_keys))

    def complete_all(self, name: str, ends: Sequence[buffers.End]) -> Sequence[bool]:
        """Completes all batches in one transaction."""

        def together(some: Sequence[buffers.End]) -> list[bool]:
            space = self._space
            return self._run(name, lambda lock, session: complete(self._data, name, some, lock["now"], session, space))

        return buffers.complete_together(together, ends)

    def position(self, name: str, topic_id: str, partition: int) -> int:
        with self._steps.reading():
            document = self._data[POSITION].find_one({"_id": _place(name, topic_id, partition)})
            return int(document["next"]) if document else 0

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        positive(lease)
        buffers.at_least_one(limit)
        token = uuid.uuid4().hex

        def work(lock: Document, session: ClientSession) -> Snapshot:
            now = lock["now"]
            buffered.set_leases_back(self._data, name, now, session)
            elsewhere = self._leased_elsewhere(name, now, session)
            free = of(name) | {"batch": None} | unleased(now)
            rows = list(self._rows.find(free, session=session).sort("_id").limit(limit or 0))
            if not rows:
                return Snapshot((), (), 0, "", None, *elsewhere) if elsewhere[0] else EMPTY
            expires = until(now, lease)
            taken = {"_id": {"$in": [row["_id"] for row in rows]}}
            leased = {"token": token, "leased_at": now, "expires_at": expires}
            self._rows.update_many(taken, {"$set": leased}, session=session)
            return Snapshot(*buffered.decoded(rows, self._types), token, expires, *elsewhere)

        return self._run(name, work)

    def _leased_elsewhere(self, name: str, now: datetime, session: ClientSession) -> tuple[int, datetime | None]:
        """The number of rows that other callers have leased or sealed, and the end of the first of these leases."""
        following = {"$min": {"$cond": [{"$gt": ["$expires_at", now]}, "$expires_at", None]}}
        leased = {"name": name, "token": {"$exists": True}, "batch": None, "expires_at": {"$gt": now}}
        queries = ((self._rows, leased, 1), (self._sealed, {"name": name}, "$count"))
        sums: list[Document] = []
        for rows, wanted, size in queries:
            total = {"$group": {"_id": None, "rows": {"$sum": size}, "next": following}}
            sums += rows.aggregate([{"$match": wanted}, total], session=session)
        ends = [total["next"] for total in sums if total["next"] is not None]
        return sum(total["rows"] for total in sums), min(ends, default=None)

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        ids = set(snapshot.ids)

        def work(lock: Document, session: ClientSession) -> int:
            mine = numbered(name, ids) | _leased_by(snapshot.token)
            rows = list(self._rows.find(mine, FOR_REMOVAL, batch_size=len(ids) + 1, session=session))
            if outbox and ids:
                if len(rows) < len(ids):
                    raise buffers.lease_lost(name, "snapshot")
                write_rows(self._data, outbox, session, self._space)
            dropped = drop(self._data, name, rows, lock["now"], session)
            self._rows.update_many({"name": name} | _leased_by(snapshot.token), FREED, session=session)
            return dropped

        return self._run(name, work) if snapshot.token else 0

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        mine = {"name": name} | _leased_by(snapshot.token)

        def work(_: Document, session: ClientSession) -> int:
            return self._rows.update_many(mine, FREED, session=session).modified_count

        return self._run(name, work) if snapshot.token else 0

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        return self._run(name, lambda lock, session: self._sealing(name, gate, lock["now"], session).due(limit))

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        return self._run(name, lambda lock, session: self._sealing(name, gate, lock["now"], session).one(group))

    def _sealing(self, name: str, gate: Gate, now: datetime, session: ClientSession) -> Sealing:
        return Sealing(self._data, name, gate, self._types, now, session)

    def early(self, name: str, gate: Gate, limit: int = 100) -> Sequence[OpenBatch]:
        def work(lock: Document, session: ClientSession) -> list[OpenBatch]:
            return early.lease_due(self._data, name, gate, limit, self._types, lock["now"], session)

        return self._run(name, work)

    def complete_early(self, name: str, gate: Gate, ends: Sequence[buffers.EarlyEnd]) -> Sequence[bool]:
        def work(lock: Document, session: ClientSession) -> list[bool]:
            return early.complete(self._data, name, gate, ends, lock["now"], session, self._space)

        return self._run(name, work)

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        free = {"token": "", "expires_at": _LONG_AGO, "attempts": batch.attempts if attempts is None else attempts}

        def work(_: Document, session: ClientSession) -> bool:
            ours = {"_id": batch.id, "name": name, "token": batch.token}
            return self._sealed.update_one(ours, {"$set": free}, session=session).matched_count > 0

        return self._run(name, work)

    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        positive(lease)

        def work(lock: Document, session: ClientSession) -> datetime:
            expires = until(lock["now"], lease)
            mine = {"name": name, "expires_at": {"$gt": lock["now"]}} | _leased_by(token)
            of_rows = {"leased_at": lock["now"], "expires_at": expires}
            of_batch = of_rows if attempts is None else of_rows | {"attempts": attempts}
            renewed = self._rows.update_many(mine, {"$set": of_rows}, session=session).matched_count
            renewed += self._sealed.update_many(mine, {"$set": of_batch}, session=session).matched_count
            if not renewed:
                raise buffers.lease_lost(name, "lease")
            return expires

        return self._run(name, work)

    def renew_all(self, name: str, tokens: Sequence[str], lease: timedelta = LEASE) -> Sequence[bool]:
        positive(lease)

        def work(lock: Document, session: ClientSession) -> set[str]:
            mine = {"name": name, "expires_at": {"$gt": lock["now"]}, "token": {"$in": list(tokens)}}
            renewed = {row["token"] for row in self._sealed.find(mine, {"token": 1}, session=session)}
            lasting = {"leased_at": lock["now"], "expires_at": until(lock["now"], lease)}
            self._sealed.update_many(mine, {"$set": lasting}, session=session)
            return renewed

        renewed = self._run(name, work)
        return [token in renewed for token in tokens]

    def get_data(self, name: str) -> Sequence[Entry]:
        return self._read(name, lambda rows: list(buffered.decoded(rows, self._types).entries))

    def count(self, name: str) -> int:
        with self._steps.reading():
            return self._rows.count_documents({"name": name})

    def count_resolved(self, name: str) -> int:
        if self._types is not None and not self._types:
            return 0
        with self._steps.reading():
            return self._rows.count_documents({"name": name} | buffered.known(self._types))

    def early_states(self, name: str) -> Mapping[str, EarlyState]:
        with self._steps.reading():
            return early.states(self._data, name)

    def iter_raw(self, name: str) -> Iterator[Entry]:
        return iter(self._read(name, lambda rows: list(map(buffered.entry, rows))))

    def _read(self, name: str, made_of: Callable[[Iterable[Document]], list[Entry]]) -> list[Entry]:
        with self._steps.reading():
            return made_of(self._rows.find(of(name)).sort("_id"))

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        def work(lock: Document, session: ClientSession) -> None:
            now = lock["now"]
            wanted = {"name": name, "correlation": correlation_id}
            row = self._rows.find_one(wanted, FOR_REMOVAL | {"expires_at": 1}, sort=[("_id", 1)], session=session)
            if row is None:
                count = self._rows.count_documents({"name": name}, session=session)
                raise buffers.not_found(name, correlation_id, count)
            if not force and (row.get("batch") or row.get("expires_at", now) > now):
                raise buffers.row_leased(name, correlation_id)
            drop(self._data, name, [row], now, session)

        self._run(name, work)

    def remove_all(self, name: str) -> int:
        last = self._run(name, lambda lock, _: int(lock.get("last", 0)))
        present = {"_id": {"$gte": {"name": name, "number": 0}, "$lte": {"name": name, "number": last}}}

        def some(lock: Document, session: ClientSession) -> int:
            rows = list(self._rows.find(present, FOR_REMOVAL, session=session).sort("_id").limit(_AT_ONCE))
            return drop(self._data, name, rows, lock["now"], session)

        removed = 0
        while count := self._run(name, some):
            removed += count
        return removed


def _place(name: str, topic_id: str, partition: int) -> Document:
    return {"name": name, "topic_id": topic_id, "partition": partition}


def _leased_by(token: str) -> Document:
    return {"token": token} if token else {"token": {"$in": []}}
