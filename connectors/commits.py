"""Code that the commits of all stores share: checks of the changes, the next claim, runs of numbers."""

from collections.abc import Callable, Sequence

import msgspec

from sluicegate.streams.contracts.values import COLD_KEY, Changes, Claim, CrashMark
from sluicegate.streams.errors import SluicegateError

MAX_ENTRY = 4 * 1024 * 1024


def check(claim: Claim, changes: Changes) -> None:
    """Raises ValueError for invalid changes, before anything is sent."""
    for entry in changes.entries:
        if len(entry) > MAX_ENTRY:
            raise ValueError(f"a changelog entry of {len(entry)} bytes is over the limit of {MAX_ENTRY}")
    if changes.keep_from is not None and changes.keep_from > claim.last + len(changes.entries) + 1:
        raise ValueError(
            f"keep_from {changes.keep_from} lies beyond the entries, which end at {claim.last + len(changes.entries)}"
        )
    for group in changes.put_cold:
        if len(group.key) > COLD_KEY:
            raise ValueError(f"the key of a cold group has {len(group.key)} bytes, more than {COLD_KEY}")
    last = claim.number
    for row in changes.outbox:
        if row.number <= last:
            raise ValueError(f"outbox number {row.number} comes after {last}: numbers must grow")
        last = row.number


def commit_one(
    commit_all: Callable[[Sequence[tuple[Claim, Changes]]], Sequence[Claim | SluicegateError]],
    claim: Claim,
    changes: Changes,
) -> Claim:
    """Implements `commit` with the `commit_all` of a store that commits several claims together."""
    [result] = commit_all([(claim, changes)])
    if isinstance(result, SluicegateError):
        raise result
    return result


def commit_each(
    commit: Callable[[Claim, Changes], Claim], commits: Sequence[tuple[Claim, Changes]]
) -> list[Claim | SluicegateError]:
    """Implements `commit_all` with the `commit` of a store that gains nothing from committing together."""
    results: list[Claim | SluicegateError] = []
    for claim, changes in commits:
        try:
            results.append(commit(claim, changes))
        except SluicegateError as error:
            results.append(error)
    return results


def next_claim(claim: Claim, changes: Changes, store_time: float) -> Claim:
    """The claim after the commit of `changes`."""
    return msgspec.structs.replace(
        claim,
        version=claim.version + 1,
        offset=changes.offset,
        epoch=changes.epoch,
        number=changes.outbox[-1].number if changes.outbox else claim.number,
        first=claim.first if changes.keep_from is None else max(claim.first, changes.keep_from),
        last=claim.last + len(changes.entries),
        source=claim.source if changes.source is None else changes.source,
        trying=changes.trying,
        store_time=store_time,
    )


def dropped(changes: Changes) -> Sequence[bytes]:
    """The keys of all cold groups that are removed."""
    return [*changes.drop_cold, *(group.key for group in changes.drop_due)]


def remaining_mark(trying: CrashMark | None, processes: Sequence[str]) -> CrashMark | None:
    """The crash mark without these processes; None when no process is left in it."""
    rest = tuple(name for name in trying.processes if name not in processes) if trying else ()
    return CrashMark(trying.offset, rest) if trying and rest else None


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last), both inclusive: [1, 2, 3, 7] is [(1, 3), (7, 7)]."""
    spans: list[tuple[int, int]] = []
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            spans.append((first, last))
        first = last = number
    if first is not None and last is not None:
        spans.append((first, last))
    return spans
