"""The lanes of the outbox: their leases, the numbers of their rows, and the outcomes of rows."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.client_session import ClientSession

from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.connectors.mongodb.messages import (
    MOST,
    MOST_BYTES,
    OutboxDocument,
    app_field,
    changing,
    counts_id,
    document,
    move_lanes,
    of_app,
    rows_of,
    settle,
)
from sluicegate.connectors.mongodb.migrations import LOCK, MESSAGE, META
from sluicegate.connectors.mongodb.steps import locked, server_time, until
from sluicegate.connectors.outboxes import ANY_LANE, Space, check_claim, lane_lost, verdict
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.options import OutboxOptions

SMALL = 10
"""Documents with fewer rows are merged when they get their numbers. A merge writes the rows' ids into the index again:
with documents of 62 rows it cost the server 53 us a row, and 19 us without a merge."""
_FREE: Document = {"token": None, "held_at": None, "held_until": None}
_SIZES = {"first": 1, "count": 1, "next_at": 1}
_LEAN = {"ids": 0}  # the rows hold their ids, too


def claim(
    data: MongoDatabase,
    space: Space,
    lane: int,
    token: str,
    limit: int,
    after: int,
    lease: timedelta,
    pause: timedelta,
    session: ClientSession,
) -> LaneBatch | None:
    """`pause` is the longest back-off of a row that failed."""
    lock = locked(data, _key(lane), session)
    now: datetime = lock["now"]
    if lock.get("token", token) != token and lock["expires_at"] > now:
        if lock.get("claimed_at", now) > now:
            data[LOCK].update_one({"_id": _key(lane)}, _set_back("claimed_at", "expires_at", now), session=session)
        return None
    outbox = data[META].find_one({"_id": counts_id(space)}, session=session) or {"lanes": LANES}
    check_claim(lane - space.base, outbox["lanes"], token, limit)
    if outbox.get("changed"):
        move_lanes(data, outbox["lanes"], session, space)
    own = {"state": "pending", "lane": lane} | app_field(space)
    chosen, some, waiting = _sent_next(data, own, after, limit, (now, now + pause), session)
    pages = data[MESSAGE].find({"_id": {"$in": chosen}}, _LEAN, session=session).sort("first") if chosen else ()
    rows = [row for page in pages for row in _lane_rows(page, rows_of(page)) if row.number > after]
    last = lock.get("last", 0)
    if waiting is None and some < limit:
        numbered = _numbered(data, own, last, limit - some, session)
        rows += numbered
        last = numbered[-1].number if numbered else last
    expires = until(now, lease)
    claimed = {"token": token, "claimed_at": now, "expires_at": expires, "last": last}
    data[LOCK].update_one({"_id": _key(lane)}, {"$set": claimed}, session=session)
    return LaneBatch(lane, token, expires, rows[:limit], None if rows else waiting)


def _set_back(begin: str, end: str, now: datetime) -> list[Document]:
    """The update of a lease that begins later than now. It was given while the clock was ahead, and begins now."""
    return [{"$set": {begin: now, end: {"$add": [now, {"$subtract": [f"${end}", f"${begin}"]}]}}}]


def _sent_next(
    data: MongoDatabase,
    own: Document,
    after: int,
    limit: int,
    waiting: tuple[datetime, datetime],
    session: ClientSession,
) -> tuple[list[object], int, datetime | None]:
    """The documents with the next numbered rows after that number, the count of these rows, and the time until which
    the document after them waits. A document that waits until after the times `waiting` failed while the clock was
    ahead, and waits no more."""
    now, latest = waiting
    chosen: list[object] = []
    some = 0
    for page in data[MESSAGE].find(own | {"numbered": True}, _SIZES, session=session).sort("first"):
        if now < page.get("next_at", now) <= latest:
            return chosen, some, page["next_at"]
        above = min(page["count"], page["first"] + page["count"] - 1 - after)
        if above > 0:
            chosen.append(page["_id"])
            some += above
        if some >= limit:
            break
    return chosen, some, None


def _numbered(data: MongoDatabase, own: Document, last: int, limit: int, session: ClientSession) -> list[LaneRow]:
    """Gives numbers to rows of the lane that have none, and returns these rows."""
    chosen, some = [], 0
    size = max(2, min(limit, 101))
    unnumbered = data[MESSAGE].find(own | {"numbered": False}, _LEAN, batch_size=size, session=session)
    for stored in unnumbered.sort("first"):
        chosen.append(stored)
        some += stored["count"]
        if some >= limit:
            break
    numbered: list[LaneRow] = []
    writes: list[UpdateOne | DeleteOne | InsertOne[Document]] = []
    for together in _together(chosen):
        rows = [row for stored in together for row in rows_of(stored)]
        fields = {"numbered": True, "first": last + 1}
        last += len(rows)
        if len(together) == 1:
            writes.append(UpdateOne({"_id": together[0]["_id"]}, {"$set": fields}))
        else:
            writes += [DeleteOne({"_id": stored["_id"]}) for stored in together]
            writes.append(InsertOne(document(rows, own | fields | {"attempts": 0})))
        numbered += _lane_rows(together[0] | fields, rows)
    if writes:
        data[MESSAGE].bulk_write(writes, session=session)
    return numbered


def _together(pages: Sequence[Document]) -> Iterator[list[Document]]:
    """Groups of neighbours that may become one document."""
    gathered: list[Document] = []
    rows = size = 0
    for page in pages:
        fits = rows + page["count"] <= MOST and size + len(page["rows"]) <= MOST_BYTES
        if gathered and not (fits and _plain(page) and _plain(gathered[-1])):
            yield gathered
            gathered, rows, size = [], 0, 0
        gathered.append(page)
        rows, size = rows + page["count"], size + len(page["rows"])
    if gathered:
        yield gathered


def _plain(page: Document) -> bool:
    """Whether the document is small and was never tried."""
    return page["count"] < SMALL and not ({"history", "token", "next_at"} & page.keys())


def claim_any(
    data: MongoDatabase,
    space: Space,
    token: str,
    limit: int,
    lease: timedelta,
    pause: timedelta,
    session: ClientSession,
) -> LaneBatch:
    """`pause` is the longest back-off of a row that failed."""
    now: datetime = locked(data, "any", session)["now"]
    expires = until(now, lease)
    rows: list[LaneRow] = []
    own = {"state": "pending"} | of_app(space)
    free = own | {"$nor": [{"held_until": {"$gt": now}}, {"next_at": {"$gt": now, "$lte": now + pause}}]}
    for page in data[MESSAGE].find(free, batch_size=max(2, min(limit, 101)), session=session).sort("oldest"):
        taken = rows_of(page)[: limit - len(rows)]
        taking: list[Document | None] = [{"token": token, "held_at": now, "held_until": expires}] * len(taken)
        settle(data, page, taking + [None] * (page["count"] - len(taken)), session)
        rows += [_lane_row(row.order, row, page["attempts"]) for row in taken]
        if len(rows) >= limit:
            break
    data[MESSAGE].update_many(own | {"held_at": {"$gt": now}}, _set_back("held_at", "held_until", now), session=session)
    return LaneBatch(ANY_LANE, token, expires, sorted(rows, key=lambda row: row.number))


def mark(
    data: MongoDatabase, batch: LaneBatch, outcomes: Sequence[Outcome], options: OutboxOptions, session: ClientSession
) -> None:
    if batch.lane == ANY_LANE:
        now = server_time(data, session)
        pages = list(data[MESSAGE].find({"token": batch.token, "state": "pending"}, session=session))
    else:
        lock = locked(data, _key(batch.lane), session)
        now = lock["now"]
        if lock.get("token") != batch.token:
            raise lane_lost(batch.lane)
        pages = _marked(data, batch, outcomes, now, session)
    if not pages:
        return
    became = {outcome.id: outcome for outcome in outcomes}
    tried = {row.id: row.attempts for row in batch.rows if batch.lane != ANY_LANE}
    for page in pages:
        fates = [_fate(page, became.get(row.id), tried.get(row.id), now, options) for row in rows_of(page)]
        settle(data, page, fates, session)


def _marked(
    data: MongoDatabase, batch: LaneBatch, outcomes: Sequence[Outcome], now: datetime, session: ClientSession
) -> list[Document]:
    """Marks documents of which all rows were sent, without reading them. Returns the other documents with outcomes."""
    kinds = {outcome.id: outcome.kind for outcome in outcomes if outcome.kind != "outage"}
    numbers = {row.number: kinds[row.id] for row in batch.rows if row.id in kinds}
    if not numbers:
        return []
    sent = {number for number, kind in numbers.items() if kind == "dispatched"}
    reach = {"$gt": min(numbers) - MOST, "$lte": max(numbers)}
    pending = {"state": "pending", "lane": batch.lane, "numbered": True, "first": reach}
    whole, some = [], []
    for page in data[MESSAGE].find(pending, _SIZES, session=session):
        inside = range(page["first"], page["first"] + page["count"])
        if sent.issuperset(inside):
            whole.append(page["_id"])
        elif any(number in numbers for number in inside):
            some.append(page["_id"])
    if whole:
        data[MESSAGE].update_many({"_id": {"$in": whole}}, changing(_sent(now)), session=session)
    return list(data[MESSAGE].find({"_id": {"$in": some}}, session=session)) if some else []


def _sent(now: datetime) -> Document:
    return {"state": "dispatched", "dispatched_at": now, "next_at": None} | _FREE


def _fate(
    page: Document, outcome: Outcome | None, before: int | None, now: datetime, options: OutboxOptions
) -> Document | None:
    """The change of one row. `before` is the number of attempts when the row was claimed. When the number has changed
    since, an earlier call, whose reply was lost, has already counted the failure."""
    if outcome is None or (outcome.kind == "failed" and before not in (None, page["attempts"])):
        return None
    if outcome.kind == "dispatched":
        return _sent(now)
    if outcome.kind == "outage":
        return _FREE if "token" in page else None
    attempts = page["attempts"] + 1
    kind, history = verdict(options, outcome.kind, attempts), page.get("history", [])
    attempt = {"number": len(history) + 1, "at": now, "outcome": kind, "error": outcome.error}
    tried = _FREE | {"attempts": attempts, "history": [*history, attempt]}
    if kind == "transient":
        return tried | {"next_at": until(now, options.pause(attempts))}
    return tried | {"state": "dead", "reason": outcome.error, "next_at": None}


def release(data: MongoDatabase, batch: LaneBatch, session: ClientSession) -> None:
    if batch.lane == ANY_LANE:
        data[MESSAGE].update_many({"token": batch.token}, changing(_FREE), session=session)
    else:
        own = {"_id": _key(batch.lane), "token": batch.token}
        data[LOCK].update_one(own, {"$unset": {"token": 1, "claimed_at": 1, "expires_at": 1}}, session=session)


def _key(lane: int) -> str:
    return f"lane/{lane}"


def _lane_rows(page: Document, rows: Sequence[OutboxDocument]) -> list[LaneRow]:
    first, attempts = page["first"], page["attempts"]
    return [_lane_row(number, row, attempts) for number, row in enumerate(rows, first)]


def _lane_row(number: int, it: OutboxDocument, attempts: int) -> LaneRow:
    return LaneRow(number, it.id, it.topic, it.key, it.value, it.headers, it.lane_key, attempts, it.created_at)
