"""Reads rows of the outbox for people. The message and its state are in different tables."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from sqlalchemy import Connection

from sluicegate.connectors.outboxes import Space, datetime_of
from sluicegate.connectors.sql.leased.outbox_claims import message_of
from sluicegate.connectors.sql.leased.outbox_marks import unpacked
from sluicegate.connectors.sql.leased.outbox_rows import fetched, fetched_among, lanes, name_text, seqs_of
from sluicegate.streams.contracts.messages import Attempt, StoredMessage

_MESSAGES = (
    "select seq, created_at, id, topic, message_key, value, headers, lane_key from sluicegate_message where seq {among}"
)
_ALL = "select seq from sluicegate_message where seq > {after:d} order by seq limit 1000"
_OURS = "lane >= {base:d} and lane < {end:d}"
# no text of a record or a file is in them
_PENDING = f"select seq from sluicegate_message_pending where seq > {{after:d}} and {_OURS} order by seq limit 1000"  # nosec B608
_DEAD = f"select seq from sluicegate_message_dead where seq > {{after:d}} and {_OURS} order by seq limit 1000"  # nosec B608
_SENT = f"select low, seqs from sluicegate_message_sent where low > {{after:d}} and {_OURS} order by low limit 50"  # nosec B608
_PENDING_OF = (
    "select seq, attempts, next_attempt_at from sluicegate_message_pending where lane = {lane:d} and seq {among}"
)
_DEAD_OF = f"select seq, lane, attempts, reason from sluicegate_message_dead where seq {{among}} and {_OURS}"  # nosec B608
_SENT_OF = (
    "select dispatched_at, lane, seqs from sluicegate_message_sent where low <= {last:d} and high >= {first:d} and "  # nosec B608
    + _OURS
)
_TRIED = (
    "select seq, number, tried_at, outcome, error from sluicegate_message_attempt where seq {among} order by "
    "seq, number"
)


def find(
    connection: Connection, space: Space, state: str | None, topic: str | None, limit: int
) -> Sequence[StoredMessage]:
    return list(islice(_matches(connection, space, state, topic), limit))


def _matches(connection: Connection, space: Space, state: str | None, topic: str | None) -> Iterator[StoredMessage]:
    queries = {None: _ALL, "pending": _PENDING, "dead": _DEAD}
    sent = state == "dispatched"
    seqs = _dispatched(connection, space) if sent else _ascending(connection, space, queries[state])
    while page := list(islice(seqs, 200)):
        yield from (row for row in _rows(connection, space, page) if topic in (None, row.message.topic))


def _rows(connection: Connection, space: Space, seqs: Sequence[int]) -> Iterator[StoredMessage]:
    """The rows in the order of `seqs`. Rows that are gone, and rows of other apps, are left out; rows of other apps are
    in none of our lanes. A pending row is always in the lane of its key."""
    messages = {
        row[0]: StoredMessage(message_of(row[2:8], space), "", 0, 0, datetime_of(row[1]), None, None, "")
        for row in fetched_among(connection, _MESSAGES, seqs)
    }
    stored: dict[int, StoredMessage] = {}
    count = lanes(connection, space)
    by_lane: dict[int, list[int]] = {}
    for seq, row in messages.items():
        by_lane.setdefault(space.lane_of(row.message, count), []).append(seq)
    for lane, those in by_lane.items():
        for seq, attempts, until in fetched_among(connection, _PENDING_OF, those, lane=lane):
            following = None if until is None else datetime_of(until)
            stored[seq] = messages[seq]._replace(
                state="pending", lane=lane - space.base, attempts=attempts, next_attempt_at=following
            )
    ours = {"base": space.base, "end": space.end}
    for seq, lane, attempts, reason in fetched_among(connection, _DEAD_OF, list(messages), **ours):
        dead = messages[seq]._replace(state="dead", lane=lane - space.base, attempts=attempts)
        stored[seq] = dead._replace(reason=bytes(reason).decode())
    rest = [seq for seq in messages if seq not in stored]
    failed = _failed(connection, rest)
    for seq, (sent, lane) in _sent(connection, space, rest).items():
        stored[seq] = messages[seq]._replace(
            state="dispatched", lane=lane - space.base, attempts=failed.get(seq, 0), dispatched_at=datetime_of(sent)
        )
    return (stored[seq] for seq in seqs if seq in stored)


def get(connection: Connection, space: Space, id: str) -> StoredMessage | None:
    seqs = seqs_of(connection, [id], space).values()
    return next((row for seq in seqs for row in _rows(connection, space, [seq])), None)


def _ascending(connection: Connection, space: Space, query: str) -> Iterator[int]:
    after = 0
    while page := fetched(connection, query.format(after=after, base=space.base, end=space.end)):
        yield from (seq for (seq,) in page)
        after = page[-1][0]


def _dispatched(connection: Connection, space: Space) -> Iterator[int]:
    """The seqs of dispatched rows, ascending. The rows of several lanes, which were dispatched in any order, are
    merged."""
    heap: list[int] = []
    after = 0
    while pages := fetched(connection, _SENT.format(after=after, base=space.base, end=space.end)):
        for low, seqs in pages:
            while heap and heap[0] < low:
                yield heappop(heap)
            for seq in unpacked(seqs):
                heappush(heap, seq)
        after = pages[-1][0]
    while heap:
        yield heappop(heap)


def _sent(connection: Connection, space: Space, seqs: Sequence[int]) -> dict[int, tuple[float, int]]:
    """The time at which each row was dispatched, and its lane."""
    if not seqs:
        return {}
    wanted = set(seqs)
    statement = _SENT_OF.format(first=min(seqs), last=max(seqs), base=space.base, end=space.end)
    pages = fetched(connection, statement)
    return {seq: (sent, lane) for sent, lane, page in pages for seq in wanted.intersection(unpacked(page))}


def _failed(connection: Connection, seqs: Sequence[int]) -> dict[int, int]:
    """The number of failures of each row since it was added or requeued."""
    failures: dict[int, int] = {}
    for seq, _, _, outcome, _ in fetched_among(connection, _TRIED, seqs):
        failures[seq] = failures.get(seq, 0) + 1 if name_text(outcome) == "transient" else 0
    return failures


def attempts_of(connection: Connection, space: Space, id: str) -> Sequence[Attempt]:
    """The attempts of a row: the failed ones, then the successful one, which follows from the row's dispatch."""
    seqs = list(seqs_of(connection, [id], space).values())
    history = [
        Attempt(number, datetime_of(tried), name_text(outcome), bytes(error).decode())
        for _, number, tried, outcome, error in fetched_among(connection, _TRIED, seqs)
    ]
    sent = [
        Attempt(len(history) + 1, datetime_of(when), "success", "")
        for when, _ in _sent(connection, space, seqs).values()
    ]
    return (*history, *sent)
