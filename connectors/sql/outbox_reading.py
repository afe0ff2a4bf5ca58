"""Rows of the outbox as people see them, from the message and the tables beside it."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection

from sluicegate.connectors.outboxes import at
from sluicegate.connectors.sql.outbox_claims import among, fetched, message_of
from sluicegate.connectors.sql.outbox_marks import unpacked
from sluicegate.connectors.sql.outbox_rows import lanes, plain, seqs_of
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.messages import Attempt, OutboxMessage, StoredMessage

_MESSAGES = (
    "select seq, created_at, id, topic, message_key, value, headers, lane_key from sluicegate_message where seq {among}"
)
_ALL = "select seq from sluicegate_message where seq > {after:d} order by seq limit 1000"
_PENDING = "select seq from sluicegate_message_pending where seq > {after:d} order by seq limit 1000"
_DEAD = "select seq from sluicegate_message_dead where seq > {after:d} order by seq limit 1000"
_SENT = "select low, seqs from sluicegate_message_sent where low > {after:d} order by low limit 50"
_PENDING_OF = (
    "select seq, lane, attempts, next_attempt_at from sluicegate_message_pending where lane = {lane:d} and seq {among}"
)
_DEAD_OF = "select seq, lane, attempts, reason from sluicegate_message_dead where seq {among}"
_SENT_OF = "select dispatched_at, lane, seqs from sluicegate_message_sent where low <= {last:d} and high >= {first:d}"
_TRIED = (
    "select seq, number, tried_at, outcome, error from sluicegate_message_attempt where seq {among} order by "
    "seq, number"
)


class RowState(NamedTuple):
    name: str
    lane: int
    attempts: int
    dispatched_at: float | None = None
    next_attempt_at: float | None = None
    reason: str = ""


def find(connection: Connection, state: str | None, topic: str | None, limit: int) -> Sequence[StoredMessage]:
    return list(islice(_found(connection, state, topic), limit))


def _found(connection: Connection, state: str | None, topic: str | None) -> Iterator[StoredMessage]:
    queries = {None: _ALL, "pending": _PENDING, "dead": _DEAD}
    seqs = _dispatched(connection) if state == "dispatched" else _ascending(connection, queries[state])
    while page := list(islice(seqs, 200)):
        yield from (row for row in _rows(connection, page) if topic in (None, row.message.topic))


def _rows(connection: Connection, seqs: Sequence[int]) -> Iterator[StoredMessage]:
    messages = _messages(connection, seqs)
    states = _states(connection, {seq: message for seq, (_, message) in messages.items()})
    for seq in seqs:
        created, message = messages[seq]
        if seq in states:
            yield _stored(message, created, states[seq])


def get(connection: Connection, id: str) -> StoredMessage | None:
    return next((row for seq in seqs_of(connection, [id]).values() for row in _rows(connection, [seq])), None)


def _ascending(connection: Connection, query: str) -> Iterator[int]:
    after = 0
    while page := fetched(connection, query.format(after=after)):
        yield from (seq for (seq,) in page)
        after = page[-1][0]


def _dispatched(connection: Connection) -> Iterator[int]:
    """Ascending, though the rows of one lane were dispatched before, between and behind those of another."""
    heap: list[int] = []
    after = 0
    while pages := fetched(connection, _SENT.format(after=after)):
        for low, seqs in pages:
            while heap and heap[0] < low:
                yield heappop(heap)
            for seq in unpacked(seqs):
                heappush(heap, seq)
        after = pages[-1][0]
    while heap:
        yield heappop(heap)


def _messages(connection: Connection, seqs: Sequence[int]) -> dict[int, tuple[float, OutboxMessage]]:
    found = fetched(connection, _MESSAGES.format(among=among(connection, seqs)))
    return {row[0]: (row[1], message_of(row[2:8])) for row in found}


def _states(connection: Connection, messages: Mapping[int, OutboxMessage]) -> dict[int, RowState]:
    """By seq. No pending row lies in another lane than that of its key."""
    found: dict[int, RowState] = {}
    count = lanes(connection)
    by_lane: dict[int, list[int]] = {}
    for seq, message in messages.items():
        by_lane.setdefault(lane_of(message, count), []).append(seq)
    for lane, seqs in by_lane.items():
        for seq, _, attempts, until in fetched(
            connection, _PENDING_OF.format(lane=lane, among=among(connection, seqs))
        ):
            found[seq] = RowState("pending", lane, attempts, next_attempt_at=until)
    for seq, lane, attempts, reason in fetched(connection, _DEAD_OF.format(among=among(connection, list(messages)))):
        found[seq] = RowState("dead", lane, attempts, reason=bytes(reason).decode())
    return _sent_states(connection, [seq for seq in messages if seq not in found]) | found


def _sent_states(connection: Connection, seqs: Sequence[int]) -> dict[int, RowState]:
    if not seqs:
        return {}
    wanted, failed = set(seqs), _failed(connection, seqs)
    return {
        seq: RowState("dispatched", lane, failed.get(seq, 0), dispatched_at=sent)
        for sent, lane, page in fetched(connection, _SENT_OF.format(first=min(seqs), last=max(seqs)))
        for seq in wanted.intersection(unpacked(page))
    }


def _failed(connection: Connection, seqs: Sequence[int]) -> dict[int, int]:
    """How often each failed since it was added or requeued."""
    found: dict[int, int] = {}
    for seq, _, _, outcome, _ in fetched(connection, _TRIED.format(among=among(connection, seqs))):
        found[seq] = found.get(seq, 0) + 1 if plain(outcome) == "transient" else 0
    return found


def _stored(message: OutboxMessage, created: float, state: RowState) -> StoredMessage:
    dispatched = None if state.dispatched_at is None else at(state.dispatched_at)
    following = None if state.next_attempt_at is None else at(state.next_attempt_at)
    return StoredMessage(
        message, state.name, state.lane, state.attempts, at(created), dispatched, following, state.reason
    )


def attempts_of(connection: Connection, id: str) -> Sequence[Attempt]:
    """The one that succeeded stands in no table of attempts: it follows from the row's dispatch."""
    for seq in seqs_of(connection, [id]).values():
        rows = fetched(connection, _TRIED.format(among=among(connection, [seq])))
        history = [
            Attempt(number, at(tried), plain(outcome), bytes(error).decode())
            for _, number, tried, outcome, error in rows
        ]
        for state in _sent_states(connection, [seq]).values():
            history.append(Attempt(len(history) + 1, at(state.dispatched_at or 0.0), "success", ""))
        return tuple(history)
    return ()
