"""Filters the records for the windows of a partition, in the order of the log."""

from collections import deque
from collections.abc import Collection, Sequence

from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.taking import Duplicates, divided, evaluate_where
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.marks import is_mark, without_marks


def take(
    windows: WindowGroups, records: Sequence[Record], now: float, dedupe: Duplicates | None, timed: Collection[int] = ()
) -> None:
    """Add the records for which `where` is true and that are not duplicates. A record for which `where` is false moves
    the watermark at its place in the log. A refused record and a duplicate do not move it. Over a re-keyed topic a
    refused record has already moved the clock of its origin: the records at the offsets `timed` only move the
    watermark. Raises Halt."""
    rule, dedupes = windows.rule, dedupe is not None
    if windows.merged is None and (rule.where is not None or dedupes):
        loop = loop_of(rule, True, judged, windows.placing, dedupes)
        if loop is not None:
            windows.accept(as_read(windows, records), now, by=loop, duplicates=dedupe)
            return
    windows.event.saw(now)
    kept, others = divided(windows, records)
    if windows.merged is not None:
        unmarked = without_marks(kept)
        if unmarked is kept and not timed:
            others = ()
        else:
            others = [record for record in kept if is_mark(record) or _offset(record) in timed]
            unmarked = [record for record in unmarked if _offset(record) not in timed]
        kept = unmarked
    left_out = deque(others)
    for run in dedupe.runs(kept, now, windows) if dedupe else (kept,):
        between = []
        while left_out and run and left_out[0].offset() < run[-1].offset():
            between.append(left_out.popleft())
        _accept(windows, run, between, now)
    _accept(windows, (), left_out, now)


def judged(windows: WindowGroups, record: Record, now: float, duplicates: Duplicates | None = None) -> None:
    """Process one record with every check. Raises Halt."""
    answer = evaluate_where(windows, record)
    if answer:
        for run in ([record],) if duplicates is None else duplicates.runs([record], now, windows):
            for first_copy in run:
                windows.take(first_copy, now)
    elif answer is not None:
        windows.pass_over(record, now)


def _accept(windows: WindowGroups, kept: Sequence[Record], left_out: Collection[Record], now: float) -> None:
    if left_out:
        offsets = {record.offset() for record in left_out}
        windows.accept(sorted((*kept, *left_out), key=_offset), now, offsets)
    elif kept:
        windows.accept(kept, now)


def _offset(record: Record) -> int:
    return record.offset()
