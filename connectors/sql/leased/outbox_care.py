"""Operations on stored rows of the outbox: counting, sweeping, requeueing and dropping them."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from sluicegate.connectors.outboxes import Space, check_lanes
from sluicegate.connectors.sql.leased.outbox_claims import message_of
from sluicegate.connectors.sql.leased.outbox_lanes import locked, save
from sluicegate.connectors.sql.leased.outbox_marks import forget, packed, unpacked
from sluicegate.connectors.sql.leased.outbox_rows import (
    ADD_PENDING,
    fetched,
    fetched_among,
    lanes,
    lanes_name,
    lock_lanes,
    locking,
    run_among,
    seqs_of,
    share_lanes,
)

_COUNTS = {
    "pending": "select count(*) from sluicegate_message_pending where lane >= :base and lane < :end",
    "dispatched": "select coalesce(sum(size), 0) from sluicegate_message_sent where lane >= :base and lane < :end",
    "dead": "select count(*) from sluicegate_message_dead where lane >= :base and lane < :end",
}
_OLDEST = "select min(created_at) from sluicegate_message where seq in ({firsts})"
_FIRST = "(select min(seq) from sluicegate_message_pending where lane = {lane:d})"
_SET_LANES = "update sluicegate_meta set value = :value where name = :name"
_ADD_LANES = "insert into sluicegate_meta (name, value) values (:name, :value)"
_OLD = """
select dispatched_at, low, size from sluicegate_message_sent
where dispatched_at < :before and lane >= :base and lane < :end
order by dispatched_at, low limit :limit"""
_SEQS = "select dispatched_at, low, seqs from sluicegate_message_sent where dispatched_at between :first and :last"
_SWEPT = "delete from sluicegate_message_sent where dispatched_at = :at and low = :low"
_REST = "update sluicegate_message_sent set size = :size, seqs = :seqs where dispatched_at = :at and low = :low"
_DEAD = """
select d.seq, m.id, m.topic, m.message_key, m.value, m.headers, m.lane_key
from sluicegate_message_dead d join sluicegate_message m on m.seq = d.seq"""
_ALL_DEAD = f"{_DEAD} where d.lane >= {{base:d}} and d.lane < {{end:d}} order by d.seq"
_DEAD_AMONG = f"{_DEAD} where d.seq {{among}} order by d.seq"
_PENDING = "select lane, seq from sluicegate_message_pending where seq {among} order by lane, seq"
_BURIED = "select seq from sluicegate_message_dead where seq {among}"
_DELETE = "delete from sluicegate_{table} where seq {among}"


def count(connection: Connection, space: Space, state: str) -> int:
    values = {"base": space.base, "end": space.end}
    return int(connection.execute(text(_COUNTS[state]), values).scalar_one())


def oldest(connection: Connection, space: Space) -> float | None:
    """When the oldest pending row was added. The first row of each lane is looked up: grouping would read all pending
    rows."""
    firsts = ", ".join(_FIRST.format(lane=lane) for lane in space.numbers(lanes(connection, space)))
    seconds: float | None = connection.execute(text(_OLDEST.format(firsts=firsts))).scalar()
    return seconds


def set_lanes(connection: Connection, space: Space, count_: int) -> None:
    lock_lanes(connection, space)
    check_lanes(count_, count(connection, space, "pending"))
    values = {"name": lanes_name(space), "value": str(count_)}
    if not connection.execute(text(_SET_LANES), values).rowcount:
        connection.execute(text(_ADD_LANES), values)


def sweep(connection: Connection, space: Space, before: float, limit: int) -> int:
    """Delete up to `limit` rows that were dispatched before that time; others may sweep at the same time."""
    chosen: dict[tuple[float, int], int] = {}
    old = text(_OLD + locking(connection, wait=False))
    wanted = {"before": before, "limit": limit, "base": space.base, "end": space.end}
    for sent, low, size in connection.execute(old, wanted):
        chosen[sent, low] = min(size, limit - sum(chosen.values()))
        if sum(chosen.values()) == limit:
            break
    if not chosen:
        return 0
    keys = list(chosen)
    values = {"first": keys[0][0], "last": keys[-1][0]}
    runs_of = {(sent, low): unpacked(seqs) for sent, low, seqs in connection.execute(text(_SEQS), values)}
    _delete(connection, [seq for key in keys for seq in runs_of[key][: chosen[key]]], "message_attempt", "message")
    whole = [{"at": sent, "low": low} for sent, low in keys if chosen[sent, low] == len(runs_of[sent, low])]
    if whole:
        connection.execute(text(_SWEPT), whole)
    if len(whole) < len(keys):
        (sent, low), rest = keys[-1], runs_of[keys[-1]][chosen[keys[-1]] :]
        connection.execute(text(_REST), {"at": sent, "low": low, "size": len(rest), "seqs": packed(rest)})
    return sum(chosen.values())


def _delete(connection: Connection, seqs: Sequence[int], *tables: str) -> None:
    for table in tables:
        run_among(connection, _DELETE, seqs, table=table)


def requeue(connection: Connection, space: Space, ids: Sequence[str] | None) -> int:
    count_ = share_lanes(connection, space)
    if ids is None:
        rows = fetched(connection, _ALL_DEAD.format(base=space.base, end=space.end) + locking(connection))
    else:
        seqs = list(seqs_of(connection, ids, space).values())
        rows = fetched_among(connection, _DEAD_AMONG + locking(connection), seqs)
    if rows:
        _delete(connection, [row[0] for row in rows], "message_dead")
        messages = [(row[0], message_of(row[1:7], space)) for row in rows]
        pending = [{"lane": space.lane_of(message, count_), "seq": seq, "attempts": 0} for seq, message in messages]
        connection.execute(text(ADD_PENDING), pending)
    return len(rows)


def drop(connection: Connection, space: Space, ids: Sequence[str]) -> int:
    """Deletes rows. It locks the lanes of pending rows, so that the lanes' holders do not mark them meanwhile."""
    seqs = list(seqs_of(connection, ids, space).values())
    by_lane: dict[int, list[int]] = {}
    for lane, seq in fetched_among(connection, _PENDING, seqs):
        by_lane.setdefault(lane, []).append(seq)
    gone = [seq for lane in sorted(by_lane) for seq in _drop_pending(connection, lane, by_lane[lane])]
    gone += [seq for (seq,) in fetched_among(connection, _BURIED + locking(connection), seqs)]
    _delete(connection, gone, "message_dead", "message_attempt", "message")
    return len(gone)


def _drop_pending(connection: Connection, lane: int, seqs: Sequence[int]) -> Sequence[int]:
    lease = locked(connection, lane)
    rows = fetched_among(connection, _PENDING + locking(connection), seqs)
    gone = [seq for of, seq in rows if of == lane]
    forget(connection, lane, gone)
    if lease is not None:
        save(connection, lease._replace(numbered=[row for row in lease.numbered if row.seq not in set(gone)]))
    return gone
