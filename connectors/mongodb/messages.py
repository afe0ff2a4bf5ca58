"""Rows of the outbox, many in one document, and the one function that writes them.

One document for each row would cost the server two updates of the row between its insert and its end, and 7,000 rows a
second. The rows of one document are neighbours in their lane and have the same state. When their states differ, the
document is cut.

`first` is the number of the first row. Until the lane is claimed, it comes from one count of the whole store and orders
the rows that are not `numbered` yet. The count is raised outside of the transaction, so that writers do not wait for
each other. What a majority has committed includes that earlier update.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

import msgspec
from pymongo import ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.write_concern import WriteConcern

from sluicegate.connectors.mongodb.connection import Document, MongoDatabase, outside
from sluicegate.connectors.mongodb.migrations import MESSAGE, META
from sluicegate.connectors.outboxes import Space, space_of
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.messages import OutboxMessage, StoredMessage
from sluicegate.streams.errors import SystemNotReady

MOST = 1000
MOST_BYTES = 1024 * 1024
GONE: Document = {"state": "gone"}
"""The fate of a row that is deleted."""

_AT_ONCE = WriteConcern(1)


class OutboxDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row. `order` is its place among all rows of the store, in the order of writing."""

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


def write_rows(data: MongoDatabase, messages: Sequence[OutboxMessage], session: ClientSession, space: Space) -> int:
    """Writes messages in the transaction of `session`, except those whose id exists. Returns the number of new ones.

    When another transaction adds the same id meanwhile, the unique index makes a conflict: the transaction begins again
    and finds the id."""
    wanted: dict[str, OutboxMessage] = {}
    for message in messages:
        wanted.setdefault(space.prefix + message.id, message)
    for entry in data[MESSAGE].find({"ids": {"$in": list(wanted)}}, {"ids": 1}, session=session) if wanted else ():
        for id in entry["ids"]:
            wanted.pop(id, None)
    if wanted:
        numbers, lanes, now = reserve(data, len(wanted), space)
        data[MESSAGE].insert_many(list(_packed(list(wanted.values()), numbers, lanes, now, space)), session=session)
    return len(wanted)


def counts_id(space: Space) -> str:
    """The id of the document that has the number of lanes and the last number."""
    return f"outbox/{space.app}" if space.app else "outbox"


def of_app(space: Space) -> Document:
    """The condition that selects the documents of this app. Documents without an app have no field for it."""
    return {"app": space.app or None}


def move_lanes(data: MongoDatabase, lanes: int, session: ClientSession, space: Space) -> None:
    """Moves rows to the lanes of the new number of lanes. These rows were written by transactions that began before the
    number changed and ended after it."""
    moved = {"state": "pending", "lanes": {"$ne": lanes}} | of_app(space)
    for entry in data[MESSAGE].find(moved, session=session):
        fates = [{"lane": space.lane_of(message_of(row), lanes), "lanes": lanes} for row in rows_of(entry)]
        settle(data, entry, fates, session)


def reserve(data: MongoDatabase, count: int, space: Space) -> tuple[range, int, datetime]:
    """Reserves `count` unused numbers. Returns them, the number of lanes, and the server's time."""
    counts = data[META].with_options(write_concern=_AT_ONCE)
    taken = outside(
        data.client,
        lambda: counts.find_one_and_update(
            {"_id": counts_id(space)},
            {"$inc": {"last": count}, "$currentDate": {"now": True}, "$setOnInsert": {"lanes": LANES}},
            upsert=bool(space.app),
            return_document=ReturnDocument.AFTER,
        ),
    )
    if taken is None:
        raise SystemNotReady("the store's data are gone: run `sluicegate migrate`")
    return range(taken["last"] - count + 1, taken["last"] + 1), taken["lanes"], taken["now"]


def _packed(
    messages: Sequence[OutboxMessage], numbers: range, lanes: int, now: datetime, space: Space
) -> Iterator[Document]:
    of_lanes: dict[int, list[OutboxDocument]] = {}
    for order, it in zip(numbers, messages, strict=True):
        row = OutboxDocument(it.id, it.topic, it.key, it.value, list(it.headers), it.lane_key, order, now)
        of_lanes.setdefault(space.lane_of(it, lanes), []).append(row)
    fields = {"state": "pending", "lanes": lanes, "numbered": False, "attempts": 0} | app_field(space)
    first = numbers[0]
    for lane, rows in of_lanes.items():
        for part in parts(rows):
            yield document(part, fields | {"lane": lane, "first": first})
            first += len(part)


def app_field(space: Space) -> Document:
    return {"app": space.app} if space.app else {}


def parts(rows: Sequence[OutboxDocument]) -> Iterator[Sequence[OutboxDocument]]:
    """Cuts rows into parts that fit into one document each."""
    begin = size = 0
    for place, row in enumerate(rows):
        more = len(row.value or b"") + len(row.key or b"") + sum(len(value or b"") for _, value in row.headers)
        if place > begin and (place - begin >= MOST or size + more > MOST_BYTES):
            yield rows[begin:place]
            begin, size = place, 0
        size += more
    yield rows[begin:]


def document(rows: Sequence[OutboxDocument], fields: Document) -> Document:
    prefix = space_of(fields.get("app", "")).prefix
    about = {
        "count": len(rows),
        "oldest": rows[0].order,
        "created_at": rows[0].created_at,
        "ids": [prefix + row.id for row in rows],
    }
    return fields | about | {"rows": _encode(rows)}


def rows_of(entry: Document) -> list[OutboxDocument]:
    return _decode(entry["rows"])


def settle(data: MongoDatabase, entry: Document, fates: Sequence[Document | None], session: ClientSession) -> None:
    """Changes the fields of each row of the document `entry`; None changes none. A field that becomes None is removed.
    Rows with different changes get documents of their own."""
    groups = [(fate, len(list(group))) for fate, group in groupby(fates)]
    if len(groups) == 1:
        if (fate := groups[0][0]) == GONE:
            data[MESSAGE].delete_one({"_id": entry["_id"]}, session=session)
        elif fate:
            data[MESSAGE].update_one({"_id": entry["_id"]}, changing(fate), session=session)
        return
    data[MESSAGE].delete_one({"_id": entry["_id"]}, session=session)
    rows, begin, made = rows_of(entry), 0, []
    for fate, size in groups:
        if fate != GONE:
            fields = entry | {"first": entry["first"] + begin} | (fate or {}) | {"_id": None}
            kept = {name: value for name, value in fields.items() if value is not None}
            made.append(document(rows[begin : begin + size], kept))
        begin += size
    if made:
        data[MESSAGE].insert_many(made, session=session)


def changing(fields: Document) -> Document:
    """The update that sets these fields, and removes those that are None."""
    kept = {name: value for name, value in fields.items() if value is not None}
    gone = {name: 1 for name, value in fields.items() if value is None}
    return ({"$set": kept} if kept else {}) | ({"$unset": gone} if gone else {})


def message_of(row: OutboxDocument) -> OutboxMessage:
    return OutboxMessage(row.topic, row.key, row.value, row.headers, row.id, row.lane_key)


def stored(entry: Document, row: OutboxDocument) -> StoredMessage:
    attempts = entry.get("attempts", 0)
    sent = entry.get("dispatched_at")
    waits = entry.get("next_at")
    reason = entry.get("reason", "")
    lane = entry["lane"] - space_of(entry.get("app", "")).base
    return StoredMessage(message_of(row), entry["state"], lane, attempts, row.created_at, sent, waits, reason)
