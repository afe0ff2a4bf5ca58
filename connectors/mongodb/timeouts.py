"""The timeout store in MongoDB. `due` is in microseconds since 1970, since BSON's dates have only milliseconds. The
server's clock has milliseconds, too: a timeout is late by less than one, and never early."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from pymongo.client_session import ClientSession

from sluicegate.connectors import scheduling
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.messages import of_app, write_rows
from sluicegate.connectors.mongodb.migrations import TIMEOUT
from sluicegate.connectors.mongodb.steps import StepRunner, locked, server_time, until
from sluicegate.connectors.outboxes import space_of
from sluicegate.connectors.times import MICROSECOND, micros, moment
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import emitted
from sluicegate.streams.contracts.options import TimeoutOptions
from sluicegate.streams.contracts.values import Changes

_FREED = {"$unset": {"locked_by": 1, "locked_until": 1}}
_BY_TIME = [("due", 1), ("_id", 1)]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes | None, list[tuple[str, bytes | None]]]).decode


class MongoTimeouts:
    """The timeouts of `app`. Any thread may call."""

    def __init__(self, steps: StepRunner, options: TimeoutOptions, app: str = "") -> None:
        self._space, self._app = space_of(app), of_app(space_of(app))
        self._steps, self._options = steps, options
        self._data, self._rows = steps.data, steps.data[TIMEOUT]

    def insert(self, *timeouts: Timeout) -> None:
        def work(session: ClientSession) -> None:
            if _known(self._data, timeouts, session) or len({timeout.id for timeout in timeouts}) < len(timeouts):
                raise scheduling.id_exists(timeouts)
            if timeouts:
                self._rows.insert_many([_document(timeout, self._space.app) for timeout in timeouts], session=session)

        self._steps.run(work)

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        limit = scheduling.check_size(self._options.batch_size if batch_size is None else batch_size)
        owner = uuid.uuid4().hex
        return self._steps.run(lambda session: self._lock_due(owner, limit, session))

    def _lock_due(self, owner: str, limit: int, session: ClientSession) -> TimeoutBatch:
        now: datetime = locked(self._data, "timeouts", session)["now"]
        expires = until(now, self._options.lease)
        free = self._app | {"locked_until": {"$not": {"$gt": now}}}
        late = self._app | {"locked_until": {"$gt": expires}}
        self._set_locks_back(late | {"scheduled": {"$gt": micros(now)}}, expires, session)
        self._set_back(micros(now), free, session)
        rows = self._due(now, expires, limit, session)
        if rows:
            ids = {"_id": {"$in": [row["_id"] for row in rows]}}
            self._rows.update_many(ids, {"$set": {"locked_by": owner, "locked_until": expires}}, session=session)
        following = self._rows.find_one(free, {"due": 1}, sort=_BY_TIME, session=session)
        next_due = moment(following["due"]) if following else None
        return TimeoutBatch(tuple(map(_timeout, rows)), owner, expires if rows else None, next_due)

    def _due(self, now: datetime, latest: datetime, limit: int, session: ClientSession) -> list[Document]:
        """Due timeouts that are not locked. Locks that end later than a lock that begins now are set back."""
        due = self._app | {"due": {"$lte": micros(now)}, "$nor": [{"locked_until": {"$gt": now, "$lte": latest}}]}
        rows = list(self._rows.find(due, session=session, batch_size=limit + 1).sort(_BY_TIME).limit(limit))
        late = [row["_id"] for row in rows if row.get("locked_until", now) > now]
        if late:
            self._set_locks_back({"_id": {"$in": late}}, latest, session)
        return [row for row in rows if row.get("locked_until", now) <= now]

    def _set_locks_back(self, late: Document, latest: datetime, session: ClientSession) -> None:
        """Shortens locks that end later than a lock that begins now: they were made while the clock was ahead."""
        self._rows.update_many(late, {"$set": {"locked_until": latest}}, session=session)

    def _set_back(self, now: int, free: Document, session: ClientSession) -> None:
        """A timeout that was scheduled later than now was written while the clock was ahead: its `after` counts from
        now."""
        after = {"$subtract": ["$due", "$scheduled"]}
        ahead = free | {"scheduled": {"$gt": now}}
        change = [{"$set": {"due": {"$add": [now, after]}, "scheduled": now}}]
        self._rows.update_many(ahead, change, session=session)

    def remove(self, id: UUID, owner: str | None = None) -> None:
        def work(session: ClientSession) -> None:
            own = self._own(id, owner, session)
            if not self._rows.delete_one(own, session=session).deleted_count and owner is not None:
                raise scheduling.lost(id)

        self._steps.run(work)

    def release(self, id: UUID, owner: str | None = None) -> None:
        def work(session: ClientSession) -> None:
            own = self._own(id, owner, session)
            if not self._rows.update_one(own, _FREED, session=session).matched_count and owner is not None:
                raise scheduling.lost(id)

        self._steps.run(work)

    def _own(self, id: UUID, owner: str | None, session: ClientSession) -> Document:
        if owner is None:
            return self._app | {"_id": str(id)}
        return self._app | {
            "_id": str(id),
            "locked_by": owner,
            "locked_until": {"$gt": server_time(self._data, session)},
        }

    def emit(self, batch: TimeoutBatch) -> int:
        following = scheduling.recurring(batch, self._options)

        def work(session: ClientSession) -> int:
            own: Document = self._app | {"_id": {"$in": [str(row.id) for row in batch]}}
            own |= {"locked_by": batch.owner, "locked_until": {"$gt": server_time(self._data, session)}}
            leased = {
                row["_id"] for row in self._rows.find(own, {"_id": 1}, batch_size=len(batch) + 1, session=session)
            }
            self._rows.delete_many({"_id": {"$in": list(leased)}}, session=session)
            if again := [_document(row, self._space.app) for row in following if str(row.id) in leased]:
                self._rows.insert_many(again, session=session)
            write_rows(self._data, [emitted(row) for row in batch if str(row.id) in leased], session, self._space)
            return len(leased)

        return self._steps.run(work) if batch else 0

    def reap_stale_leases(self) -> int:
        def work(session: ClientSession) -> int:
            now = server_time(self._data, session)
            stale = self._app | {"due": {"$lte": micros(now)}, "locked_until": {"$lte": now}}
            return self._rows.update_many(stale, _FREED, session=session).modified_count

        return self._steps.run(work)

    def next_due(self) -> datetime | None:
        with self._steps.reading():
            free = self._app | {"locked_until": {"$not": {"$gt": server_time(self._data)}}}
            document = self._rows.find_one(free, {"due": 1}, sort=_BY_TIME)
            return moment(document["due"]) if document else None

    def cancel(self, id: UUID) -> bool:
        return self._steps.run(
            lambda session: self._rows.delete_one(self._app | {"_id": str(id)}, session=session).deleted_count > 0
        )

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        change = {"$set": {"due": micros(scheduling.check_zone(due_at))}}
        change |= {"$unset": _FREED["$unset"] | {"scheduled": 1}}
        named = self._app | {"_id": str(id)}
        return self._steps.run(lambda session: self._rows.update_one(named, change, session=session).matched_count > 0)

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        condition = {"destination": destination, "owner": owner, "key": key}
        wanted = self._app | {name: value for name, value in condition.items() if value is not None}
        with self._steps.reading():
            return [_timeout(row) for row in self._rows.find(wanted).sort(_BY_TIME).limit(limit)]

    def count(self) -> int:
        with self._steps.reading():
            return self._rows.count_documents(self._app)


def schedule(data: MongoDatabase, app: str, changes: Changes, session: ClientSession) -> None:
    """Cancels and inserts the timeouts of a commit. A timeout whose id exists is left as it is."""
    if changes.cancels:
        named = {"_id": {"$in": [str(id) for id in changes.cancels]}, "app": {"$in": [None, app]}}
        data[TIMEOUT].delete_many(named, session=session)
    new = {str(timeout.id): timeout for timeout in reversed(changes.timeouts)}
    for id in _known(data, changes.timeouts, session):
        del new[id]
    if new:
        data[TIMEOUT].insert_many([_document(row, app) for row in new.values()], session=session)


def _known(data: MongoDatabase, timeouts: Sequence[Timeout], session: ClientSession) -> list[str]:
    ids = [str(timeout.id) for timeout in timeouts]
    return [row["_id"] for row in data[TIMEOUT].find({"_id": {"$in": ids}}, {"_id": 1}, session=session)] if ids else []


def _document(timeout: Timeout, app: str) -> Document:
    fields = {"_id": str(timeout.id), "destination": timeout.destination, "due": micros(timeout.due_at)}
    named: Document = {"key": timeout.key, "owner": timeout.owner, "app": app or None}
    named["message"] = _encode((timeout.value, timeout.headers))
    named["scheduled"] = None if timeout.scheduled_at is None else micros(timeout.scheduled_at)
    return fields | {name: value for name, value in named.items() if value is not None}


def _timeout(row: Document) -> Timeout:
    value, headers = _decode(row["message"])
    after = (row["due"] - row["scheduled"]) * MICROSECOND if "scheduled" in row else None
    about = row.get("key"), value, headers, row.get("owner"), after
    return Timeout(UUID(row["_id"]), row["destination"], moment(row["due"]), *about)
