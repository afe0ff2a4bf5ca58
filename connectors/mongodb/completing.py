"""Completing sealed batches: five calls, however many they are. One by one they took four each, and while one worker
completed a hundred, the calls of other workers met its lock until their time was up."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers
from sluicegate.connectors.mongodb import buffered
from sluicegate.connectors.mongodb.connection import MongoDatabase
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, SEALED


def complete(
    data: MongoDatabase, name: str, ends: Sequence[buffers.End], now: datetime, session: ClientSession
) -> list[bool]:
    """Rows that could not be decoded go back to the buffer, marked. Raises ConcurrencyError when a batch has other rows
    than it was sealed with: then nothing may be committed."""
    ids = [batch.id for batch, _ in ends]
    tokens = {
        each["_id"]: each["token"]
        for each in data[SEALED].find({"_id": {"$in": ids}, "name": name}, {"token": 1}, session=session)
    }
    done = buffers.ours(ends, tokens)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    wanted = {(batch.id, number) for batch, _ in ours for number in batch.ids}
    undecoded = {batch.id: batch.unresolved for batch, _ in ours if batch.unresolved}
    held = {
        "name": name,
        "group": {"$in": [batch.group for batch, _ in ours]},
        "batch": {"$in": [batch.id for batch, _ in ours]},
    }
    rows = list(data[BUFFER].find(held, buffered.FOR_REMOVAL, session=session)) if ours else []
    gone = [row for row in rows if (row["batch"], buffered.number(row)) in wanted]
    back = [row for row in rows if (row["batch"], buffered.number(row)) not in wanted]
    if len(gone) != len(wanted) or Counter(row["batch"] for row in back) != undecoded:
        raise buffers.taken(name, "batch")
    data[SEALED].delete_many({"_id": {"$in": [batch.id for batch, _ in ours]}}, session=session)
    write_rows(data, [message for _, outbox in ours for message in outbox], session)
    if back:
        marked = {"$unset": {"batch": 1}, "$set": {"broken": True}}
        data[BUFFER].update_many({"_id": {"$in": [row["_id"] for row in back]}}, marked, session=session)
    buffered.drop(data, name, [row | {"batch": None} for row in gone], now, session)
    return done
