"""Marks the outcome of rows. All rows that were dispatched together share one row of outcome; other rows have a history
of attempts."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter

import msgspec
from sqlalchemy import Connection, text

from sluicegate.connectors.outboxes import ANY_LANE, Space, outcomes_of, verdict
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased.outbox_lanes import of_token, save
from sluicegate.connectors.sql.leased.outbox_rows import SEQS, among, fetched_among, lanes, locking, run_among
from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.options import OutboxOptions

packed = msgspec.msgpack.Encoder().encode
unpacked = msgspec.msgpack.Decoder(list[int]).decode

_PENDING = "select seq, attempts from sluicegate_message_pending where lane = {lane:d} and seq {among}"
_HELD = "select seq from sluicegate_message_pending where lane = :lane and holder = :token and seq {among}"
_DELETE = "delete from sluicegate_message_pending where lane = {lane:d} and seq {among}"
_FREE = "update sluicegate_message_pending set holder = null, held_until = null where lane = {lane:d} and seq {among}"
_PUT_OFF = """
update sluicegate_message_pending set attempts = :attempts, next_attempt_at = :until, holder = null, held_until = null
where lane = :lane and seq = :seq"""
_BURY = "insert into sluicegate_message_dead (seq, lane, attempts, reason) values (:seq, :lane, :attempts, :reason)"
_TRIED = """
insert into sluicegate_message_attempt (seq, number, tried_at, outcome, error)
values (:seq, :number, :now, :outcome, :error)"""
_SENT = """
insert into sluicegate_message_sent (dispatched_at, low, high, lane, size, seqs)
values (:now, :low, :high, :lane, :size, :seqs)"""
_TRIES = "select seq, count(*) from sluicegate_message_attempt where seq {among} group by seq"
_NEVER: Mapping[int, int] = {}


class Dropped(Exception):
    """Rows of the batch are gone, so the pending rows must be looked up."""


def mark(
    connection: Connection,
    batch: LaneBatch,
    outcomes: Sequence[Outcome] | None,
    options: OutboxOptions,
    now: float,
    space: Space,
    ask: bool = False,
) -> None:
    """Marks the outcome of a batch. `ask`: look up which rows are pending. Without it, raises Dropped when a row is
    not."""
    if outcomes is None and batch.lane != ANY_LANE and batch.rows and not ask:
        _mark_all(connection, batch, now)
        return
    named = {outcome.id: outcome for outcome in outcomes_of(batch, outcomes)}
    if batch.lane == ANY_LANE:
        for lane, seqs in held_alone(connection, batch, space).items():
            settle(connection, lane, {seq: named[id] for seq, id in seqs.items() if id in named}, options, now)
        return
    hold = of_token(connection, batch.lane, batch.token)
    numbered = {row.number: row.seq for row in hold.numbered}
    chosen = {numbered[row.number]: named[row.id] for row in batch.rows if row.number in numbered and row.id in named}
    if not ask and all(outcome.kind == "dispatched" for outcome in chosen.values()):
        waits: Mapping[int, float | None] = {}
        dispatch(connection, batch.lane, list(chosen), now)
    else:
        tried = {numbered[row.number]: row.attempts for row in batch.rows if row.number in numbered}
        waits = settle(connection, batch.lane, chosen, options, now, tried)
    done = {seq for seq, outcome in chosen.items() if outcome.kind != "outage"} - waits.keys()
    kept = [row._replace(until=waits.get(row.seq) or row.until) for row in hold.numbered if row.seq not in done]
    save(connection, hold._replace(numbered=kept))


def _mark_all(connection: Connection, batch: LaneBatch, now: float) -> None:
    """Marks a batch whose rows were all sent, which is the usual case. The batch has every row from its first to its
    last number, so no row needs to be looked up."""
    hold = of_token(connection, batch.lane, batch.token)
    kept = list(hold.numbered)
    first = bisect_left(kept, batch.rows[0].number, key=attrgetter("number"))
    end = bisect_right(kept, batch.rows[-1].number, key=attrgetter("number"))
    dispatch(connection, batch.lane, [row.seq for row in kept[first:end]], now)
    save(connection, hold._replace(numbered=kept[:first] + kept[end:]))


def held_alone(connection: Connection, batch: LaneBatch, space: Space) -> dict[int, dict[int, str]]:
    """By lane, the seq and id of the rows that the token still holds. A pending row is always in the lane of its
    key."""
    count = lanes(connection, space)
    tokens: dict[int, dict[int, str]] = {}
    for row in batch.rows:
        tokens.setdefault(space.lane_of(row, count), {})[row.number] = row.id
    for lane, rows in tokens.items():
        numbers: set[int] = set()
        for page in pages(list(rows), SEQS):
            statement = text(_HELD.format(among=among(connection, page)) + locking(connection))
            numbers.update(connection.scalars(statement, {"lane": lane, "token": batch.token}))
        tokens[lane] = {seq: id for seq, id in rows.items() if seq in numbers}
    return tokens


def settle(
    connection: Connection,
    lane: int,
    outcomes: Mapping[int, Outcome],
    options: OutboxOptions,
    now: float,
    tried: Mapping[int, int] = _NEVER,
) -> Mapping[int, float | None]:
    """Applies the outcomes, which are by seq. Rows that are not pending any more are left out. Returns the time of the
    next attempt of each failed row. None: an earlier call, whose reply was lost, has already counted the failure; the
    row had been `tried` fewer times when it was claimed."""
    attempts = dict(fetched_among(connection, _PENDING, list(outcomes), lane=lane))
    kinds = {seq: outcomes[seq].kind for seq in outcomes if seq in attempts}
    dispatch(connection, lane, [seq for seq, kind in kinds.items() if kind == "dispatched"], now)
    free(connection, lane, [seq for seq, kind in kinds.items() if kind == "outage"])
    failed = {seq: outcomes[seq] for seq, kind in kinds.items() if kind in ("failed", "rejected")}
    counted = [seq for seq in failed if kinds[seq] == "failed" and tried.get(seq, attempts[seq]) != attempts[seq]]
    for seq in counted:
        del failed[seq]
    waits = _fail(connection, lane, failed, attempts, options, now) if failed else {}
    return {**waits, **dict.fromkeys(counted)}


def dispatch(connection: Connection, lane: int, seqs: Sequence[int], now: float) -> None:
    if not seqs:
        return
    if forget(connection, lane, seqs) != len(seqs):
        raise Dropped
    connection.execute(
        text(_SENT),
        {"now": now, "low": min(seqs), "high": max(seqs), "lane": lane, "size": len(seqs), "seqs": packed(seqs)},
    )


def forget(connection: Connection, lane: int, seqs: Sequence[int]) -> int:
    """Delete the pending rows; returns how many there were."""
    return run_among(connection, _DELETE, seqs, lane=lane)


def free(connection: Connection, lane: int, seqs: Sequence[int]) -> None:
    """Ends the leases of single rows."""
    run_among(connection, _FREE, seqs, lane=lane)


def _fail(
    connection: Connection,
    lane: int,
    outcomes: Mapping[int, Outcome],
    before: Mapping[int, int],
    options: OutboxOptions,
    now: float,
) -> Mapping[int, float]:
    tries = dict(fetched_among(connection, _TRIES, list(outcomes)))
    attempts = {seq: before[seq] + 1 for seq in outcomes}
    errors = {seq: outcome.error.encode(errors="replace") for seq, outcome in outcomes.items()}
    verdicts = {seq: verdict(options, outcome.kind, attempts[seq]) for seq, outcome in outcomes.items()}
    history = [
        {"seq": seq, "number": tries.get(seq, 0) + 1, "now": now, "outcome": verdicts[seq], "error": errors[seq]}
        for seq in outcomes
    ]
    connection.execute(text(_TRIED), history)
    waits = {
        seq: now + options.pause(attempts[seq]).total_seconds() for seq in outcomes if verdicts[seq] == "transient"
    }
    if dead := [seq for seq in outcomes if seq not in waits]:
        forget(connection, lane, dead)
        buried = [{"seq": seq, "lane": lane, "attempts": attempts[seq], "reason": errors[seq]} for seq in dead]
        connection.execute(text(_BURY), buried)
    if waits:
        put_off = [{"lane": lane, "seq": seq, "attempts": attempts[seq], "until": waits[seq]} for seq in waits]
        connection.execute(text(_PUT_OFF), put_off)
    return waits
