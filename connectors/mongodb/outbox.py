"""The outbox in MongoDB for applications and the leased contracts."""

import uuid
from collections.abc import Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from pymongo.client_session import ClientSession

from sluicegate.connectors.mongodb import lanes
from sluicegate.connectors.mongodb.connection import Document
from sluicegate.connectors.mongodb.messages import (
    GONE,
    OutboxDocument,
    counts_id,
    message_of,
    of_app,
    reserve,
    rows_of,
    settle,
    stored,
    write_rows,
)
from sluicegate.connectors.mongodb.migrations import MESSAGE, META
from sluicegate.connectors.mongodb.steps import StepRunner, server_time
from sluicegate.connectors.mongodb.unit import joining
from sluicegate.connectors.mongodb.wakeups import Wakeups
from sluicegate.connectors.outboxes import check_claim, check_lanes, check_states, outcomes_of, space_of
from sluicegate.connectors.sessions import MongoSession, joined
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.leased import LANE_LEASE
from sluicegate.streams.contracts.leased_values import positive
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions

_UNTRIED: Document = {"state": "pending", "numbered": False, "attempts": 0, "next_at": None, "reason": None}


class MongoOutbox:
    """The messages of `app`. Any thread may call."""

    def __init__(self, steps: StepRunner, options: OutboxOptions, app: str = "") -> None:
        self._space, self._app = space_of(app), of_app(space_of(app))
        self._steps, self._options = steps, options
        self._data, self._rows = steps.data, steps.data[MESSAGE]
        self._wakeups = Wakeups(self._rows)

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        if not joined(session, MongoSession, require_transaction):
            self._steps.run(lambda own: write_rows(self._data, messages, own, self._space))
            return
        self._steps.ready()
        with joining(session, self._data):
            write_rows(session.database, messages, session.client_session, self._space)

    def lanes(self) -> int:
        with self._steps.reading():
            counts = self._data[META].find_one({"_id": counts_id(self._space)}) or {}
            return int(counts.get("lanes", LANES))

    def lane_numbers(self) -> Sequence[int]:
        return self._space.numbers(self.lanes())

    def set_lanes(self, count: int) -> None:
        check_lanes(count, 0)

        def work(session: ClientSession) -> None:
            counts, new = {"_id": counts_id(self._space)}, {"$set": {"lanes": count, "changed": True}}
            self._data[META].update_one(counts, new, upsert=bool(self._space.app), session=session)
            check_lanes(count, self._counted("pending", session))

        self._steps.run(work)

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        check_claim(0, 1, token, limit)
        positive(lease)
        pause = self._options.backoff_most
        return self._steps.run(
            lambda session: lanes.claim(self._data, self._space, lane, token, limit, after, lease, pause, session)
        )

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        check_claim(0, 1, token := uuid.uuid4().hex, limit)
        positive(lease)
        pause = self._options.backoff_most
        return self._steps.run(
            lambda session: lanes.claim_any(self._data, self._space, token, limit, lease, pause, session)
        )

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        fates = outcomes_of(batch, outcomes)
        self._steps.run(lambda session: lanes.mark(self._data, batch, fates, self._options, session))

    def release(self, batch: LaneBatch) -> None:
        self._steps.run(lambda session: lanes.release(self._data, batch, session))

    def wait(self, seconds: float) -> bool:
        return self._wakeups.wait(seconds)

    def pending_age(self) -> timedelta | None:
        with self._steps.reading():
            oldest = self._rows.find_one({"state": "pending"} | self._app, {"created_at": 1}, sort=[("oldest", 1)])
            return max(timedelta(0), server_time(self._data) - oldest["created_at"]) if oldest else None

    def count(self, state: str = "pending") -> int:
        check_states([state])
        with self._steps.reading():
            return self._counted(state)

    def _counted(self, state: str, session: ClientSession | None = None) -> int:
        wanted = {"state": state} | self._app
        total: list[Document] = [{"$match": wanted}, {"$group": {"_id": None, "rows": {"$sum": "$count"}}}]
        return sum(group["rows"] for group in self._rows.aggregate(total, session=session))

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        def work(session: ClientSession) -> int:
            old = {"state": "dispatched", "dispatched_at": {"$lt": server_time(self._data, session) - older_than}}
            old |= self._app
            rest = limit
            rows = self._rows.find(old, {"count": 1}, session=session)
            for page in rows.sort([("dispatched_at", 1), ("oldest", 1)]):
                rest -= self._sweep_document(page, rest, session)
                if rest <= 0:
                    break
            return limit - rest

        return self._steps.run(work)

    def _sweep_document(self, page: Document, rest: int, session: ClientSession) -> int:
        if page["count"] <= rest:
            self._rows.delete_one({"_id": page["_id"]}, session=session)
            return int(page["count"])
        [whole] = self._rows.find({"_id": page["_id"]}, session=session)
        settle(self._data, whole, [GONE] * rest + [None] * (whole["count"] - rest), session)
        return rest

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        check_states([] if state is None else [state])
        wanted: Document = self._app if state is None else self._app | {"state": state}
        rows: list[tuple[int, StoredMessage]] = []
        with self._steps.reading(), self._rows.find(wanted, batch_size=4).sort("oldest") as pages:
            for page in pages:
                rows += ((row.order, stored(page, row)) for row in rows_of(page) if topic in (None, row.topic))
                if len(rows) >= limit:
                    break
        return [message for _, message in sorted(rows, key=itemgetter(0))[:limit]]

    def get(self, id: str) -> StoredMessage | None:
        with self._steps.reading():
            page = self._rows.find_one(self._named(id))
            return next((stored(page, row) for row in rows_of(page) if row.id == id), None) if page else None

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        with self._steps.reading():
            page = self._rows.find_one(self._named(id), {"history": 1, "dispatched_at": 1}) or {}
        tried = [Attempt(**attempt) for attempt in page.get("history", ())]
        if page.get("dispatched_at"):
            tried.append(Attempt(len(tried) + 1, page["dispatched_at"], "success", ""))
        return tuple(tried)

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        def work(session: ClientSession) -> int:
            dead = {"state": "dead"} | (self._app if ids is None else self._named(*ids))
            pages = list(self._rows.find(dead, session=session).sort("oldest"))
            wanted = {row.id for page in pages for row in rows_of(page) if ids is None or row.id in ids}
            if wanted:
                numbers, lanes, _ = reserve(self._data, len(wanted), self._space)
                place = iter(numbers)
                for page in pages:
                    fates = [
                        self._requeued(row, lanes, next(place)) if row.id in wanted else None for row in rows_of(page)
                    ]
                    settle(self._data, page, fates, session)
            return len(wanted)

        return self._steps.run(work)

    def drop(self, ids: Sequence[str]) -> int:
        def work(session: ClientSession) -> int:
            count = 0
            unsent = self._named(*ids) | {"state": {"$in": ["pending", "dead"]}}
            for document in self._rows.find(unsent, session=session):
                fates = [GONE if row.id in ids else None for row in rows_of(document)]
                settle(self._data, document, fates, session)
                count += fates.count(GONE)
            return count

        return self._steps.run(work)

    def _named(self, *ids: str) -> Document:
        return {"ids": {"$in": [self._space.prefix + id for id in ids]}} | self._app

    def _requeued(self, row: OutboxDocument, lanes: int, number: int) -> Document:
        """The change of a row that goes to the end of its lane."""
        return _UNTRIED | {"first": number, "lane": self._space.lane_of(message_of(row), lanes), "lanes": lanes}
