"""What every store's buffer does around its own reads and writes: decode rows, judge deadlines, build what callers
get."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import Entry, Gate, SealedBatch, Types, WatermarkMove, resolved
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import AggregationNotFound, ConcurrencyError, WatermarkMoved

End = tuple[SealedBatch, Sequence[OutboxMessage]]
Complete = Callable[[str, Sequence[End]], Sequence[bool]]


class Decoded(NamedTuple):
    """`ids[i]` is the row of `entries[i]`; `unresolved` rows had no value."""

    ids: Sequence[str]
    entries: Sequence[Entry]
    unresolved: int


def decoded(rows: Iterable[tuple[str, Entry]], types: Types | None) -> Decoded:
    found = [(id, resolved(entry, types)) for id, entry in rows]
    good = [(id, entry) for id, entry in found if entry is not None]
    return Decoded(tuple(id for id, _ in good), tuple(entry for _, entry in good), len(found) - len(good))


def deadline(gate: Gate, first: int, last: int) -> int | None:
    """When a group must be sealed whose first and last unsealed rows came then, in microseconds; None: only its count
    seals it."""
    ends = [
        start + length(after)
        for start, after in ((first, gate.after_first), (last, gate.after_last))
        if after is not None
    ]
    return min(ends) if ends else None


def at_least_one(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError("limit is at least 1, or None for all")
    return limit


def moved(name: str, progress: WatermarkMove, stands: int) -> WatermarkMoved:
    place = f"{progress.topic_id}/{progress.partition}"
    text = f"buffer {name}: the watermark of {place} stands at {stands}, not {progress.expected}: read again from there"
    return WatermarkMoved(text, stands)


def taken(name: str, what: str) -> ConcurrencyError:
    return ConcurrencyError(
        f"buffer {name}: the {what} is not this caller's any more: its lease was lost, or its rows are gone"
    )


def not_found(name: str, correlation_id: str, rows: int) -> ConcurrencyError:
    if not rows:
        return AggregationNotFound(f"buffer {name} has no rows")
    return ConcurrencyError(f"buffer {name}: none of its {rows} rows has the correlation id {correlation_id}")


def leased(name: str, correlation_id: str) -> ConcurrencyError:
    return ConcurrencyError(f"buffer {name}: the row of {correlation_id} is leased; force removes it all the same")


def completed(complete_all: Complete, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage]) -> int:
    """One batch; returns how many rows went. Raises ConcurrencyError when it was another's, or gone."""
    [done] = complete_all(name, [(batch, outbox)])
    if not done:
        raise taken(name, "batch")
    return len(batch.ids)


def together(complete: Callable[[Sequence[End]], Sequence[bool]], ends: Sequence[End]) -> Sequence[bool]:
    """`complete` of all; of each by itself when it raises ConcurrencyError because one is not as it was sealed. False:
    the batch was another's, or gone."""
    try:
        return complete(ends)
    except ConcurrencyError:
        return [False] if len(ends) == 1 else [done for end in ends for done in together(complete, [end])]


def ours(ends: Sequence[End], tokens: dict[str, str]) -> list[bool]:
    """Of each, may it be completed under these tokens of the batches that are there? Each batch once; those are taken
    from `tokens`."""
    done = []
    for batch, _ in ends:
        mine = batch.id in tokens and tokens[batch.id] == batch.token
        if mine:
            del tokens[batch.id]
        done.append(mine)
    return done
