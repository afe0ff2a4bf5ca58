"""Sealed batches that are completed together: five calls, however many they are. One by one they took four each, and while one worker
completed a hundred, those of the others met its lock until their time was up."""

from collections.abc import Sequence
from datetime import datetime

from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers
from sluicegate.connectors.mongodb import buffered
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, SEALED
from sluicegate.connectors.mongodb.steps import Data


def complete_all(data: Data, name: str, ends: Sequence[buffers.End], now: datetime, session: ClientSession) -> list[bool]:
    """Raises ConcurrencyError when one has other rows than it was sealed with, or such that cannot be decoded: then nothing may be
    committed."""
    ids = [batch.id for batch, _ in ends]
    tokens = {each["_id"]: each["token"] for each in data[SEALED].find({"_id": {"$in": ids}, "name": name}, {"token": 1}, session=session)}
    done = buffers.ours(ends, tokens)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    wanted = {(batch.id, number) for batch, _ in ours for number in batch.ids}
    held = {"name": name, "group": {"$in": [batch.group for batch, _ in ours]}, "batch": {"$in": [batch.id for batch, _ in ours]}}
    rows = list(data[BUFFER].find(held, buffered.FOR_REMOVAL, session=session)) if ours else []
    if {(row["batch"], buffered.number(row)) for row in rows} != wanted:
        raise buffers.taken(name, "batch")
    data[SEALED].delete_many({"_id": {"$in": [batch.id for batch, _ in ours]}}, session=session)
    write_rows(data, [message for _, outbox in ours for message in outbox], session)
    buffered.drop(data, name, [row | {"batch": None} for row in rows], now, session)
    return done
