"""Sealed batches and deadlines of a buffer in SQL, while its name is locked."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, update

from sluicegate.connectors import buffers
from sluicegate.connectors.outboxes import Space
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased import buffer_early
from sluicegate.connectors.sql.leased.buffer_rows import (
    PAGE,
    READ,
    SNAPSHOT,
    Condition,
    Locked,
    add_holds,
    decoded,
    drop,
    is_open,
    is_ready,
    one_of,
    open_rows,
    ready,
    rows_of,
)
from sluicegate.connectors.sql.leased.leased_tables import BUFFER_DEADLINE, BUFFER_EARLY, BUFFER_HOLD, BUFFER_ROW
from sluicegate.connectors.sql.leased.outbox_rows import write_rows
from sluicegate.connectors.times import length, moment
from sluicegate.streams.contracts.leased_values import NO_RESULTS, EarlyPast, Entry, Gate, SealedBatch, Types, batch_id

_ROW, _HOLD = BUFFER_ROW.c, BUFFER_HOLD.c
_DUE = BUFFER_DEADLINE.c
_encode_due = msgspec.msgpack.Encoder().encode
_decode_due = msgspec.msgpack.Decoder(buffers.KnownDue).decode


class Hold(NamedTuple):
    """A sealed batch. `attempts` counts the times that it was handed out before."""

    id: str
    group: str
    reason: str
    attempts: int
    rows: Sequence[Sequence[Any]]
    past: EarlyPast = NO_RESULTS


def seal_full(at: Locked, touched: Sequence[str], new: Sequence[Entry], gate: Gate, types: Types | None) -> list[Hold]:
    """Seals the oldest rows of each group, for each time that it has `gate.count` rows or a new entry that ends it."""
    firsts = {
        span.group: span.first for span in _spans(at, list(dict.fromkeys(entry.group for entry in new if entry.due)))
    }
    ends = buffers.may_end(gate, new, lambda group: firsts.get(group, at.now), at.now)
    full: dict[str, object] = dict.fromkeys(ends)
    if gate.count is not None:
        counted = select(_ROW.group_name).where(*ready(at, types)).group_by(_ROW.group_name)
        enough = counted.having(func.count() >= gate.count)
        for page in pages(touched, PAGE):
            full |= dict.fromkeys(at.connection.scalars(enough.where(_ROW.group_name.in_(page))))
    holds = [
        _hold(at, group, reason, batch)
        for group, rows in rows_of(at, list(full), types)
        for reason, batch in buffers.full_batches(
            rows, gate, lambda row: str(row[1]), ends.get(group, {}), firsts.get(group, at.now), at.now
        )
    ]
    sealed = _seal(at, holds, types)
    set_deadlines(at, touched, gate, buffers.newest_dues(gate, new, at.last + 1, at.now))
    buffer_early.expect(at, touched, gate)
    return sealed


def _hold(at: Locked, group: str, reason: str, rows: Sequence[Sequence[Any]]) -> Hold:
    return Hold(batch_id(at.name, group, str(rows[0][0])), group, reason, 0, rows)


def _seal(at: Locked, made: Sequence[Hold], types: Types | None) -> list[Hold]:
    """Returns the batches with the early results that their groups had. Of the batches of a group these are the first
    one's."""
    if not made:
        return []
    past = buffer_early.taken(at, list(dict.fromkeys(hold.group for hold in made)))
    holds = [hold._replace(past=buffers.past_of(past.pop(hold.group, None), hold.rows[-1][0])) for hold in made]
    oldest = update(BUFFER_ROW).where(
        *ready(at, types), _ROW.group_name == bindparam("of_group"), _ROW.number <= bindparam("last")
    )
    members = [{"id": hold.id, "of_group": hold.group, "last": hold.rows[-1][0]} for hold in holds]
    at.connection.execute(oldest.values(holder=bindparam("id")), members)
    free = ("", 0, 0, None)
    add_holds(at, [(hold.id, hold.reason, hold.group, hold.rows[0][0], *free, *map(int, hold.past)) for hold in holds])
    return holds


class _Span(NamedTuple):
    """The open rows of a group: the times of the first and the last one, and the number of the first."""

    group: str
    first: int
    last: int
    oldest: int


def _spans(at: Locked, groups: Sequence[str]) -> list[_Span]:
    """The spans of the groups that have open rows."""
    ends = func.min(_ROW.inserted_at), func.max(_ROW.inserted_at), func.min(_ROW.number)
    spans = select(_ROW.group_name, *ends).where(*open_rows(at)).group_by(_ROW.group_name)
    some = (at.connection.execute(spans.where(_ROW.group_name.in_(page))) for page in pages(groups, PAGE))
    return [_Span(*row) for rows in some for row in rows]


def set_deadlines(
    at: Locked, groups: Sequence[str], gate: Gate, new: Mapping[str, buffers.KnownDue] = buffers.NO_DUES
) -> None:
    """The deadlines of the open rows of these groups; a group without open rows has none. `new` are the deadlines that
    rows of this transaction gave."""
    for page in pages(groups, PAGE):
        these = _DUE.name == at.name, _DUE.group_name.in_(page)
        dues = dict(new)
        if gate.dues:
            stored = at.connection.execute(select(_DUE.group_name, _DUE.given).where(*these, _DUE.given.is_not(None)))
            dues = {group: _decode_due(due) for group, due in stored} | dues
        at.connection.execute(delete(BUFFER_DEADLINE).where(*these))
        deadlines = []
        for group, first, last, oldest in _spans(at, page) if gate.timed else ():
            due = buffers.open_due(dues.get(group), oldest, at.now)
            if (due_at := buffers.deadline(gate, first, last, due)) is not None:
                of_due = {"given": None if due is None else _encode_due(due), "due_since": due and due.begin(first)}
                deadlines.append({"name": at.name, "group_name": group, "due_at": due_at} | of_due)
        if deadlines:
            at.connection.execute(insert(BUFFER_DEADLINE), deadlines)


def set_deadlines_back(at: Locked, gate: Gate) -> None:
    """A deadline that is later than any that the gate sets now, or that counts from a later time than now, was set
    while the clock was ahead: rows that were inserted later than now count as inserted now."""
    latest = buffers.deadline(gate, at.now, at.now)
    ahead = [] if latest is None else [(_DUE.due_at, latest)]
    groups: list[str] = []
    for column, most in [*ahead, (_DUE.due_since, at.now)] if gate.dues else ahead:
        beyond = select(_DUE.group_name).where(_DUE.name == at.name, column > most).order_by(column)
        groups += at.connection.scalars(beyond.limit(buffers.SET_BACK))
    groups = list(dict.fromkeys(groups))
    for page in pages(groups, PAGE):
        later = *open_rows(at), _ROW.group_name.in_(page), _ROW.inserted_at > at.now
        at.connection.execute(update(BUFFER_ROW).where(*later).values(inserted_at=at.now))
    set_deadlines(at, groups, gate)


def clear_deadlines(at: Locked, groups: Sequence[str]) -> None:
    """Delete the deadlines and the early results of the groups that have no open rows left."""
    for page in pages(groups, PAGE):
        for table in (BUFFER_DEADLINE, BUFFER_EARLY):
            these = table.c.name == at.name, table.c.group_name.in_(page)
            at.connection.execute(delete(table).where(*these, ~is_open(at, table.c)))


def seal_overdue(at: Locked, gate: Gate, types: Types | None, limit: int) -> list[Hold]:
    """Seals up to `limit` groups whose deadline has passed, the earliest first."""
    overdue = select(_DUE.group_name).where(_DUE.name == at.name, _DUE.due_at <= at.now, is_ready(at, types, _DUE))
    groups = at.connection.scalars(overdue.order_by(_DUE.due_at, _DUE.group_name).limit(limit)).all()
    rows = dict(rows_of(at, groups, types))
    holds = [_hold(at, group, "timeout", rows[group][: gate.count]) for group in groups]
    return _sealed(at, holds, groups, gate, types)


def seal_group(at: Locked, group: str, gate: Gate, types: Types | None) -> list[Hold]:
    """Seal the group by hand; [] when it has no ready rows."""
    holds = [_hold(at, group, "manual", rows[: gate.count]) for _, rows in rows_of(at, [group], types) if rows]
    return _sealed(at, holds, [group], gate, types)


def _sealed(at: Locked, holds: Sequence[Hold], groups: Sequence[str], gate: Gate, types: Types | None) -> list[Hold]:
    """Seals these batches. The groups go on with the rows that are left."""
    sealed = _seal(at, holds, types)
    set_deadlines(at, groups, gate)
    buffer_early.expect(at, groups, gate)
    return sealed


def abandoned(at: Locked, limit: int) -> list[Hold]:
    """Up to `limit` batches whose lease ended, the oldest first."""
    free = at.holds(_HOLD.reason != SNAPSHOT, _HOLD.leased_until <= at.now)
    columns = _HOLD.id, _HOLD.group_name, _HOLD.reason, _HOLD.attempts, _HOLD.results, _HOLD.whole
    holds = at.connection.execute(select(*columns).where(*free).order_by(_HOLD.first_row).limit(limit)).all()
    rows: dict[str, list[Sequence[Any]]] = {}
    for page in pages([id for id, *_ in holds], PAGE):
        members = select(_ROW.holder, *READ).where(*at.rows(_ROW.holder.in_(page))).order_by(_ROW.number)
        for holder, *row in at.connection.execute(members):
            rows.setdefault(holder, []).append(row)
    return [
        Hold(id, group, reason, attempts, rows[id], EarlyPast(results or 0, bool(whole)))
        for id, group, reason, attempts, results, whole in holds
    ]


def handed_out(at: Locked, holds: Sequence[Hold], gate: Gate, types: Types | None) -> list[SealedBatch]:
    """Leases each batch under a token of its own."""
    until = at.now + length(gate.lease)
    batches = []
    for id, group, reason, attempts, rows, past in holds:
        content, leased = decoded(rows, types), (uuid.uuid4().hex, moment(until), attempts + 1)
        batches.append(SealedBatch(id, group, reason, *content, *leased, past))
    if batches:
        lease = update(BUFFER_HOLD).where(*at.holds(_HOLD.id == bindparam("batch")))
        values = {"token": bindparam("holder"), "attempts": bindparam("times"), "leased_at": at.now}
        members = [{"batch": batch.id, "holder": batch.token, "times": batch.attempts} for batch in batches]
        at.connection.execute(lease.values(values | {"leased_until": until}), members)
    return batches


def complete(at: Locked, ends: Sequence[buffers.End], space: Space) -> list[bool]:
    """Completes the batches that the caller still holds; returns False for the others. Raises ConcurrencyError when a
    batch lacks rows that it was sealed with: then nothing may be committed. Most statements are for all batches
    together; one by one, each batch took four."""
    ids = [batch.id for batch, _ in ends]
    rows = at.connection.execute(select(_HOLD.id, _HOLD.token).where(*at.holds(one_of(_HOLD.id, ids))))
    tokens = {row.id: row.token for row in rows}
    done = buffers.held_batches(ends, tokens)
    ours = [end for end, mine in zip(ends, done, strict=True) if mine]
    mine = [batch.id for batch, _ in ours]
    whole = [batch for batch, _ in ours if not batch.unresolved]
    # A sealed batch gets no more rows, so the total tells whether each is whole.
    if whole and drop(at, one_of(_ROW.holder, [batch.id for batch in whole])) != sum(len(batch.ids) for batch in whole):
        raise buffers.lease_lost(at.name, "batch")
    for batch, _ in ours:
        if batch.unresolved and _divide(at, batch) != (len(batch.ids), batch.unresolved):
            raise buffers.lease_lost(at.name, "batch")
    at.connection.execute(delete(BUFFER_HOLD).where(*at.holds(one_of(_HOLD.id, mine))))
    if outbox := [message for _, messages in ours for message in messages]:
        write_rows(at.connection, outbox, at.now / 1_000_000, space)
    return done


def _divide(at: Locked, batch: SealedBatch) -> tuple[int, int]:
    """Deletes the rows that were decoded, marks the others as broken and frees them. Returns both numbers."""
    members: Condition = _ROW.holder == batch.id
    dropped = sum(drop(at, members, _ROW.number.in_(page)) for page in pages(list(map(int, batch.ids)), PAGE))
    rest = update(BUFFER_ROW).where(*at.rows(members)).values(holder="", broken=1)
    return dropped, at.connection.execute(rest).rowcount
