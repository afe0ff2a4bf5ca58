"""Early results of the open groups of a buffer, in a transaction that holds the lock of the buffer's name."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pymongo import InsertOne, UpdateOne
from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers, times
from sluicegate.connectors.mongodb.buffered import OPEN, decoded, known, unleased
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, EARLY
from sluicegate.connectors.mongodb.steps import until
from sluicegate.connectors.outboxes import Space
from sluicegate.streams.contracts.leased_values import EarlyPast, EarlyState, Gate, OpenBatch, Types


def taken(data: MongoDatabase, name: str, groups: Sequence[str], session: ClientSession) -> dict[str, tuple[int, int]]:
    """Ends the early results of these groups, which are sealed now. Returns of those that had any their number, and the
    last row that they cover."""
    these = _of(name, groups)
    past = {row["_id"]["group"]: (row["results"], row["covered"]) for row in data[EARLY].find(these, session=session)}
    if past:
        data[EARLY].delete_many(these, session=session)
    return past


def expect(
    data: MongoDatabase, name: str, groups: Sequence[str], gate: Gate, now: datetime, session: ClientSession
) -> None:
    """The next early result of each of these groups is due one period from now, if it waits for a row and the group has
    one that no result covers."""
    if gate.every is None or not groups:
        return
    states = {state["_id"]["group"]: state for state in data[EARLY].find(_of(name, groups), session=session)}
    newest: list[Document] = [
        {"$match": {"name": name, "group": {"$in": list(groups)}} | OPEN},
        {"$group": {"_id": "$group", "last": {"$max": "$_id.number"}}},
    ]
    due, writes = until(now, gate.every), list[Any]()
    for row in data[BUFFER].aggregate(newest, session=session):
        id, state = {"name": name, "group": row["_id"]}, states.get(row["_id"])
        if state is None:
            fresh = {"_id": id, "name": name, "results": 0, "covered": 0, "due": due, "token": ""}
            writes.append(InsertOne(fresh))
        elif "due" not in state and row["last"] > state["covered"]:
            writes.append(UpdateOne({"_id": id}, {"$set": {"due": due}}))
    if writes:
        data[EARLY].bulk_write(writes, ordered=False, session=session)


def lease_due(
    data: MongoDatabase, name: str, gate: Gate, limit: int, types: Types | None, now: datetime, session: ClientSession
) -> list[OpenBatch]:
    """Leases open groups whose early result is due. A time that is later than any that the gate sets now was set while
    the clock was ahead."""
    latest = times.moment(buffers.latest_early(gate, times.micros(now)))
    data[EARLY].update_many({"name": name, "due": {"$gt": latest}}, {"$set": {"due": latest}}, session=session)
    batches: list[OpenBatch] = []
    for state in data[EARLY].find({"name": name, "due": {"$lte": now}}, session=session).sort("due"):
        if len(batches) >= limit:
            break
        group = state["_id"]["group"]
        ready = {"name": name, "group": group} | OPEN | unleased(now) | known(types)
        if rows := list(data[BUFFER].find(ready, session=session).sort("_id")):
            token, last = uuid.uuid4().hex, rows[-1]["_id"]["number"]
            past = EarlyPast(state["results"], last == state["covered"])
            batches.append(OpenBatch(group, decoded(rows, types).entries, last, past, token))
            lease = {"$set": {"token": token, "due": until(now, gate.lease)}}
            data[EARLY].update_one({"_id": state["_id"]}, lease, session=session)
    return batches


def complete(
    data: MongoDatabase,
    name: str,
    gate: Gate,
    ends: Sequence[buffers.EarlyEnd],
    now: datetime,
    session: ClientSession,
    space: Space,
) -> list[bool]:
    """Counts a result of each group that its caller still leases, and writes the messages."""
    done = []
    for batch, _ in ends:
        its = {"_id": {"name": name, "group": batch.group}, "token": batch.token}
        change = {"$set": {"covered": batch.last, "token": ""}, "$inc": {"results": 1}, "$unset": {"due": 1}}
        done.append(data[EARLY].update_one(its, change, session=session).matched_count == 1)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    expect(data, name, [batch.group for batch, _ in ours], gate, now, session)
    write_rows(data, [message for _, outbox in ours for message in outbox], session, space)
    return done


def states(data: MongoDatabase, name: str) -> dict[str, EarlyState]:
    """The early results of the open groups, by group. It locks nothing."""
    of_name = data[EARLY].find({"name": name})
    return {state["_id"]["group"]: EarlyState(state["results"], state.get("due")) for state in of_name}


def _of(name: str, groups: Sequence[str]) -> Document:
    return {"_id": {"$in": [{"name": name, "group": group} for group in groups]}}
