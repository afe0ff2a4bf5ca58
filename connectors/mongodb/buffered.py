"""The rows of buffers as documents: which ones are free, what goes when they go, what callers get of them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from pymongo import DeleteOne, ReplaceOne, UpdateOne
from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers, times
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.migrations import BUFFER, GROUP, KEY, SEALED
from sluicegate.connectors.mongodb.steps import until
from sluicegate.streams.contracts.leased_values import Entry, Gate, Types
from sluicegate.streams.contracts.record import Header

HIGHEST = 2**63 - 1
OPEN: Document = {"batch": None, "broken": None}
"""In no batch, and not set back from one."""
FREED: Document = {"$unset": {"token": 1, "expires_at": 1}}
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


def entry(found: Document) -> Entry:
    headers = _headers(found["headers"]) if "headers" in found else ()
    return Entry(
        found["key"], found["correlation"], found.get("type", ""), found["data"], headers, found.get("group", "")
    )


def number(found: Document) -> str:
    """What a row is called outside."""
    return str(found["_id"]["number"])


def decoded(rows: Iterable[Document], types: Types | None) -> buffers.Decoded:
    return buffers.decoded(((number(each), entry(each)) for each in rows), types)


def of(name: str) -> Document:
    """A condition on `_id`: that index has them in the order in which they were inserted."""
    return {"_id": {"$gte": {"name": name, "number": 0}, "$lte": {"name": name, "number": HIGHEST}}}


def numbered(name: str, ids: Iterable[str]) -> Document:
    return {"_id": {"$in": [{"name": name, "number": int(id)} for id in ids]}}


def unleased(now: datetime) -> Document:
    return {"expires_at": {"$not": {"$gt": now}}}


def known(types: Types | None) -> Document:
    """Those whose type has a decoder now."""
    return {} if types is None else {"type": {"$in": list(types)}}


def remembered(data: MongoDatabase, name: str, keys: Sequence[str], now: datetime, session: ClientSession) -> set[str]:
    """Those of the keys whose row is there, or was, not long enough ago."""
    there = data[BUFFER].find(
        {"name": name, "key": {"$in": keys}}, {"key": 1, "_id": 0}, batch_size=len(keys) + 1, session=session
    )
    ids = [{"name": name, "key": key} for key in keys]
    gone = data[KEY].find(
        {"_id": {"$in": ids}, "until": {"$gt": now}}, {"_id": 1}, batch_size=len(keys) + 1, session=session
    )
    return {each["key"] for each in there} | {each["_id"]["key"] for each in gone}


def drop(data: MongoDatabase, name: str, rows: Sequence[Document], now: datetime, session: ClientSession) -> int:
    """Their keys stay known as long as was asked for, and no deadline or batch is left of rows that are not; returns
    how many."""
    if not rows:
        return 0
    data[BUFFER].delete_many({"_id": {"$in": [each["_id"] for each in rows]}}, session=session)
    kept = [each for each in rows if each.get("keep")]
    if kept:
        data[KEY].bulk_write([_tombstone(name, each, now) for each in kept], session=session)
    for batch in {each["batch"] for each in rows if each.get("batch")}:
        gone = sum(1 for each in rows if each.get("batch") == batch)
        data[SEALED].update_one({"_id": batch}, {"$inc": {"count": -gone}}, session=session)
        data[SEALED].delete_one({"_id": batch, "count": {"$lte": 0}}, session=session)
    forget(data, name, list({each.get("group", "") for each in rows}), session)
    return len(rows)


def _tombstone(name: str, found: Document, now: datetime) -> ReplaceOne[Document]:
    id = {"name": name, "key": found["key"]}
    return ReplaceOne({"_id": id}, {"until": until(now, found["keep"] * timedelta(microseconds=1))}, upsert=True)


def forget(data: MongoDatabase, name: str, groups: Sequence[str], session: ClientSession) -> None:
    """The deadlines of those groups that have no open rows."""
    timed = [
        each["_id"]
        for each in data[GROUP].find(
            {"_id": {"$in": [{"name": name, "group": each} for each in groups]}}, session=session
        )
    ]
    if timed:
        left = spans(data, name, [each["group"] for each in timed], session)
        data[GROUP].delete_many(
            {"_id": {"$in": [each for each in timed if each["group"] not in left]}}, session=session
        )


def spans(
    data: MongoDatabase, name: str, groups: Sequence[str], session: ClientSession
) -> dict[str, tuple[datetime, datetime]]:
    """When the first and the last open row of each group came; groups without any are left out."""
    found = data[BUFFER].aggregate(
        [
            {"$match": {"name": name, "group": {"$in": list(groups)}} | OPEN},
            {"$group": {"_id": "$group", "first": {"$min": "$at"}, "last": {"$max": "$at"}}},
        ],
        session=session,
    )
    return {each["_id"]: (each["first"], each["last"]) for each in found}


def set_deadlines(data: MongoDatabase, name: str, groups: Sequence[str], gate: Gate, session: ClientSession) -> None:
    timed = gate.after_first is not None or gate.after_last is not None
    ends = (
        {group: _deadline(gate, *span) for group, span in spans(data, name, groups, session).items()} if timed else {}
    )
    writes: list[Any] = [
        UpdateOne(
            {"_id": {"name": name, "group": group}}, {"$set": {"name": name, "deadline": ends[group]}}, upsert=True
        )
        if group in ends
        else DeleteOne({"_id": {"name": name, "group": group}})
        for group in groups
    ]
    if writes:
        data[GROUP].bulk_write(writes, ordered=False, session=session)


def _deadline(gate: Gate, first: datetime, last: datetime) -> datetime:
    """Up to the next millisecond: never before its time."""
    end = buffers.deadline(gate, times.micros(first), times.micros(last))
    return times.moment(-(-(end or 0) // 1000) * 1000)
