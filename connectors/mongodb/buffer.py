"""The aggregator buffer in MongoDB: each call one transaction that begins with the lock of the buffer's name."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers
from sluicegate.connectors.mongodb import buffered, connection
from sluicegate.connectors.mongodb.buffered import FOR_REMOVAL, FREED, drop, numbered, of, unleased
from sluicegate.connectors.mongodb.completing import complete
from sluicegate.connectors.mongodb.connection import Document
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, SEALED, WATERMARK
from sluicegate.connectors.mongodb.sealing import Sealing
from sluicegate.connectors.mongodb.steps import StepRunner, locked, until
from sluicegate.streams.contracts.leased import LEASE, NOT_KEPT
from sluicegate.streams.contracts.leased_values import (
    EMPTY,
    Entry,
    Filled,
    Gate,
    InsertResult,
    Pack,
    SealedBatch,
    Snapshot,
    Types,
    WatermarkMove,
    positive,
    singles,
)
from sluicegate.streams.contracts.messages import OutboxMessage

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = 10_000
"""Rows that one transaction of `remove_all` removes."""

T = TypeVar("T")


class MongoBuffer:
    """Any thread may call; `new_token` gives a random text."""

    at_once = 1_000

    def __init__(
        self, steps: StepRunner, types: Types | None, new_token: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> None:
        self._steps, self._types, self._new_token = steps, types, new_token
        self._data, self._rows, self._sealed = steps.data, steps.data[BUFFER], steps.data[SEALED]

    def insert(
        self,
        name: str,
        entries: Sequence[Entry],
        progress: WatermarkMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> InsertResult:
        return self._inserted(name, entries, progress, keep_keys, lambda result, now, session: result)

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate,
        progress: WatermarkMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        groups = list(dict.fromkeys(entry.group for entry in entries))

        def seal(result: InsertResult, now: datetime, session: ClientSession) -> Filled:
            return Filled(result, self._sealing(name, gate, now, session).full(groups) if groups else [])

        return self._inserted(name, entries, progress, keep_keys, seal)

    def _inserted(
        self,
        name: str,
        entries: Sequence[Entry],
        progress: WatermarkMove | None,
        keep: timedelta,
        then: Callable[[InsertResult, datetime, ClientSession], T],
    ) -> T:
        wanted: dict[str, Entry] = {}
        for entry in entries:
            wanted.setdefault(entry.idempotency_key, entry)

        def work(session: ClientSession) -> T:
            held = locked(self._data, _lock(name), session, last=len(wanted))
            now, first = held["now"], held["last"] - len(wanted) + 1
            if progress is not None:
                self._advance(name, progress, session)
            there = buffered.remembered(self._data, name, list(wanted), now, session) if wanted else set()
            new = [entry for key, entry in wanted.items() if key not in there]
            if new:
                rows = [buffered.row(name, number, entry, now, keep) for number, entry in enumerate(new, first)]
                self._rows.insert_many(rows, session=session)
            return then(InsertResult(len(new), len(entries) - len(new)), now, session)

        return self._steps.run(work, _lock(name))

    def _advance(self, name: str, progress: WatermarkMove, session: ClientSession) -> None:
        place = {"_id": _place(name, progress.topic_id, progress.partition)}
        stands = (self._data[WATERMARK].find_one(place, session=session) or {}).get("next", 0)
        if stands != progress.expected:
            raise buffers.moved(name, progress, stands)
        self._data[WATERMARK].update_one(place, {"$set": {"next": progress.next}}, upsert=True, session=session)

    def insert_packs(
        self, name: str, packs: Sequence[Pack], gate: Gate, progress: WatermarkMove
    ) -> Sequence[SealedBatch]:
        return self.insert_and_seal(name, singles(packs), gate, progress).batches

    def complete(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        return buffers.completed(self.complete_all, name, batch, outbox)

    def complete_all(self, name: str, ends: Sequence[buffers.End]) -> Sequence[bool]:
        """In one transaction."""

        def together(some: Sequence[buffers.End]) -> list[bool]:
            def work(session: ClientSession) -> list[bool]:
                return complete(self._data, name, some, locked(self._data, _lock(name), session)["now"], session)

            return self._steps.run(work, _lock(name))

        return buffers.together(together, ends)

    def watermark(self, name: str, topic_id: str, partition: int) -> int:
        self._steps.ready()
        with connection.answering():
            found = self._data[WATERMARK].find_one({"_id": _place(name, topic_id, partition)})
            return int(found["next"]) if found else 0

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        positive(lease)
        buffers.at_least_one(limit)
        token = self._new_token()
        return self._steps.run(lambda session: self._snapshot(name, limit or 0, lease, token, session), _lock(name))

    def _snapshot(self, name: str, limit: int, lease: timedelta, token: str, session: ClientSession) -> Snapshot:
        now: datetime = locked(self._data, _lock(name), session)["now"]
        elsewhere = self._elsewhere(name, now, session)
        rows = list(
            self._rows.find(of(name) | {"batch": None} | unleased(now), session=session).sort("_id").limit(limit)
        )
        if not rows:
            return Snapshot((), (), 0, "", None, *elsewhere) if elsewhere[0] else EMPTY
        expires = until(now, lease)
        taken = {"_id": {"$in": [row["_id"] for row in rows]}}
        self._rows.update_many(taken, {"$set": {"token": token, "expires_at": expires}}, session=session)
        return Snapshot(*buffered.decoded(rows, self._types), token, expires, *elsewhere)

    def _elsewhere(self, name: str, now: datetime, session: ClientSession) -> tuple[int, datetime | None]:
        """How many rows others have, leased or sealed, and when the next lease ends."""
        following = {"$min": {"$cond": [{"$gt": ["$expires_at", now]}, "$expires_at", None]}}
        leased = {"name": name, "token": {"$exists": True}, "batch": None, "expires_at": {"$gt": now}}
        asked = ((self._rows, leased, 1), (self._sealed, {"name": name}, "$count"))
        found: list[Document] = []
        for rows, wanted, size in asked:
            total = {"$group": {"_id": None, "rows": {"$sum": size}, "next": following}}
            found += rows.aggregate([{"$match": wanted}, total], session=session)
        ends = [each["next"] for each in found if each["next"] is not None]
        return sum(each["rows"] for each in found), min(ends, default=None)

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        ids = set(snapshot.ids)

        def work(session: ClientSession) -> int:
            now = locked(self._data, _lock(name), session)["now"]
            mine = numbered(name, ids) | _leased_by(snapshot.token)
            rows = list(self._rows.find(mine, FOR_REMOVAL, batch_size=len(ids) + 1, session=session))
            if outbox and ids:
                if len(rows) < len(ids):
                    raise buffers.taken(name, "snapshot")
                write_rows(self._data, outbox, session)
            dropped = drop(self._data, name, rows, now, session)
            self._rows.update_many({"name": name} | _leased_by(snapshot.token), FREED, session=session)
            return dropped

        return self._steps.run(work, _lock(name)) if snapshot.token else 0

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        def work(session: ClientSession) -> int:
            locked(self._data, _lock(name), session)
            return self._rows.update_many(
                {"name": name} | _leased_by(snapshot.token), FREED, session=session
            ).modified_count

        return self._steps.run(work, _lock(name)) if snapshot.token else 0

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        def work(session: ClientSession) -> list[SealedBatch]:
            now = locked(self._data, _lock(name), session)["now"]
            return self._sealing(name, gate, now, session).due(limit)

        return self._steps.run(work, _lock(name))

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        def work(session: ClientSession) -> SealedBatch | None:
            now = locked(self._data, _lock(name), session)["now"]
            return self._sealing(name, gate, now, session).one(group)

        return self._steps.run(work, _lock(name))

    def _sealing(self, name: str, gate: Gate, now: datetime, session: ClientSession) -> Sealing:
        return Sealing(self._data, name, gate, self._types, self._new_token, now, session)

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        def work(session: ClientSession) -> bool:
            locked(self._data, _lock(name), session)
            free = {"token": "", "expires_at": _LONG_AGO, "attempts": batch.attempts if attempts is None else attempts}
            return self._sealed.update_one(_ours(name, batch), {"$set": free}, session=session).matched_count > 0

        return self._steps.run(work, _lock(name))

    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        positive(lease)

        def work(session: ClientSession) -> datetime:
            now = locked(self._data, _lock(name), session)["now"]
            expires = until(now, lease)
            mine = {"name": name, "expires_at": {"$gt": now}} | _leased_by(token)
            rows, batch = (
                {"expires_at": expires},
                {"expires_at": expires} | ({} if attempts is None else {"attempts": attempts}),
            )
            both = ((self._rows, rows), (self._sealed, batch))
            if not sum(
                each.update_many(mine, {"$set": fields}, session=session).matched_count for each, fields in both
            ):
                raise buffers.taken(name, "lease")
            return expires

        return self._steps.run(work, _lock(name))

    def get_data(self, name: str) -> Sequence[Entry]:
        return self._read(name, lambda rows: list(buffered.decoded(rows, self._types).entries))

    def count(self, name: str) -> int:
        self._steps.ready()
        with connection.answering():
            return self._rows.count_documents({"name": name})

    def count_resolved(self, name: str) -> int:
        if self._types is not None and not self._types:
            return 0
        self._steps.ready()
        with connection.answering():
            return self._rows.count_documents({"name": name} | buffered.known(self._types))

    def iter_raw(self, name: str) -> Iterator[Entry]:
        return iter(self._read(name, lambda rows: list(map(buffered.entry, rows))))

    def _read(self, name: str, made_of: Callable[[Iterable[Document]], list[Entry]]) -> list[Entry]:
        self._steps.ready()
        with connection.answering():
            return made_of(self._rows.find(of(name)).sort("_id"))

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        def work(session: ClientSession) -> None:
            now = locked(self._data, _lock(name), session)["now"]
            wanted = {"name": name, "correlation": correlation_id}
            row = self._rows.find_one(wanted, FOR_REMOVAL | {"expires_at": 1}, sort=[("_id", 1)], session=session)
            if row is None:
                raise buffers.not_found(
                    name, correlation_id, self._rows.count_documents({"name": name}, session=session)
                )
            if not force and (row.get("batch") or row.get("expires_at", now) > now):
                raise buffers.leased(name, correlation_id)
            drop(self._data, name, [row], now, session)

        self._steps.run(work, _lock(name))

    def remove_all(self, name: str) -> int:
        last = self._steps.run(
            lambda session: int(locked(self._data, _lock(name), session).get("last", 0)), _lock(name)
        )
        all_of_it = {"_id": {"$gte": {"name": name, "number": 0}, "$lte": {"name": name, "number": last}}}

        def some(session: ClientSession) -> int:
            now = locked(self._data, _lock(name), session)["now"]
            rows = list(self._rows.find(all_of_it, FOR_REMOVAL, session=session).sort("_id").limit(_AT_ONCE))
            return drop(self._data, name, rows, now, session)

        removed = 0
        while count := self._steps.run(some, _lock(name)):
            removed += count
        return removed


def _lock(name: str) -> str:
    return f"buffer/{name}"


def _place(name: str, topic_id: str, partition: int) -> Document:
    return {"name": name, "topic_id": topic_id, "partition": partition}


def _leased_by(token: str) -> Document:
    return {"token": token} if token else {"token": {"$in": []}}


def _ours(name: str, batch: SealedBatch) -> Document:
    return {"_id": batch.id, "name": name, "token": batch.token}
