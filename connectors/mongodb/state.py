"""The store in MongoDB. Each commit is one transaction; the filter of its first statement is the fence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from itertools import count
from typing import Any, TypeVar

import msgspec
from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from sluicegate.connectors.apps import outbox_of, timeouts_of
from sluicegate.connectors.commits import check, commit_each, next_claim, remaining_mark
from sluicegate.connectors.mongodb import chunks, cold, connection, durability, left_open, lookups, migrations, unit
from sluicegate.connectors.mongodb.buffer import MongoBuffer
from sluicegate.connectors.mongodb.connection import Document
from sluicegate.connectors.mongodb.migrations import CHANGELOG, CLAIM, COLD, DEAD, OUTBOX
from sluicegate.connectors.mongodb.outbox import MongoOutbox
from sluicegate.connectors.mongodb.steps import StepRunner
from sluicegate.connectors.mongodb.timeouts import MongoTimeouts, schedule
from sluicegate.connectors.sessions import MongoSession, unchanged
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.leased import OutboxStore, TimeoutStore
from sluicegate.streams.contracts.options import STANDARD, LeasedOptions
from sluicegate.streams.contracts.stores import LookupKey, RowFields
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    CrashMark,
    DeadRow,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
    Source,
)
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError, SystemNotReady

_PAGE = 16
_COUNTS = {
    "version": ("version", 0),
    "offset": ("next_offset", -1),
    "epoch": ("epoch", -1),
    "number": ("last_number", 0),
    "first": ("first_entry", 1),
    "last": ("last_entry", 0),
}
"""Attribute of a claim -> field of its row, value in a new row."""

_encode = msgspec.msgpack.Encoder().encode
_source = msgspec.msgpack.Decoder(Source).decode
_trying = msgspec.msgpack.Decoder(CrashMark).decode

T = TypeVar("T")


class MongoStore:
    """The store in one database. Any thread may call. Times are the server's."""

    def __init__(self, url: str, options: LeasedOptions = STANDARD) -> None:
        self._url, self._options = url, options
        self._server = connection.client(url, left_open.mark())
        self._data = connection.database(self._server)
        # Partition -> token and session of our claim. The claim row holds the session's id, so that the next owner can
        # end a transaction that this one left open.
        self._sessions: dict[str, tuple[str, ClientSession]] = {}

    @cached_property
    def buffer(self) -> MongoBuffer:
        return MongoBuffer(self._steps, self._options.types, self._options.app)

    @cached_property
    def timeouts(self) -> TimeoutStore:
        return timeouts_of(self._options.app, partial(MongoTimeouts, self._steps, self._options.timeouts))

    @cached_property
    def outbox(self) -> OutboxStore:
        return outbox_of(self._options.app, partial(MongoOutbox, self._steps, self._options.outbox))

    def transaction(self) -> AbstractContextManager[MongoSession]:
        return unit.transaction(self._applications, connection.database(self._applications))

    @cached_property
    def _applications(self) -> connection.MongoServer:
        """A second client, because an application's transaction may stay open as long as the server allows."""
        return connection.client(self._url, left_open.mark(application=True))

    @cached_property
    def _steps(self) -> StepRunner:
        return StepRunner(self._server, self._data)

    @property
    def incarnation(self) -> str:
        """Raises SystemNotReady before the first `migrate`."""
        with connection.answering():
            name = migrations.incarnation(self._data)
        if name is None:
            raise SystemNotReady("the store's data have no name yet: run `sluicegate migrate`")
        return name

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        key = _key(partition)
        with connection.answering():
            name = migrations.name_data(self._data)
            previous = self._end_session(key)
            session = self._server.start_session()
            mine = {"token": token, "member": member, "session": session.session_id["id"]}
            change = {
                "$set": mine,
                "$setOnInsert": _unclaimed(partition) | {"incarnation": name},
                "$currentDate": {"time": True},
            }
            row = connection.outside(
                self._server,
                lambda: self._data[CLAIM].find_one_and_update(
                    {"_id": key}, change, upsert=True, return_document=ReturnDocument.AFTER
                ),
            )
            self._sessions[key] = token, session
            return msgspec.structs.replace(_claim(partition, row or {}, "time"), previous=previous)

    def restore(self, claim: Claim) -> Iterator[bytes]:
        for first in range(claim.first, claim.last + 1, _PAGE):
            numbers = chunks.between(_key(claim.partition), first, min(first + _PAGE - 1, claim.last))
            with connection.answering():
                page = list(self._data[CHANGELOG].find({"_id": numbers}).sort("_id"))
            for document in page:
                yield document["entry"]

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        check(claim, changes)
        return self._transact(lambda session: self._write(claim, changes, session), _key(claim.partition), claim.token)

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        attempts = count(1)

        def both(session: ClientSession) -> Claim:
            attempt = next(attempts)
            self._fence(claim, {}, session)
            changes = unit.worked(session, self._data, work)
            check(claim, changes)
            with unit.ours(attempt):
                return self._write(claim, changes, session)

        return unchanged(lambda: self._transact(both, _key(claim.partition), claim.token))

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        return lookups.look_up(session, lookup, keys)

    def _write(self, claim: Claim, changes: Changes, session: ClientSession) -> Claim:
        key, after = _key(claim.partition), next_claim(claim, changes, claim.store_time)
        now = self._fence(claim, _changed(after, changes), session)
        chunks.settle(self._data, key, changes, session)
        entries = [
            {"_id": chunks.place(key, number), "entry": entry}
            for number, entry in enumerate(changes.entries, claim.last + 1)
        ]
        _insert(self._data[CHANGELOG], entries, session)
        if after.first > claim.first:
            self._data[CHANGELOG].delete_many({"_id": chunks.between(key, 0, after.first - 1)}, session=session)
        _insert(self._data[OUTBOX], chunks.packed(key, changes.outbox), session)
        cold.apply(self._data, key, changes, session)
        if changes.timeouts or changes.cancels:
            self._steps.ready()
            schedule(self._data, self._options.app, changes, session)
        return msgspec.structs.replace(after, store_time=now)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        return commit_each(self.commit, commits)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        with connection.answering():
            return chunks.unsent(self._data, _key(partition), after, limit)

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        with connection.answering():
            return chunks.dead(self._data, _key(partition), limit)

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        with connection.answering():
            return cold.with_keys(self._data, _key(partition), keys)

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        with connection.answering():
            return cold.due(self._data, _key(partition), until, limit)

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        with connection.answering():
            return cold.page(self._data, _key(partition), after, limit)

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        with connection.answering():
            return cold.before(self._data, _key(partition), key, limit)

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        with connection.answering():
            for _ in range(connection.ATTEMPTS):
                row = self._data[CLAIM].find_one({"_id": _key(partition)}, {"token": 1, "version": 1, "trying": 1})
                if row is None:
                    return
                trying = None if row["trying"] is None else _trying(row["trying"])
                rest = remaining_mark(trying, processes)
                if rest == trying and row["token"] != token:
                    return
                change = {"$set": {"trying": None if rest is None else _encode(rest), "token": ""}}
                write = partial(self._data[CLAIM].update_one, row, change)
                if connection.outside(self._server, write).matched_count:
                    return
        raise PersistenceError(f"mongodb: {_key(partition)} changed too often to take a crash mark out")

    def forget(self, claim: Claim) -> None:
        key = _key(claim.partition)

        def work(session: ClientSession) -> None:
            if not self._data[CLAIM].delete_one(_of_claim(claim), session=session).deleted_count:
                raise Fenced(f"{key}: a newer claim or commit exists")
            for collection in (CHANGELOG, OUTBOX, DEAD):
                self._data[collection].delete_many({"_id": chunks.between(key)}, session=session)
            self._data[COLD].delete_many(cold.of_partition(key), session=session)

        self._transact(work, key, claim.token)
        self._sessions.pop(key, None)

    def read(self, partition: Partition) -> PartitionView | None:
        key = _key(partition)

        def work(session: ClientSession) -> PartitionView | None:
            pipeline = [{"$match": {"_id": key}}, {"$set": {"now": "$$NOW"}}]
            rows = list(self._data[CLAIM].aggregate(pipeline, session=session))
            if not rows:
                return None
            claim = _claim(partition, rows[0], "now")
            numbers = chunks.between(key, claim.first, claim.last)
            documents = self._data[CHANGELOG].find({"_id": numbers}, session=session).sort("_id")
            entries = [document["entry"] for document in documents]
            dead = self._data[DEAD].count_documents({"_id": chunks.between(key)}, session=session)
            return PartitionView(claim, entries, chunks.count(self._data, key, session), dead)

        return self._transact(work, key)

    def partitions(self, app: str) -> Sequence[Partition]:
        with connection.answering():
            return sorted(
                Partition(app, row["agent"], row["topic"], row["number"])
                for row in self._data[CLAIM].find({"app": app})
            )

    def apps(self) -> Sequence[str]:
        with connection.answering():
            return sorted(self._data[CLAIM].distinct("app"))

    def level(self) -> Level:
        return durability.level(self._server, self._data)

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        durability.check_transactions(self._server)
        with connection.answering():
            if dry_run:
                return [name for _, name, _ in migrations.outstanding(self._data)]
            return migrations.apply(self._data)

    def close(self) -> None:
        self._server.close()
        if "_applications" in self.__dict__:
            self._applications.close()

    def _end_session(self, key: str) -> str:
        """Ends a transaction of the last owner. It could outlive its process by a minute, with its lock on the row.
        Returns the token of a worker that has not released the partition."""
        row = self._data[CLAIM].find_one({"_id": key}, {"session": 1, "token": 1, "member": 1})
        if row is None:
            return ""
        self._server.admin.command("killSessions", [{"id": row["session"]}])
        return str(row["token"]) if row["member"] else ""

    def _transact(self, work: Callable[[ClientSession], T], key: str, token: str = "") -> T:
        """Runs `work` in the session of our claim. Other calls, and a second thread under the same claim, use a session
        of their own."""
        session_ = self._sessions.pop(key, None) if token else None
        if session_ is not None and session_[0] == token:
            try:
                return connection.transact(session_[1], self._data.write_concern, work)
            finally:
                self._sessions.setdefault(key, session_)
        if session_ is not None:
            self._sessions.setdefault(key, session_)
        with self._server.start_session() as session:
            return connection.transact(session, self._data.write_concern, work)

    def _fence(self, claim: Claim, fields: Document, session: ClientSession) -> float:
        """Writes these fields and locks the row until the transaction ends. Returns the server's time."""
        row = self._data[CLAIM].find_one_and_update(
            _of_claim(claim),
            {"$currentDate": {"time": True}} | ({"$set": fields} if fields else {}),
            projection={"_id": 0, "time": 1},
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        if row is None:
            raise Fenced(f"{_key(claim.partition)}: a newer claim or commit exists")
        return float(row["time"].timestamp())


def _of_claim(claim: Claim) -> Document:
    return {"_id": _key(claim.partition), "token": claim.token, "version": claim.version}


def _insert(collection: Collection[Document], documents: Sequence[Document], session: ClientSession) -> None:
    if len(documents) == 1:  # the usual case: it costs pymongo a third less
        collection.insert_one(documents[0], session=session)
    elif documents:
        collection.insert_many(documents, session=session)


def _key(partition: Partition) -> str:
    return f"{partition.app}/{partition.agent}/{partition.topic}/{partition.number}"


def _unclaimed(partition: Partition) -> Document:
    return {
        "app": partition.app,
        "agent": partition.agent,
        "topic": partition.topic,
        "number": partition.number,
        **dict(_COUNTS.values()),
        "source": None,
        "trying": None,
    }


def _changed(after: Claim, changes: Changes) -> Document:
    fields: Document = {field: getattr(after, name) for name, (field, _) in _COUNTS.items()}
    fields["trying"] = None if changes.trying is None else _encode(changes.trying)
    return fields if changes.source is None else fields | {"source": _encode(changes.source)}


def _claim(partition: Partition, row: Document, time: str) -> Claim:
    fields = {
        "partition": partition,
        "token": row["token"],
        "source": None if row["source"] is None else _source(row["source"]),
        "trying": None if row["trying"] is None else _trying(row["trying"]),
        "incarnation": row["incarnation"],
        "member": row["member"],
        "store_time": row[time].timestamp(),
    }
    return msgspec.convert(fields | {name: row[field] for name, (field, _) in _COUNTS.items()}, Claim)
