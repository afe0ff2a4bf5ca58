"""Early results of the open groups of a buffer in SQL, while its name is locked."""

import uuid
from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from sluicegate.connectors import buffers
from sluicegate.connectors.outboxes import Space
from sluicegate.connectors.sql.database import pages
from sluicegate.connectors.sql.leased.buffer_rows import PAGE, Locked, decoded, is_ready, open_rows, rows_of
from sluicegate.connectors.sql.leased.leased_tables import BUFFER_EARLY, BUFFER_ROW
from sluicegate.connectors.sql.leased.outbox_rows import write_rows
from sluicegate.connectors.times import length, moment
from sluicegate.streams.contracts.leased_values import EarlyPast, EarlyState, Gate, OpenBatch, Types
from sluicegate.streams.contracts.messages import OutboxMessage

_EARLY = BUFFER_EARLY.c


def taken(at: Locked, groups: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Ends the early results of these groups, which are sealed now. Returns of those that had any their number, and the
    last row that they cover."""
    past: dict[str, tuple[int, int]] = {}
    for page in pages(groups, PAGE):
        these = _EARLY.name == at.name, _EARLY.group_name.in_(page)
        rows = at.connection.execute(select(_EARLY.group_name, _EARLY.results, _EARLY.covered).where(*these)).all()
        past |= {group: (results, covered) for group, results, covered in rows}
        if rows:
            at.connection.execute(delete(BUFFER_EARLY).where(*these))
    return past


def expect(at: Locked, groups: Sequence[str], gate: Gate) -> None:
    """The next early result of each of these groups is due one period from now, if it waits for a row and the group has
    one that no result covers."""
    if gate.every is None:
        return
    due_at = at.now + length(gate.every)
    for page in pages(groups, PAGE):
        these = _EARLY.name == at.name, _EARLY.group_name.in_(page)
        known = at.connection.execute(select(_EARLY.group_name, _EARLY.covered, _EARLY.due_at).where(*these)).all()
        newest = select(BUFFER_ROW.c.group_name, func.max(BUFFER_ROW.c.number)).where(*open_rows(at))
        of_page = newest.where(BUFFER_ROW.c.group_name.in_(page)).group_by(BUFFER_ROW.c.group_name)
        lasts: dict[str, int] = {str(row[0]): row[1] for row in at.connection.execute(of_page)}
        opened = {group for group, _, _ in known}
        waiting = [group for group, covered, due in known if due is None and lasts.get(group, 0) > covered]
        if waiting:
            again = update(BUFFER_EARLY).where(_EARLY.name == at.name, _EARLY.group_name.in_(waiting))
            at.connection.execute(again.values(due_at=due_at))
        new = [
            {"name": at.name, "group_name": group, "results": 0, "covered": 0, "due_at": due_at, "token": ""}
            for group in lasts
            if group not in opened
        ]
        if new:
            at.connection.execute(insert(BUFFER_EARLY), new)


def lease_due(at: Locked, gate: Gate, types: Types | None, limit: int) -> Sequence[OpenBatch]:
    """Leases open groups whose early result is due. A time that is later than any that the gate sets now was set while
    the clock was ahead."""
    latest = buffers.latest_early(gate, at.now)
    ahead = update(BUFFER_EARLY).where(_EARLY.name == at.name, _EARLY.due_at > latest)
    at.connection.execute(ahead.values(due_at=latest))
    due = select(_EARLY.group_name, _EARLY.results, _EARLY.covered).where(
        _EARLY.name == at.name, _EARLY.due_at <= at.now, is_ready(at, types, _EARLY)
    )
    states = at.connection.execute(due.order_by(_EARLY.due_at, _EARLY.group_name).limit(limit)).all()
    rows = dict(rows_of(at, [group for group, _, _ in states], types))
    batches = []
    for group, results, covered in states:
        last, token = rows[group][-1][0], uuid.uuid4().hex
        past = EarlyPast(results, last == covered)
        batches.append(OpenBatch(group, decoded(rows[group], types).entries, last, past, token))
        its = update(BUFFER_EARLY).where(_EARLY.name == at.name, _EARLY.group_name == group)
        at.connection.execute(its.values(token=token, due_at=at.now + length(gate.lease)))
    return batches


def complete(at: Locked, gate: Gate, ends: Sequence[buffers.EarlyEnd], space: Space) -> list[bool]:
    """Counts a result of each group that its caller still leases, and writes the messages."""
    done: list[bool] = []
    outbox: list[OutboxMessage] = []
    for batch, messages in ends:
        its = _EARLY.name == at.name, _EARLY.group_name == batch.group, _EARLY.token == batch.token
        state = {"results": _EARLY.results + 1, "covered": batch.last, "due_at": None, "token": ""}
        mine = at.connection.execute(update(BUFFER_EARLY).where(*its).values(state)).rowcount == 1
        done.append(mine)
        outbox += messages if mine else ()
    expect(at, [batch.group for (batch, _), mine in zip(ends, done, strict=True) if mine], gate)
    if outbox:
        write_rows(at.connection, outbox, at.now / 1_000_000, space)
    return done


def states(connection: Connection, name: str) -> dict[str, EarlyState]:
    """The early results of the open groups, by group. It locks nothing."""
    rows = connection.execute(select(_EARLY.group_name, _EARLY.results, _EARLY.due_at).where(_EARLY.name == name))
    return {group: EarlyState(results, None if due is None else moment(due)) for group, results, due in rows}
