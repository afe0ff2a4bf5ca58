"""What people and retention do with rows of the outbox."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from sluicegate.connectors.outboxes import check_lanes
from sluicegate.connectors.sql.outbox_claims import among, fetched, message_of
from sluicegate.connectors.sql.outbox_lanes import locked, save
from sluicegate.connectors.sql.outbox_marks import forget, packed, unpacked
from sluicegate.connectors.sql.outbox_rows import (
    ADD_PENDING,
    in_pages,
    lanes,
    lock_lanes,
    locking,
    seqs_of,
    share_lanes,
)
from sluicegate.streams.contracts.lanes import lane_of

_COUNTS = {
    "pending": "select count(*) from sluicegate_message_pending",
    "dispatched": "select coalesce(sum(size), 0) from sluicegate_message_sent",
    "dead": "select count(*) from sluicegate_message_dead",
}
_OLDEST = "select min(created_at) from sluicegate_message where seq in ({firsts})"
_FIRST = "(select min(seq) from sluicegate_message_pending where lane = {lane:d})"
_SET_LANES = "update sluicegate_meta set value = :value where name = 'lanes'"
_ADD_LANES = "insert into sluicegate_meta (name, value) values ('lanes', :value)"
_OLD = """
select dispatched_at, low, size from sluicegate_message_sent where dispatched_at < :before
order by dispatched_at, low limit :limit"""
_SEQS = "select dispatched_at, low, seqs from sluicegate_message_sent where dispatched_at between :first and :last"
_SWEPT = "delete from sluicegate_message_sent where dispatched_at = :at and low = :low"
_REST = "update sluicegate_message_sent set size = :size, seqs = :seqs where dispatched_at = :at and low = :low"
_DEAD = """
select d.seq, m.id, m.topic, m.message_key, m.value, m.headers, m.lane_key
from sluicegate_message_dead d join sluicegate_message m on m.seq = d.seq where {condition}"""
_PENDING = "select lane, seq from sluicegate_message_pending where seq {among} order by lane, seq"
_BURIED = "select seq from sluicegate_message_dead where seq {among}"
_DELETE = "delete from sluicegate_{table} where seq {among}"


def count(connection: Connection, state: str) -> int:
    return int(connection.execute(text(_COUNTS[state])).scalar_one())


def oldest(connection: Connection) -> float | None:
    """When the oldest pending row was added: the first of one of the lanes. Each is looked up, for grouping reads all
    that is pending."""
    firsts = ", ".join(_FIRST.format(lane=lane) for lane in range(lanes(connection)))
    found: float | None = connection.execute(text(_OLDEST.format(firsts=firsts))).scalar()
    return found


def set_lanes(connection: Connection, count_: int) -> None:
    lock_lanes(connection)
    check_lanes(count_, count(connection, "pending"))
    values = {"value": str(count_)}
    if not connection.execute(text(_SET_LANES), values).rowcount:
        connection.execute(text(_ADD_LANES), values)


def sweep(connection: Connection, before: float, limit: int) -> int:
    """Of those that were dispatched earlier; others may sweep at the same time."""
    skipping = f"{locking(connection)} skip locked" if locking(connection) else ""
    chosen: dict[tuple[float, int], int] = {}
    for sent, low, size in connection.execute(text(_OLD + skipping), {"before": before, "limit": limit}):
        chosen[sent, low] = min(size, limit - sum(chosen.values()))
        if sum(chosen.values()) == limit:
            break
    if not chosen:
        return 0
    keys = list(chosen)
    values = {"first": keys[0][0], "last": keys[-1][0]}
    found = {(sent, low): unpacked(seqs) for sent, low, seqs in connection.execute(text(_SEQS), values)}
    _delete(connection, [seq for key in keys for seq in found[key][: chosen[key]]], "message_attempt", "message")
    whole = [{"at": sent, "low": low} for sent, low in keys if chosen[sent, low] == len(found[sent, low])]
    if whole:
        connection.execute(text(_SWEPT), whole)
    if len(whole) < len(keys):
        (sent, low), rest = keys[-1], found[keys[-1]][chosen[keys[-1]] :]
        connection.execute(text(_REST), {"at": sent, "low": low, "size": len(rest), "seqs": packed(rest)})
    return sum(chosen.values())


def _delete(connection: Connection, seqs: Sequence[int], *tables: str) -> None:
    for page in in_pages(seqs):
        for table in tables:
            connection.exec_driver_sql(_DELETE.format(table=table, among=among(connection, page)))


def requeue(connection: Connection, ids: Sequence[str] | None) -> int:
    count_ = share_lanes(connection)
    if ids is None:
        rows = _dead(connection, "1 = 1")
    else:
        rows = [
            row
            for page in in_pages(list(seqs_of(connection, ids).values()))
            for row in _dead(connection, f"d.seq {among(connection, page)}")
        ]
    if rows:
        _delete(connection, [row[0] for row in rows], "message_dead")
        pending = [{"lane": lane_of(message_of(row[1:7]), count_), "seq": row[0], "attempts": 0} for row in rows]
        connection.execute(text(ADD_PENDING), pending)
    return len(rows)


def _dead(connection: Connection, condition: str) -> Sequence[Any]:
    return fetched(connection, f"{_DEAD.format(condition=condition)} order by d.seq{locking(connection)}")


def drop(connection: Connection, ids: Sequence[str]) -> int:
    """Whoever holds a lane does not mark meanwhile."""
    dropped = 0
    for page in in_pages(list(seqs_of(connection, ids).values())):
        by_lane: dict[int, list[int]] = {}
        for lane, seq in fetched(connection, _PENDING.format(among=among(connection, page))):
            by_lane.setdefault(lane, []).append(seq)
        seqs = [seq for lane, found in by_lane.items() for seq in _drop_pending(connection, lane, found)]
        dead = [
            seq for (seq,) in fetched(connection, _BURIED.format(among=among(connection, page)) + locking(connection))
        ]
        _delete(connection, [*seqs, *dead], "message_dead", "message_attempt", "message")
        dropped += len(seqs) + len(dead)
    return dropped


def _drop_pending(connection: Connection, lane: int, seqs: Sequence[int]) -> Sequence[int]:
    held = locked(connection, lane)
    found = fetched(connection, f"{_PENDING.format(among=among(connection, seqs))}{locking(connection)}")
    gone = [seq for of, seq in found if of == lane]
    forget(connection, lane, gone)
    if held is not None:
        save(connection, held._replace(given=[each for each in held.given if each.seq not in set(gone)]))
    return gone
