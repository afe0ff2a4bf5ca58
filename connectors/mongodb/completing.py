"""Completes sealed batches with five calls, however many the batches are. With four calls for each batch, one worker
that completed a hundred held the lock until the calls of other workers ran out of time."""

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
    """Returns of each batch whether it was completed. Rows that could not be decoded go back to the buffer with a mark.
    Raises ConcurrencyError when a batch has other rows than when it was sealed: then nothing may be committed."""
    sealed = {"_id": {"$in": [batch.id for batch, _ in ends]}, "name": name}
    tokens = {each["_id"]: each["token"] for each in data[SEALED].find(sealed, {"token": 1}, session=session)}
    done = buffers.ours(ends, tokens)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    wanted = {(batch.id, number) for batch, _ in ours for number in batch.ids}
    undecoded = {batch.id: batch.unresolved for batch, _ in ours if batch.unresolved}
    ids, groups = [batch.id for batch, _ in ours], [batch.group for batch, _ in ours]
    held = {"name": name, "group": {"$in": groups}, "batch": {"$in": ids}}
    rows = list(data[BUFFER].find(held, buffered.FOR_REMOVAL, session=session)) if ours else []
    gone = [row for row in rows if (row["batch"], buffered.number(row)) in wanted]
    back = [row for row in rows if (row["batch"], buffered.number(row)) not in wanted]
    if len(gone) != len(wanted) or Counter(row["batch"] for row in back) != undecoded:
        raise buffers.taken(name, "batch")
    data[SEALED].delete_many({"_id": {"$in": ids}}, session=session)
    write_rows(data, [message for _, outbox in ours for message in outbox], session)
    if back:
        marked = {"$unset": {"batch": 1}, "$set": {"broken": True}}
        data[BUFFER].update_many({"_id": {"$in": [row["_id"] for row in back]}}, marked, session=session)
    buffered.drop(data, name, [row | {"batch": None} for row in gone], now, session)
    return done
