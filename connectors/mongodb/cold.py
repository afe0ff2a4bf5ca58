"""The cold groups of a partition: one document for each group."""

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice

from bson.max_key import MaxKey
from bson.min_key import MinKey
from pymongo import ReplaceOne
from pymongo.client_session import ClientSession

from sluicegate.connectors.commits import dropped
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.migrations import COLD
from sluicegate.streams.contracts.values import Changes, ColdGroup

PAGE = 1_000  # keys in one statement


def apply(data: MongoDatabase, key: str, changes: Changes, session: ClientSession) -> None:
    gone = dropped(changes)
    for at in range(0, len(gone), PAGE):
        places = [place(key, group) for group in gone[at : at + PAGE]]
        data[COLD].delete_many({"_id": {"$in": places}}, session=session)
    if changes.put_cold:
        writes = [
            ReplaceOne({"_id": place(key, group.key)}, {"due": group.due, "state": group.state}, upsert=True)
            for group in changes.put_cold
        ]
        data[COLD].bulk_write(writes, ordered=False, session=session)


def with_keys(data: MongoDatabase, key: str, groups: Sequence[bytes]) -> list[ColdGroup]:
    pages = (groups[at : at + PAGE] for at in range(0, len(groups), PAGE))
    places = ([place(key, group) for group in page] for page in pages)
    return [group for page in places for group in _groups(data[COLD].find({"_id": {"$in": page}}))]


def due(data: MongoDatabase, key: str, until: float, limit: int) -> list[ColdGroup]:
    condition = {"_id.partition": key, "due": {"$lte": until}}
    return _groups(data[COLD].find(condition).sort([("due", 1), ("_id.key", 1)]).limit(limit))


def page(data: MongoDatabase, key: str, after: bytes | None, limit: int) -> list[ColdGroup]:
    first = {"partition": key, "key": MinKey() if after is None else after}
    between = {"$gt": first, "$lt": {"partition": key, "key": MaxKey()}}
    return _groups(data[COLD].find({"_id": between}).sort("_id").limit(limit))


def before(data: MongoDatabase, key: str, end: bytes, limit: int) -> list[ColdGroup]:
    """MongoDB compares byte strings by their length first. So each length that occurs has a range of its own."""
    ranges = []
    length = _next_length(data, key, MinKey())
    while length is not None:
        last = b"\xff" * length
        short = end[:length]
        low, high = place(key, b"\x00" * length), place(key, short.ljust(length, b"\x00"))
        until = "$lt" if len(end) <= length else "$lte"
        ranges.append(data[COLD].find({"_id": {"$gte": low, until: high}}).sort("_id").limit(limit))
        length = _next_length(data, key, last)
    return _groups(islice(merge(*ranges, key=lambda document: document["_id"]["key"]), limit))


def _next_length(data: MongoDatabase, key: str, after: object) -> int | None:
    """The length of the keys that follow this one."""
    between = {"$gt": place(key, after), "$lt": place(key, MaxKey())}
    document = data[COLD].find_one({"_id": between}, {"_id": 1}, sort=[("_id", 1)])
    return None if document is None else len(document["_id"]["key"])


def place(key: str, group: object) -> Document:
    return {"partition": key, "key": group}


def of_partition(key: str) -> Document:
    """A condition: all groups of the partition."""
    return {"_id": {"$gt": place(key, MinKey()), "$lt": place(key, MaxKey())}}


def _groups(documents: Iterable[Document]) -> list[ColdGroup]:
    return [ColdGroup(document["_id"]["key"], document["due"], document["state"]) for document in documents]
