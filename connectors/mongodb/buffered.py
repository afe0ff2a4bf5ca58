"""Rows of buffers as documents: conditions that select them, their removal, and their conversion."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from pymongo import DeleteOne, ReplaceOne
from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers, times
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.migrations import BUFFER, EARLY, GROUP, KEY, SEALED
from sluicegate.connectors.mongodb.steps import until
from sluicegate.streams.contracts.leased_values import Entry, Gate, Types
from sluicegate.streams.contracts.record import Header

HIGHEST = 2**63 - 1
OPEN: Document = {"batch": None, "broken": None}
"""Rows in no batch. Rows that went back from a batch, because they did not decode, are not open."""
FREED: Document = {"$unset": {"token": 1, "leased_at": 1, "expires_at": 1}}
FOR_REMOVAL = {"key": 1, "keep": 1, "group": 1, "batch": 1}

_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(list[Header]).decode


def row(name: str, number: int, entry: Entry, now: datetime, keep: timedelta) -> Document:
    return {
        "_id": {"name": name, "number": number},
        "name": name,
        "key": entry.idempotency_key,
        "correlation": entry.correlation_id,
        "type": entry.type,
        "group": entry.group,
        "data": entry.data,
        "headers": _encode(entry.headers),
        "at": now,
    } | ({"keep": times.length(keep)} if keep else {})


def entry(document: Document) -> Entry:
    headers = _headers(document["headers"]) if "headers" in document else ()
    return Entry(
        document["key"],
        document["correlation"],
        document.get("type", ""),
        document["data"],
        headers,
        document.get("group", ""),
    )


def number(document: Document) -> str:
    """The row's id for callers."""
    return str(document["_id"]["number"])


def decoded(rows: Iterable[Document], types: Types | None) -> buffers.Decoded:
    return buffers.decoded(((number(row), entry(row)) for row in rows), types)


def of(name: str) -> Document:
    """The condition on `_id` that selects all rows of a buffer. The index on `_id` has them in the order of their
    insertion."""
    return {"_id": {"$gte": {"name": name, "number": 0}, "$lte": {"name": name, "number": HIGHEST}}}


def numbered(name: str, ids: Iterable[str]) -> Document:
    return {"_id": {"$in": [{"name": name, "number": int(id)} for id in ids]}}


def unleased(now: datetime) -> Document:
    return {"expires_at": {"$not": {"$gt": now}}}


def set_leases_back(data: MongoDatabase, name: str, now: datetime, session: ClientSession) -> None:
    """A lease that begins later than now was given while the clock was ahead: it begins now."""
    ahead = {"name": name, "token": {"$exists": True}, "expires_at": {"$gt": now}, "leased_at": {"$gt": now}}
    expires = {"$add": [now, {"$subtract": ["$expires_at", "$leased_at"]}]}
    for leases in (data[BUFFER], data[SEALED]):
        leases.update_many(ahead, [{"$set": {"leased_at": now, "expires_at": expires}}], session=session)


def set_keys_back(data: MongoDatabase, name: str, now: datetime, keep: int, session: ClientSession) -> None:
    """A key that is kept for longer than `keep`, the longest time that an insert asked for, was removed while the clock
    was ahead."""
    latest = until(now, keep * times.MICROSECOND)
    ahead = {"_id.name": name, "until": {"$gt": latest}}
    data[KEY].update_many(ahead, {"$set": {"until": latest}}, session=session)


def set_deadlines_back(data: MongoDatabase, name: str, gate: Gate, now: datetime, session: ClientSession) -> None:
    """A deadline that is later than any that the gate sets now, or that counts from a later time than now, was set
    while the clock was ahead: rows that were inserted later than now count as inserted now."""
    latest = buffers.deadline(gate, times.micros(now), times.micros(now))
    ahead = [] if latest is None else [("deadline", _moment(latest))]
    groups: list[str] = []
    for field, most in [*ahead, ("since", now)] if gate.dues else ahead:
        rows = data[GROUP].find({"name": name, field: {"$gt": most}}, {"_id": 1}, session=session)
        groups += [row["_id"]["group"] for row in rows.sort(field).limit(buffers.SET_BACK)]
    if groups:
        groups = list(dict.fromkeys(groups))
        later = {"name": name, "group": {"$in": groups}, "at": {"$gt": now}} | OPEN
        data[BUFFER].update_many(later, {"$set": {"at": now}}, session=session)
        set_deadlines(data, name, groups, gate, now, session)


def known(types: Types | None) -> Document:
    """The condition that the type of a row has a decoder."""
    return {} if types is None else {"type": {"$in": list(types)}}


def remembered(data: MongoDatabase, name: str, keys: Sequence[str], now: datetime, session: ClientSession) -> set[str]:
    """The keys that have a row, or whose removed row is still remembered."""
    size = len(keys) + 1
    present = {"name": name, "key": {"$in": keys}}
    there = data[BUFFER].find(present, {"key": 1, "_id": 0}, batch_size=size, session=session)
    removed = {"_id": {"$in": [{"name": name, "key": key} for key in keys]}, "until": {"$gt": now}}
    gone = data[KEY].find(removed, {"_id": 1}, batch_size=size, session=session)
    return {row["key"] for row in there} | {tombstone["_id"]["key"] for tombstone in gone}


def drop(data: MongoDatabase, name: str, rows: Sequence[Document], now: datetime, session: ClientSession) -> int:
    """Removes rows, and with them their batches and deadlines when these have no rows left. Remembers the rows' keys as
    long as their insert asked for. Returns the number of rows."""
    if not rows:
        return 0
    data[BUFFER].delete_many({"_id": {"$in": [row["_id"] for row in rows]}}, session=session)
    kept = [row for row in rows if row.get("keep")]
    if kept:
        data[KEY].bulk_write([_tombstone(name, row, now) for row in kept], session=session)
    for batch, gone in Counter(row["batch"] for row in rows if row.get("batch")).items():
        data[SEALED].update_one({"_id": batch}, {"$inc": {"count": -gone}}, session=session)
        data[SEALED].delete_one({"_id": batch, "count": {"$lte": 0}}, session=session)
    forget(data, name, list({row.get("group", "") for row in rows}), session)
    return len(rows)


def _tombstone(name: str, document: Document, now: datetime) -> ReplaceOne[Document]:
    id = {"name": name, "key": document["key"]}
    return ReplaceOne({"_id": id}, {"until": until(now, document["keep"] * timedelta(microseconds=1))}, upsert=True)


def forget(data: MongoDatabase, name: str, groups: Sequence[str], session: ClientSession) -> None:
    """Removes the deadlines and the early results of those groups that have no open rows."""
    ids = {"_id": {"$in": [{"name": name, "group": group} for group in groups]}}
    there = [state["_id"] for states in (GROUP, EARLY) for state in data[states].find(ids, {"_id": 1}, session=session)]
    if there:
        open_groups = spans(data, name, list({group_id["group"] for group_id in there}), session)
        gone = {"_id": {"$in": [group_id for group_id in there if group_id["group"] not in open_groups]}}
        for states in (GROUP, EARLY):
            data[states].delete_many(gone, session=session)


class OpenSpan(NamedTuple):
    """The open rows of a group: the times of the first and the last one, and the number of the first."""

    first: datetime
    last: datetime
    oldest: int


def spans(data: MongoDatabase, name: str, groups: Sequence[str], session: ClientSession) -> dict[str, OpenSpan]:
    """The spans of the groups that have open rows."""
    ends = {"first": {"$min": "$at"}, "last": {"$max": "$at"}, "oldest": {"$min": "$_id.number"}}
    pipeline: list[Document] = [
        {"$match": {"name": name, "group": {"$in": list(groups)}} | OPEN},
        {"$group": {"_id": "$group"} | ends},
    ]
    rows = data[BUFFER].aggregate(pipeline, session=session)
    return {row["_id"]: OpenSpan(row["first"], row["last"], row["oldest"]) for row in rows}


def set_deadlines(
    data: MongoDatabase,
    name: str,
    groups: Sequence[str],
    gate: Gate,
    now: datetime,
    session: ClientSession,
    new: Mapping[str, buffers.KnownDue] = buffers.NO_DUES,
) -> None:
    """The deadlines of the open rows of these groups. `new` are the deadlines that rows of this transaction gave."""
    rows, dues = spans(data, name, groups, session) if gate.timed else {}, dict(new)
    if gate.dues:
        ids = {"_id": {"$in": [{"name": name, "group": group} for group in groups]}, "given": {"$exists": True}}
        stored = data[GROUP].find(ids, {"given": 1}, session=session)
        dues = {deadline["_id"]["group"]: buffers.KnownDue(*deadline["given"]) for deadline in stored} | dues
    writes: list[Any] = []
    for group in groups:
        its, document = {"_id": {"name": name, "group": group}}, None
        if group in rows:
            due = buffers.open_due(dues.get(group), rows[group].oldest, times.micros(now))
            document = _deadline(gate, rows[group], due)
        writes.append(DeleteOne(its) if document is None else ReplaceOne(its, document | {"name": name}, upsert=True))
    if writes:
        data[GROUP].bulk_write(writes, ordered=False, session=session)


def _deadline(gate: Gate, span: OpenSpan, due: buffers.KnownDue | None) -> Document | None:
    first = times.micros(span.first)
    end = buffers.deadline(gate, first, times.micros(span.last), due)
    if end is None:
        return None
    begin = None if due is None else due.begin(first)
    document = {"deadline": _moment(end)} | ({} if due is None else {"given": list(due)})
    return document | ({} if begin is None else {"since": times.moment(begin)})


def _moment(end: int) -> datetime:
    """Rounded up to the next millisecond, so that a deadline never comes early."""
    return times.moment(-(-end // 1000) * 1000)
