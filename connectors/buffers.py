"""Code that the buffers of all stores share: decoding of rows, deadlines, errors, and completion of batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased import LEASE, NOT_KEPT
from sluicegate.streams.contracts.leased_values import (
    NO_RESULTS,
    DueSince,
    EarlyPast,
    Entry,
    EntryDue,
    Filled,
    Gate,
    InsertResult,
    OpenBatch,
    Pack,
    PositionMove,
    SealedBatch,
    Types,
    resolved,
    singles,
)
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import AggregationNotFound, ConcurrencyError, WatermarkMoved

End = tuple[SealedBatch, Sequence[OutboxMessage]]
EarlyEnd = tuple[OpenBatch, Sequence[OutboxMessage]]
Member = TypeVar("Member")
SET_BACK = 5_000
"""Groups whose deadlines one call sets back."""


class Decoded(NamedTuple):
    """`ids[i]` is the row of `entries[i]`; `unresolved` counts the rows that could not be decoded."""

    ids: Sequence[str]
    entries: Sequence[Entry]
    unresolved: int


def decoded(rows: Iterable[tuple[str, Entry]], types: Types | None) -> Decoded:
    pairs = [(id, resolved(entry, types)) for id, entry in rows]
    good = [(id, entry) for id, entry in pairs if entry is not None]
    return Decoded(tuple(id for id, _ in good), tuple(entry for _, entry in good), len(pairs) - len(good))


class KnownDue(NamedTuple):
    """The newest deadline that a row gave its group: the number of the row, the parts of its EntryDue, and the time of
    its insert. It counts while the row is open."""

    row: int
    since: DueSince
    after: int
    at: int

    def begin(self, first: int) -> int | None:
        """The time of the store's clock from which the deadline counts. None: it depends on no clock."""
        return {"first": first, "last": self.at}.get(self.since)

    def due(self, first: int) -> int | None:
        """The deadline, in microseconds since 1970. `first` is the time of the group's first open row."""
        return EntryDue(self.since, self.after).at(first, self.at)


NO_DUES: Mapping[str, KnownDue] = {}


def newest_dues(gate: Gate, new: Iterable[Entry], first: int, now: int) -> dict[str, KnownDue]:
    """By group the newest deadline that a new row gives. The rows are numbered from `first`."""
    rows = enumerate(new if gate.dues else (), first)
    return {entry.group: KnownDue(number, *entry.due, now) for number, entry in rows if entry.due is not None}


def open_due(newest: KnownDue | None, oldest: int, now: int) -> KnownDue | None:
    """The deadline that a group has, if the row that gave it is still open: `oldest` is the number of the group's first
    open row. The clock was ahead if the row was inserted later than now: then it counts as inserted now."""
    if newest is None or newest.row < oldest or newest.since == "never":
        return None
    return newest._replace(at=min(newest.at, now))


def deadline(gate: Gate, first: int, last: int, newest: KnownDue | None = None) -> int | None:
    """The time, in microseconds since 1970, at which a group must be sealed. `first` and `last` are the times at which
    its first and last open rows were inserted. None: only its count seals it."""
    times = (first, gate.after_first), (last, gate.after_last)
    ends = [start + length(after) for start, after in times if after is not None]
    due = None if newest is None else newest.due(first)
    return min(ends if due is None else [*ends, due], default=None)


def past_of(early: tuple[int, int] | None, last: int) -> EarlyPast:
    """The early results of a group whose newest row has the number `last`. `early` is their number, and the last row
    that they cover."""
    return NO_RESULTS if early is None else EarlyPast(early[0], early[1] == last)


def latest_early(gate: Gate, now: int) -> int:
    """The latest time at which an early result can be due, or its lease can end, if the clock was not ahead."""
    return now + max(length(gate.lease), 0 if gate.every is None else length(gate.every))


def may_end(gate: Gate, new: Iterable[Entry], first_of: Callable[[str], int], now: int) -> dict[str, dict[str, Entry]]:
    """By group and by idempotency key, the new entries that end their group if no count ends it before: by `ends`, or
    by a deadline that has passed. `first_of` returns the time of the first open row of a group."""
    groups: dict[str, dict[str, Entry]] = {}
    for entry in new:
        if entry.ends or (gate.dues and entry.due and is_over(entry, first_of(entry.group), now)):
            groups.setdefault(entry.group, {})[entry.idempotency_key] = entry
    return groups


def is_over(entry: Entry, first: int, now: int) -> bool:
    """Whether the deadline that a new entry gives has passed. `first` is the time of the first row of its group."""
    due = None if entry.due is None else entry.due.at(first, now)
    return due is not None and due <= now


def full_batches(
    rows: Iterable[Member], gate: Gate, key_of: Callable[[Member], str], ends: Mapping[str, Entry], first: int, now: int
) -> Iterator[tuple[str, list[Member]]]:
    """The batches that the rows of one group fill, oldest rows first, each with its reason. `ends` are the new entries
    that may end their group, by idempotency key; `first` is the time of the oldest row."""
    batch: list[Member] = []
    for row in rows:
        batch.append(row)
        entry = ends.get(key_of(row))
        reason = "count" if len(batch) == gate.count else ""
        if entry is not None and not reason:
            reason = "until" if entry.ends else "timeout" if is_over(entry, first, now) else ""
        if reason:
            yield reason, batch
            batch, first = [], now


def at_least_one(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError("limit is at least 1, or None for all")
    return limit


def position_moved(name: str, progress: PositionMove, stands: int) -> WatermarkMoved:
    place = f"{progress.topic_id}/{progress.partition}"
    text = f"buffer {name}: the position of {place} is {stands}, not {progress.expected}: read again from there"
    return WatermarkMoved(text, stands)


def lease_lost(name: str, what: str) -> ConcurrencyError:
    return ConcurrencyError(
        f"buffer {name}: this caller does not hold the {what} any more: its lease was lost, or its rows are gone"
    )


def not_found(name: str, correlation_id: str, rows: int) -> ConcurrencyError:
    if not rows:
        return AggregationNotFound(f"buffer {name} has no rows")
    return ConcurrencyError(f"buffer {name}: none of its {rows} rows has the correlation id {correlation_id}")


def row_leased(name: str, correlation_id: str) -> ConcurrencyError:
    return ConcurrencyError(f"buffer {name}: the row of {correlation_id} is leased; force removes it all the same")


def complete_together(complete: Callable[[Sequence[End]], Sequence[bool]], ends: Sequence[End]) -> Sequence[bool]:
    """Complete all batches in one call of `complete`. It raises ConcurrencyError when a batch has lost rows since it
    was sealed; each batch is then completed by itself. False: the caller does not hold the batch."""
    try:
        return complete(ends)
    except ConcurrencyError:
        return [False] if len(ends) == 1 else [done for end in ends for done in complete_together(complete, [end])]


def held_batches(ends: Sequence[End], tokens: dict[str, str]) -> list[bool]:
    """Whether the caller holds each batch. `tokens` are the stored tokens by batch id. A batch is completed once, so
    its token is removed from `tokens`."""
    done = []
    for batch, _ in ends:
        mine = batch.id in tokens and tokens[batch.id] == batch.token
        if mine:
            del tokens[batch.id]
        done.append(mine)
    return done


class BufferCalls(ABC):
    """The calls of a buffer that follow from its other calls. A store whose server does more in one call has its
    own."""

    @abstractmethod
    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate | None,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        """Same as sluicegate.streams.contracts.leased.BufferIntake.insert_and_seal. Without a gate nothing is
        sealed."""

    @abstractmethod
    def complete_all(self, name: str, ends: Sequence[End]) -> Sequence[bool]: ...
    @abstractmethod
    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime: ...

    def insert(
        self, name: str, entries: Sequence[Entry], progress: PositionMove | None = None, keep_keys: timedelta = NOT_KEPT
    ) -> InsertResult:
        return self.insert_and_seal(name, entries, None, progress, keep_keys).result

    def insert_packs(
        self, name: str, packs: Sequence[Pack], gate: Gate, progress: PositionMove
    ) -> Sequence[SealedBatch]:
        return self.insert_and_seal(name, singles(packs), gate, progress).batches

    def complete(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        [done] = self.complete_all(name, [(batch, outbox)])
        if not done:
            raise lease_lost(name, "batch")
        return len(batch.ids)

    def renew_all(self, name: str, tokens: Sequence[str], lease: timedelta = LEASE) -> Sequence[bool]:
        """Renews the leases one by one, in a store where a call costs little."""
        done = []
        for token in tokens:
            try:
                self.renew(name, token, lease)
            except ConcurrencyError:
                done.append(False)
            else:
                done.append(True)
        return done
