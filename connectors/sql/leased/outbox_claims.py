"""Claims of a lane, and of single rows. A claim returns the pending rows that its holder may send."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from sluicegate.connectors.outboxes import ANY_LANE, Space, datetime_of
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased.outbox_lanes import LaneHold, NumberedRow, claimable, save
from sluicegate.connectors.sql.leased.outbox_rows import (
    SEQS,
    among,
    fetched,
    fetched_among,
    headers_of,
    lanes,
    name_text,
)
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.messages import LaneBatch, OutboxMessage
from sluicegate.streams.errors import PersistenceError

SelectedRow = Sequence[Any]
"""seq, attempts, held_until, then the columns of the message."""

_STORED = """
select p.seq, p.attempts, p.held_until, m.id, m.topic, m.message_key, m.value, m.headers, m.lane_key, m.created_at
from sluicegate_message_pending p join sluicegate_message m on m.seq = p.seq
where p.lane = {lane:d} and p.seq """
_OF_SEQS = _STORED + "{among} order by p.seq"
_ABOVE = _STORED + "> {top:d} order by p.seq limit {limit:d}"
_BY_INDEX = "select " + ", ".join(
    f"set_config('enable_{way}', 'off', true)" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")
)
_EARLIER = (
    "select seq from sluicegate_message_pending where lane = {lane:d} and seq < {top:d} order by seq limit {limit:d}"
)
_FREE = """
select seq from sluicegate_message_pending
where lane = {lane:d} and coalesce(held_until, 0) <= {now!r}
    and (coalesce(next_attempt_at, 0) <= {now!r} or next_attempt_at > {latest!r})
order by seq limit {limit:d}"""
_HOLD = """
update sluicegate_message_pending set holder = :holder, held_at = :now, held_until = :until
where lane = :lane and seq {among}"""
# In this order: MySQL assigns one after the other.
_SET_BACK = """
update sluicegate_message_pending set held_until = held_until - held_at + :now, held_at = :now
where lane = :lane and held_at > :now"""

# Rows of one transaction have one time.
_created = lru_cache(maxsize=256)(datetime_of)


class ClaimTimes(NamedTuple):
    """The begin and the end of the lease, and the end of the longest back-off that may begin now, in seconds since
    1970. A row that waits for longer failed while the clock was ahead, and waits no more."""

    now: float
    until: float
    latest: float

    def waits(self, until: float | None) -> bool:
        return until is not None and self.now < until <= self.latest


def claim_lane(
    connection: Connection, space: Space, lane: int, token: str, limit: int, after: int, times: ClaimTimes
) -> LaneBatch | None:
    now, expires_at, _ = times
    hold = claimable(connection, lane, now)
    if hold is None or not hold.is_free(token, now):
        return None
    if connection.dialect.name == "postgresql":
        # It would scan the whole table rather than look up a few thousand of its rows.
        connection.execute(text(_BY_INDEX)).all()
    waits = next((row for row in hold.numbered if times.waits(row.until)), None)
    above = [row for row in hold.numbered if row.number > after and (waits is None or row.number < waits.number)]
    ready = above[:limit]
    stored = _of_seqs(connection, lane, [row.seq for row in ready])
    gone = {row.seq for row in ready if row.seq not in stored}
    kept = [row for row in ready if row.seq not in gone]
    rows = _lane_rows([row.number for row in kept], [stored[row.seq] for row in kept], space)
    numbered, until = [row for row in hold.numbered if row.seq not in gone], waits.until if waits else None
    if waits is None and len(ready) < limit:
        fresh, until = _unheld(_without_number(connection, lane, numbered, limit - len(ready)), now)
        numbers = range(hold.next_number, hold.next_number + len(fresh))
        rows += _lane_rows(numbers, fresh, space)
        numbered += map(NumberedRow, numbers, [row[0] for row in fresh])
        if until is not None:
            _set_back(connection, lane, now)
    if not numbered and not hold.numbered and hold.token == token and hold.expires_at - now > (expires_at - now) / 2:
        # Nothing to send, and more than half of the lease is left: a holder that polls writes nothing.
        return LaneBatch(lane, token, datetime_of(hold.expires_at), rows, None if until is None else datetime_of(until))
    following = max(hold.next_number, numbered[-1].number + 1 if numbered else 0)
    save(connection, LaneHold(lane, token, now, expires_at, following, numbered))
    return LaneBatch(lane, token, datetime_of(expires_at), rows, None if rows or until is None else datetime_of(until))


def _without_number(
    connection: Connection, lane: int, numbered: Sequence[NumberedRow], limit: int
) -> Sequence[SelectedRow]:
    """The first rows without a number, by `seq`. A transaction that committed late leaves such rows before numbered
    ones."""
    top = max((row.seq for row in numbered), default=0)
    late: list[SelectedRow] = []
    if numbered:
        known = {row.seq for row in numbered}
        earlier = fetched(connection, _EARLIER.format(lane=lane, top=top, limit=len(known) + limit))
        seqs = [seq for (seq,) in earlier if seq not in known][:limit]
        late = list(_of_seqs(connection, lane, seqs).values())
    if len(late) < limit:
        late += fetched(connection, _ABOVE.format(lane=lane, top=top, limit=limit - len(late)))
    return late


def _of_seqs(connection: Connection, lane: int, seqs: Sequence[int]) -> dict[int, SelectedRow]:
    return {row[0]: row for row in fetched_among(connection, _OF_SEQS, seqs, lane=lane)}


def _unheld(rows: Sequence[SelectedRow], now: float) -> tuple[Sequence[SelectedRow], float | None]:
    """The rows before the first row that is claimed alone, and the end of that row's claim."""
    for index, row in enumerate(rows):
        if row[2] is not None and row[2] > now:
            return rows[:index], row[2]
    return rows, None


def _set_back(connection: Connection, lane: int, now: float) -> None:
    """Moves claims that begin later than now: they were made while the clock was ahead, and begin now."""
    connection.execute(text(_SET_BACK), {"lane": lane, "now": now})


def claim_any(connection: Connection, space: Space, token: str, limit: int, times: ClaimTimes) -> LaneBatch:
    """Claims rows of one lane. `token` is hexadecimal and chooses the first lane to try, so that concurrent callers
    begin with different lanes."""
    rows: list[LaneRow] = []
    count = lanes(connection, space)
    for turn in range(count):
        lane = space.base + (int(token[:8], 16) + turn) % count
        hold = claimable(connection, lane, times.now, wait=False)
        if hold is not None and hold.is_free("", times.now):
            rows += _claim_free(connection, space, lane, token, limit - len(rows), times)
            _set_back(connection, lane, times.now)
        if len(rows) == limit:
            break
    return LaneBatch(ANY_LANE, token, datetime_of(times.until), rows)


def _claim_free(
    connection: Connection, space: Space, lane: int, token: str, limit: int, times: ClaimTimes
) -> Sequence[LaneRow]:
    """Chooses the rows, then leases and reads them. The locked row of the lane keeps others away in between."""
    free = _FREE.format(lane=lane, now=times.now, latest=times.latest, limit=limit)
    seqs = [seq for (seq,) in fetched(connection, free)]
    values = {"holder": token, "now": times.now, "until": times.until, "lane": lane}
    for page in pages(seqs, SEQS):
        connection.execute(text(_HOLD.format(among=among(connection, page))), values)
    stored = _of_seqs(connection, lane, seqs)
    return _lane_rows(list(stored), list(stored.values()), space)


def _lane_rows(numbers: Sequence[int], stored: Sequence[SelectedRow], space: Space) -> list[LaneRow]:
    if stored and not isinstance(stored[0][3], str):
        stored = [(*row[:3], name_text(row[3]), name_text(row[4]), *row[5:]) for row in stored]
    begin = len(space.prefix)
    return [
        LaneRow(
            number,
            id[begin:] if begin else id,
            topic,
            key,
            value,
            headers_of(headers) if headers else (),
            lane_key,
            attempts,
            _created(created),
        )
        for number, (_, attempts, _, id, topic, key, value, headers, lane_key, created) in zip(
            numbers, stored, strict=True
        )
    ]


def message_of(columns: Sequence[Any], space: Space) -> OutboxMessage:
    """The message of these columns: id, topic, key, value, headers, lane key. Raises PersistenceError when it cannot be
    read."""
    id, topic, key, value, headers, lane_key = columns
    try:
        return OutboxMessage(
            name_text(topic), key, value, headers_of(headers), name_text(id).removeprefix(space.prefix), lane_key
        )
    except ValueError as error:
        raise PersistenceError(f"a stored message cannot be read: {type(error).__name__}") from error
