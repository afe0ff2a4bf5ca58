"""Sealed batches: groups with a fixed set of rows, each leased to one caller at a time."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from pymongo import UpdateMany, UpdateOne
from pymongo.client_session import ClientSession

from sluicegate.connectors import buffers
from sluicegate.connectors.mongodb import early
from sluicegate.connectors.mongodb.buffered import (
    FOR_REMOVAL,
    FREED,
    OPEN,
    decoded,
    drop,
    known,
    number,
    set_deadlines,
    set_deadlines_back,
    set_leases_back,
    spans,
    unleased,
)
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.messages import write_rows
from sluicegate.connectors.mongodb.migrations import BUFFER, GROUP, SEALED
from sluicegate.connectors.mongodb.steps import until
from sluicegate.connectors.outboxes import Space
from sluicegate.connectors.times import micros
from sluicegate.streams.contracts.leased_values import EarlyPast, Entry, Gate, SealedBatch, Types, batch_id

ChosenRows = tuple[str, str, list[Document]]
"""Group, reason, rows of a new batch."""


@dataclass(frozen=True)
class Sealing:
    """Seals groups of the buffer `name` in one transaction, which has held the buffer's lock since `now`."""

    data: MongoDatabase
    name: str
    gate: Gate
    types: Types | None
    now: datetime
    session: ClientSession

    def full(self, groups: Sequence[str], new: Sequence[Entry], first: int) -> list[SealedBatch]:
        """Seals the full batches of these groups, and the batches that new entries end. Sets the groups' deadlines. The
        new entries are numbered from `first`."""
        now, due = micros(self.now), list(dict.fromkeys(entry.group for entry in new if entry.due))
        rows = spans(self.data, self.name, due, self.session) if due else {}
        firsts = {group: micros(span.first) for group, span in rows.items()}
        ends = buffers.may_end(self.gate, new, lambda group: firsts.get(group, now), now)
        made: list[ChosenRows] = [
            (group, reason, rows)
            for group in dict.fromkeys([*self._reached(groups), *ends])
            for reason, rows in buffers.full_batches(
                self._ready(group), self.gate, itemgetter("key"), ends.get(group, {}), firsts.get(group, now), now
            )
        ]
        batches = self._seal(made)
        self._set_deadlines(groups, buffers.newest_dues(self.gate, new, first, now))
        self._expect(groups)
        return batches

    def _expect(self, groups: Sequence[str]) -> None:
        early.expect(self.data, self.name, groups, self.gate, self.now, self.session)

    def _set_deadlines(self, groups: Sequence[str], new: Mapping[str, buffers.KnownDue] = buffers.NO_DUES) -> None:
        set_deadlines(self.data, self.name, groups, self.gate, self.now, self.session, new)

    def _reached(self, groups: Sequence[str]) -> list[str]:
        """The groups that have as many rows as the gate counts."""
        if self.gate.count is None:
            return []
        counted: list[Document] = [
            {"$match": {"name": self.name, "group": {"$in": list(groups)}} | self._free()},
            {"$group": {"_id": "$group", "rows": {"$sum": 1}}},
            {"$match": {"rows": {"$gte": self.gate.count}}},
        ]
        reached = {group["_id"] for group in self.data[BUFFER].aggregate(counted, session=self.session)}
        return [group for group in groups if group in reached]

    def _free(self) -> Document:
        return OPEN | unleased(self.now) | known(self.types)

    def _ready(self, group: str, limit: int = 0) -> list[Document]:
        """The group's rows that the gate counts, oldest first."""
        wanted = {"name": self.name, "group": group} | self._free()
        return list(self.data[BUFFER].find(wanted, session=self.session).sort("_id").limit(limit))

    def due(self, limit: int) -> list[SealedBatch]:
        set_leases_back(self.data, self.name, self.now, self.session)
        set_deadlines_back(self.data, self.name, self.gate, self.now, self.session)
        free = {"name": self.name, "expires_at": {"$lte": self.now}}
        again = self._lease_again(list(self.data[SEALED].find(free, session=self.session).sort("first").limit(limit)))
        made: list[ChosenRows] = []
        over = {"name": self.name, "deadline": {"$lte": self.now}}
        for document in self.data[GROUP].find(over, session=self.session).sort("deadline"):
            if len(again) + len(made) >= limit:
                break
            group = document["_id"]["group"]
            if rows := self._ready(group, self.gate.count or 0):
                made.append((group, "timeout", rows))
        batches = again + self._seal(made)
        self._set_deadlines([group for group, _, _ in made])
        self._expect([group for group, _, _ in made])
        return batches

    def one(self, group: str) -> SealedBatch | None:
        """Seals the rows that the group has now, for an operator. None: it has no rows."""
        rows = self._ready(group, self.gate.count or 0)
        if not rows:
            return None
        [batch] = self._seal([(group, "manual", rows)])
        self._set_deadlines([group])
        self._expect([group])
        return batch

    def _seal(self, made: Sequence[ChosenRows]) -> list[SealedBatch]:
        if not made:
            return []
        sealed, writes = [], []
        results = early.taken(self.data, self.name, [group for group, _, _ in made], self.session)
        for group, reason, rows in made:
            id = batch_id(self.name, group, number(rows[0]))
            past = buffers.past_of(results.pop(group, None), rows[-1]["_id"]["number"])
            about = {"_id": id, "name": self.name, "group": group, "reason": reason, "attempts": 0}
            about |= {"past": list(past)} if past.results else {}
            sealed.append(self._leased(about | {"first": rows[0]["_id"]["number"], "count": len(rows)}))
            change = {"$set": {"batch": id}} | FREED
            writes.append(UpdateMany({"_id": {"$in": [row["_id"] for row in rows]}}, change))
        self.data[BUFFER].bulk_write(writes, session=self.session)
        self.data[SEALED].insert_many(sealed, session=self.session)
        return [self._batch(batch, rows) for batch, (_, _, rows) in zip(sealed, made, strict=True)]

    def _lease_again(self, abandoned: Sequence[Document]) -> list[SealedBatch]:
        if not abandoned:
            return []
        sealed = [self._leased(batch) for batch in abandoned]
        changed = ("token", "leased_at", "expires_at", "attempts")
        writes = [
            UpdateOne({"_id": batch["_id"]}, {"$set": {name: batch[name] for name in changed}}) for batch in sealed
        ]
        self.data[SEALED].bulk_write(writes, session=self.session)
        groups, ids = list({batch["group"] for batch in sealed}), [batch["_id"] for batch in sealed]
        wanted = {"name": self.name, "group": {"$in": groups}, "batch": {"$in": ids}}
        rows: dict[str, list[Document]] = {id: [] for id in ids}
        for row in self.data[BUFFER].find(wanted, session=self.session).sort("_id"):
            rows[row["batch"]].append(row)
        return [self._batch(batch, rows[batch["_id"]]) for batch in sealed]

    def _leased(self, document: Document) -> Document:
        lease = {"token": uuid.uuid4().hex, "leased_at": self.now, "expires_at": until(self.now, self.gate.lease)}
        return document | lease | {"attempts": document["attempts"] + 1}

    def _batch(self, document: Document, rows: Sequence[Document]) -> SealedBatch:
        content = decoded(rows, self.types)
        lease = document["token"], document["expires_at"], document["attempts"]
        past = EarlyPast(*document.get("past", ()))
        return SealedBatch(document["_id"], document["group"], document["reason"], *content, *lease, past)


def complete(
    data: MongoDatabase, name: str, ends: Sequence[buffers.End], now: datetime, session: ClientSession, space: Space
) -> list[bool]:
    """Completes sealed batches with five calls in all. With four calls for each batch, one worker that completed a
    hundred held the lock until the calls of other workers ran out of time. Returns for each batch whether it was
    completed. Rows that could not be decoded go back to the buffer with a mark. Raises ConcurrencyError when a batch
    has other rows than when it was sealed: then nothing may be committed."""
    sealed = {"_id": {"$in": [batch.id for batch, _ in ends]}, "name": name}
    tokens = {batch["_id"]: batch["token"] for batch in data[SEALED].find(sealed, {"token": 1}, session=session)}
    done = buffers.held_batches(ends, tokens)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    wanted = {(batch.id, id) for batch, _ in ours for id in batch.ids}
    undecoded = {batch.id: batch.unresolved for batch, _ in ours if batch.unresolved}
    ids = [batch.id for batch, _ in ours]
    members = {"name": name, "group": {"$in": [batch.group for batch, _ in ours]}, "batch": {"$in": ids}}
    rows = list(data[BUFFER].find(members, FOR_REMOVAL, session=session)) if ours else []
    gone = [row for row in rows if (row["batch"], number(row)) in wanted]
    back = [row for row in rows if (row["batch"], number(row)) not in wanted]
    if len(gone) != len(wanted) or Counter(row["batch"] for row in back) != undecoded:
        raise buffers.lease_lost(name, "batch")
    data[SEALED].delete_many({"_id": {"$in": ids}}, session=session)
    write_rows(data, [message for _, outbox in ours for message in outbox], session, space)
    if back:
        marked = {"$unset": {"batch": 1}, "$set": {"broken": True}}
        data[BUFFER].update_many({"_id": {"$in": [row["_id"] for row in back]}}, marked, session=session)
    drop(data, name, [row | {"batch": None} for row in gone], now, session)
    return done
