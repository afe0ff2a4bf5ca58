"""Reads rows of the outbox for people: the message and its state, which are in different tables."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from sqlalchemy import Connection

from sluicegate.connectors.outboxes import at
from sluicegate.connectors.sql.outbox_claims import message_of
from sluicegate.connectors.sql.outbox_marks import unpacked
from sluicegate.connectors.sql.outbox_rows import fetched, fetched_among, lanes, plain, seqs_of
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.messages import Attempt, StoredMessage

_MESSAGES = (
    "select seq, created_at, id, topic, message_key, value, headers, lane_key from sluicegate_message where seq {among}"
)
_ALL = "select seq from sluicegate_message where seq > {after:d} order by seq limit 1000"
_PENDING = "select seq from sluicegate_message_pending where seq > {after:d} order by seq limit 1000"
_DEAD = "select seq from sluicegate_message_dead where seq > {after:d} order by seq limit 1000"
_SENT = "select low, seqs from sluicegate_message_sent where low > {after:d} order by low limit 50"
_PENDING_OF = (
    "select seq, attempts, next_attempt_at from sluicegate_message_pending where lane = {lane:d} and seq {among}"
)
_DEAD_OF = "select seq, lane, attempts, reason from sluicegate_message_dead where seq {among}"
_SENT_OF = "select dispatched_at, lane, seqs from sluicegate_message_sent where low <= {last:d} and high >= {first:d}"
_TRIED = (
    "select seq, number, tried_at, outcome, error from sluicegate_message_attempt where seq {among} order by "
    "seq, number"
)


def find(connection: Connection, state: str | None, topic: str | None, limit: int) -> Sequence[StoredMessage]:
    return list(islice(_found(connection, state, topic), limit))


def _found(connection: Connection, state: str | None, topic: str | None) -> Iterator[StoredMessage]:
    queries = {None: _ALL, "pending": _PENDING, "dead": _DEAD}
    seqs = _dispatched(connection) if state == "dispatched" else _ascending(connection, queries[state])
    while page := list(islice(seqs, 200)):
        yield from (row for row in _rows(connection, page) if topic in (None, row.message.topic))


def _rows(connection: Connection, seqs: Sequence[int]) -> Iterator[StoredMessage]:
    """In the order of `seqs`, without the rows that are gone. A pending row is always in the lane of its key."""
    messages = {
        row[0]: StoredMessage(message_of(row[2:8]), "", 0, 0, at(row[1]), None, None, "")
        for row in fetched_among(connection, _MESSAGES, seqs)
    }
    found: dict[int, StoredMessage] = {}
    count = lanes(connection)
    by_lane: dict[int, list[int]] = {}
    for seq, row in messages.items():
        by_lane.setdefault(lane_of(row.message, count), []).append(seq)
    for lane, those in by_lane.items():
        for seq, attempts, until in fetched_among(connection, _PENDING_OF, those, lane=lane):
            following = None if until is None else at(until)
            found[seq] = messages[seq]._replace(
                state="pending", lane=lane, attempts=attempts, next_attempt_at=following
            )
    for seq, lane, attempts, reason in fetched_among(connection, _DEAD_OF, list(messages)):
        found[seq] = messages[seq]._replace(state="dead", lane=lane, attempts=attempts, reason=bytes(reason).decode())
    rest = [seq for seq in messages if seq not in found]
    failed = _failed(connection, rest)
    for seq, (sent, lane) in _sent(connection, rest).items():
        found[seq] = messages[seq]._replace(
            state="dispatched", lane=lane, attempts=failed.get(seq, 0), dispatched_at=at(sent)
        )
    return (found[seq] for seq in seqs if seq in found)


def get(connection: Connection, id: str) -> StoredMessage | None:
    return next((row for seq in seqs_of(connection, [id]).values() for row in _rows(connection, [seq])), None)


def _ascending(connection: Connection, query: str) -> Iterator[int]:
    after = 0
    while page := fetched(connection, query.format(after=after)):
        yield from (seq for (seq,) in page)
        after = page[-1][0]


def _dispatched(connection: Connection) -> Iterator[int]:
    """Ascending: the rows of several lanes, which were dispatched in any order, are merged."""
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


def _sent(connection: Connection, seqs: Sequence[int]) -> dict[int, tuple[float, int]]:
    """When each was dispatched, and its lane."""
    if not seqs:
        return {}
    wanted = set(seqs)
    found = fetched(connection, _SENT_OF.format(first=min(seqs), last=max(seqs)))
    return {seq: (sent, lane) for sent, lane, page in found for seq in wanted.intersection(unpacked(page))}


def _failed(connection: Connection, seqs: Sequence[int]) -> dict[int, int]:
    """How often each row failed since it was added or requeued."""
    found: dict[int, int] = {}
    for seq, _, _, outcome, _ in fetched_among(connection, _TRIED, seqs):
        found[seq] = found.get(seq, 0) + 1 if plain(outcome) == "transient" else 0
    return found


def attempts_of(connection: Connection, id: str) -> Sequence[Attempt]:
    """The attempts that failed, and the one that succeeded: that one follows from the row's dispatch."""
    seqs = list(seqs_of(connection, [id]).values())
    history = [
        Attempt(number, at(tried), plain(outcome), bytes(error).decode())
        for _, number, tried, outcome, error in fetched_among(connection, _TRIED, seqs)
    ]
    sent = [Attempt(len(history) + 1, at(when), "success", "") for when, _ in _sent(connection, seqs).values()]
    return (*history, *sent)
