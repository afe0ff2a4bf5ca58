"""Rows of the outbox, many to a document, and the one function that writes them.

A document for each row would cost the server two updates of a row between its insert and its end, and these 7,000 rows
a second. The rows of one document follow each other in their lane and have one fate: where they come to differ, it is
cut.

`first` is the number of the first row. Before the lane is claimed it is out of one count for the whole store, taken
outside of the transaction (so that writers do not wait for each other): it orders what is not `numbered` yet. Whatever
is committed by a majority has that count's update, which came before it, in its history.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import msgspec
from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.write_concern import WriteConcern

from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.migrations import MESSAGE, META
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.messages import OutboxMessage, StoredMessage
from sluicegate.streams.errors import SystemNotReady

MOST = 1000
MOST_BYTES = 1024 * 1024
GONE: Document = {"state": "gone"}
"""The fate of a row that is deleted."""

_AT_ONCE = WriteConcern(1)


class OutboxDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`order` is among all rows of the store, as they were written."""

    id: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    lane_key: bytes | None
    order: int
    created_at: datetime


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[OutboxDocument]).decode


def write_rows(data: MongoDatabase, messages: Sequence[OutboxMessage], session: ClientSession) -> int:
    """In the transaction of `session`; those whose id is there are left out. Returns how many were new.

    An id that another transaction adds meanwhile is a conflict, by the unique index: the transaction begins again and
    finds it."""
    wanted: dict[str, OutboxMessage] = {}
    for message in messages:
        wanted.setdefault(message.id, message)
    for found in data[MESSAGE].find({"ids": {"$in": list(wanted)}}, {"ids": 1}, session=session) if wanted else ():
        for id in found["ids"]:
            wanted.pop(id, None)
    if wanted:
        numbers, lanes, now = reserve(data, len(wanted))
        data[MESSAGE].insert_many(list(_packed(list(wanted.values()), numbers, lanes, now)), session=session)
    return len(wanted)


def relaned(data: MongoDatabase, lanes: int, session: ClientSession) -> None:
    """Rows whose transaction began before the number of lanes was changed and ended after it go where they belong
    now."""
    for found in data[MESSAGE].find({"state": "pending", "lanes": {"$ne": lanes}}, session=session):
        settle(
            data, found, [{"lane": lane_of(message_of(row), lanes), "lanes": lanes} for row in rows_of(found)], session
        )


def reserve(data: MongoDatabase, count: int) -> tuple[range, int, datetime]:
    """So many numbers that nobody else has, how many lanes there are, and the server's time."""
    counts = data[META].with_options(write_concern=_AT_ONCE)
    found = counts.find_one_and_update(
        {"_id": "outbox"},
        {"$inc": {"last": count}, "$currentDate": {"now": True}},
        return_document=ReturnDocument.AFTER,
    )
    if found is None:
        raise SystemNotReady("the store's data are gone: run `sluicegate migrate`")
    return range(found["last"] - count + 1, found["last"] + 1), found["lanes"], found["now"]


def _packed(messages: Sequence[OutboxMessage], numbers: range, lanes: int, now: datetime) -> Iterator[Document]:
    of_lanes: dict[int, list[OutboxDocument]] = {}
    for order, message in zip(numbers, messages, strict=True):
        row = OutboxDocument(
            message.id, message.topic, message.key, message.value, list(message.headers), message.lane_key, order, now
        )
        of_lanes.setdefault(lane_of(message, lanes), []).append(row)
    first = numbers[0]
    for lane, rows in of_lanes.items():
        for part in parts(rows):
            yield document(
                part,
                {"state": "pending", "lane": lane, "lanes": lanes, "numbered": False, "first": first, "attempts": 0},
            )
            first += len(part)


def parts(rows: Sequence[OutboxDocument]) -> Iterator[Sequence[OutboxDocument]]:
    """As many in each as a document takes."""
    begin = size = 0
    for place, row in enumerate(rows):
        more = len(row.value or b"") + len(row.key or b"") + sum(len(value or b"") for _, value in row.headers)
        if place > begin and (place - begin >= MOST or size + more > MOST_BYTES):
            yield rows[begin:place]
            begin, size = place, 0
        size += more
    yield rows[begin:]


def document(rows: Sequence[OutboxDocument], fields: Document) -> Document:
    about = {
        "count": len(rows),
        "oldest": rows[0].order,
        "created_at": rows[0].created_at,
        "ids": [row.id for row in rows],
    }
    return fields | about | {"rows": _encode(rows)}


def rows_of(found: Document) -> list[OutboxDocument]:
    return _decode(found["rows"])


def settle(data: MongoDatabase, found: Document, fates: Sequence[Document | None], session: ClientSession) -> None:
    """Change what must change of each row of the document `found` (None: nothing): a field that becomes None is taken
    away."""
    groups = [(fate, len(list(group))) for fate, group in groupby(fates)]
    if len(groups) == 1:
        if (fate := groups[0][0]) == GONE:
            data[MESSAGE].delete_one({"_id": found["_id"]}, session=session)
        elif fate:
            data[MESSAGE].update_one({"_id": found["_id"]}, changing(fate), session=session)
        return
    data[MESSAGE].delete_one({"_id": found["_id"]}, session=session)
    rows, begin, made = rows_of(found), 0, []
    for fate, size in groups:
        fields = (
            {name: value for name, value in found.items() if name != "_id"}
            | {"first": found["first"] + begin}
            | (fate or {})
        )
        if fate != GONE:
            made.append(
                document(
                    rows[begin : begin + size], {name: value for name, value in fields.items() if value is not None}
                )
            )
        begin += size
    if made:
        data[MESSAGE].insert_many(made, session=session)


def changing(fields: Document) -> Document:
    """The update that sets these fields, and takes those away that are None."""
    kept = {name: value for name, value in fields.items() if value is not None}
    gone = {name: 1 for name, value in fields.items() if value is None}
    return ({"$set": kept} if kept else {}) | ({"$unset": gone} if gone else {})


def message_of(row: OutboxDocument) -> OutboxMessage:
    return OutboxMessage(row.topic, row.key, row.value, row.headers, row.id, row.lane_key)


def stored(found: Document, row: OutboxDocument) -> StoredMessage:
    known: Any = found.get
    return StoredMessage(
        message_of(row),
        found["state"],
        found["lane"],
        known("attempts", 0),
        row.created_at,
        known("dispatched_at"),
        known("next_at"),
        known("reason", ""),
    )
