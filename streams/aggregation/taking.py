"""Decides which records an agent takes. `where` is evaluated before the key or the id of a record is read."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from typing import Protocol

from sluicegate.streams.aggregation.accept import accept, carefully, refuse
from sluicegate.streams.aggregation.clauses import Where
from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.contracts.record import Record


def taken(groups: Groups, records: Sequence[Record]) -> Sequence[Record]:
    """The records for which `where` is true, in the form in which the agent reads them. Pure. A record that cannot be
    decoded or evaluated is refused, as in `accept`.

    A record for which `where` is false needs no key, and its id is not remembered.
    """
    records = as_read(groups, records)
    where = groups.rule.where
    return records if where is None else list(compress(records, _answers(groups, where, records)))


class Duplicates(Protocol):
    """What drops the duplicates of a partition."""

    def runs(self, records: Sequence[Record], now: float, groups: Groups) -> Iterable[Sequence[Record]]: ...


def fill(groups: Groups, records: Sequence[Record], now: float, duplicates: Duplicates | None = None) -> None:
    """Add the records for which `where` is true and that are not duplicates. Raises Halt.

    Each record is evaluated and added before the next one, except if `where` or the rule cannot be compiled.
    """
    records, rule = as_read(groups, records), groups.rule
    if rule.where is None and duplicates is None:
        accept(groups, records, now)
    elif groups.behind or groups.full:
        for record in records:
            exactly(groups, record, now, duplicates)
    elif (loop := loop_of(rule, True, exactly, dedupes=duplicates is not None)) is not None:
        loop.call(groups, records, now, duplicates)
    else:
        kept = taken(groups, records)
        for run in (kept,) if duplicates is None else duplicates.runs(kept, now, groups):
            accept(groups, run, now)


def exactly(groups: Groups, record: Record, now: float, duplicates: Duplicates | None = None) -> None:
    """Add the record if `where` is true and it is not a duplicate. It defines the meaning of `fill`. Raises Halt."""
    if evaluate_where(groups, record):
        for run in ([record],) if duplicates is None else duplicates.runs([record], now, groups):
            for first_copy in run:
                carefully(groups, first_copy, now)


def evaluate_where(groups: Groups, record: Record) -> bool | None:
    """Evaluate `where` for one record and count the outcome. None: the record was refused."""
    where = groups.rule.where
    answer = where is None or _takes(groups, where, record)
    if where is not None and answer is not None:
        groups.outcomes["where", "true" if answer else "false"] += 1
    return answer


def divided(groups: Groups, records: Sequence[Record]) -> tuple[Sequence[Record], Sequence[Record]]:
    """As `taken`, and also the records for which `where` is false. Refused records are in neither list."""
    records = as_read(groups, records)
    where = groups.rule.where
    if where is None:
        return records, ()
    answers = _answers(groups, where, records)
    left_out = [record for record, answer in zip(records, answers, strict=True) if answer is not None and not answer]
    return list(compress(records, answers)), left_out


def _answers(groups: Groups, where: Where, records: Sequence[Record]) -> list[bool | None]:
    """Evaluate `where` for each record and count the outcomes. None for a refused record."""
    if where.answers is not None:
        answers: list[bool | None] = where.answers.call(
            records, groups.rule.max_record_bytes, partial(_takes, groups, where)
        )
    else:
        answers = [_takes(groups, where, record) for record in records]
    kept, refused = sum(map(bool, answers)), answers.count(None)
    groups.outcomes["where", "true"] += kept
    groups.outcomes["where", "false"] += len(records) - kept - refused
    return answers


def _takes(groups: Groups, where: Where, record: Record) -> bool | None:
    try:
        if len(value := where.value(record)) > groups.rule.max_record_bytes:
            raise OverflowError
        return where.takes(record, value)
    except Exception as error:
        refuse(groups, record, error)
        return None
