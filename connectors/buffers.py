"""Code that the buffers of all stores share: decoding of rows, deadlines, errors, and completion of batches."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import Entry, Gate, SealedBatch, Types, WatermarkMove, resolved
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import AggregationNotFound, ConcurrencyError, WatermarkMoved

End = tuple[SealedBatch, Sequence[OutboxMessage]]
Complete = Callable[[str, Sequence[End]], Sequence[bool]]
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


def deadline(gate: Gate, first: int, last: int) -> int | None:
    """The time, in microseconds since 1970, at which a group must be sealed. `first` and `last` are the times at which
    its first and last open rows were inserted. None: only its count seals it."""
    times = (first, gate.after_first), (last, gate.after_last)
    return min((start + length(after) for start, after in times if after is not None), default=None)


def full_batches(
    rows: Iterable[Member], count: int | None, key_of: Callable[[Member], str], ends: Container[str]
) -> Iterator[tuple[str, list[Member]]]:
    """The batches that the rows of one group fill, oldest rows first, each with its reason. A row whose idempotency key
    is in `ends` ends its group."""
    batch: list[Member] = []
    for row in rows:
        batch.append(row)
        if len(batch) == count or key_of(row) in ends:
            yield "count" if len(batch) == count else "until", batch
            batch = []


def at_least_one(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError("limit is at least 1, or None for all")
    return limit


def watermark_moved(name: str, progress: WatermarkMove, stands: int) -> WatermarkMoved:
    place = f"{progress.topic_id}/{progress.partition}"
    text = f"buffer {name}: the watermark of {place} stands at {stands}, not {progress.expected}: read again from there"
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


def complete_one(complete_all: Complete, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage]) -> int:
    """Complete one batch; returns how many rows it had. Raises ConcurrencyError when the caller does not hold it."""
    [done] = complete_all(name, [(batch, outbox)])
    if not done:
        raise lease_lost(name, "batch")
    return len(batch.ids)


def renew_each(
    renew: Callable[[str, str, timedelta], object], name: str, tokens: Sequence[str], lease: timedelta
) -> list[bool]:
    """Renews the leases one by one, in a store where a call costs little."""
    done = []
    for token in tokens:
        try:
            renew(name, token, lease)
        except ConcurrencyError:
            done.append(False)
        else:
            done.append(True)
    return done


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
