"""Deadlines from the data: a record gives the time at which its group is complete."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from math import inf, isfinite, nextafter
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.streams.agent import DataDeadline, Let
from sluicegate.streams.aggregation.clauses import Clause, ClauseFailed, Fields, answered, clause
from sluicegate.streams.aggregation.results import LAST_MOMENT
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.expressions.scope import path_of
from sluicegate.streams.expressions.times import EPOCH, PER_SECOND, duration_of, time_of
from sluicegate.streams.expressions.tree import FunctionCall, Literal

CANCELLED = inf
"""The value with which a record removes the deadline of its group."""
LAST_YEAR = 9999
LATEST = LAST_MOMENT + 1
"""The end of that year, in seconds since 1970. Each deadline is before it."""
LONGEST = 10_000 * 366 * 86_400.0
"""The longest duration in seconds. It is longer than any duration of an expression. A larger number in a record is
refused."""
_SECOND = timedelta(seconds=1)


class DeadlineClause:
    """The expressions under `timeout`. They read the record. `is_instant`: they return a time, not a duration.
    `gives` and `cancels` are their trees."""

    __slots__ = ("_answer", "_cancels", "_fields", "_name", "_unit", "cancels", "gives", "is_instant")

    def __init__(self, deadline: DataDeadline, lets: Sequence[Let], codec: Codec) -> None:
        """Raises ConfigurationError."""
        self.is_instant, self._unit = bool(deadline.at), deadline.unit
        plain = clause(f"timeout.{deadline.name}", deadline.at or deadline.after)
        gives, cancels = _or_null(plain), clause("timeout.cancel", deadline.cancel) if deadline.cancel else None
        self.gives, self.cancels = plain.node, None if cancels is None else cancels.node
        self._name = gives.name
        self._fields = Fields([gives] if cancels is None else [gives, cancels], lets, codec)
        self._answer = self._fields.function(gives)
        self._cancels = None if cancels is None else self._fields.function(cancels)

    @property
    def numbers(self) -> tuple[int, float, float]:
        """The numbers that are deadlines: the divisor that makes them seconds, and the least and the greatest number of
        seconds. With `unit: rfc3339` no number is one."""
        if self._unit == "rfc3339":
            return 1, inf, -inf
        return PER_SECOND[self._unit], *((0.0, nextafter(LATEST, 0.0)) if self.is_instant else (-LONGEST, LONGEST))

    def evaluate(self, record: Record) -> float | None:
        """The deadline that the record gives, in seconds: since 1970, or a duration. CANCELLED removes the known
        deadline; None keeps it. Raises ClauseFailed, and the errors of decoders."""
        seen = self._fields.read(record, self._fields.value(record))
        if self._cancels is not None and answered("timeout.cancel", self._cancels(seen)):
            return CANCELLED
        value = self._answer(seen)
        return None if value is None else self.seconds(value)

    def seconds(self, value: Any) -> float:
        """The deadline in seconds. Raises ClauseFailed."""
        try:
            seconds = _instant(value, self._unit) if self.is_instant else _duration(value, self._unit)
        except EvaluationError as error:
            raise ClauseFailed(self._name, str(error)) from error
        if self.is_instant and not 0 <= seconds < LATEST:
            raise ClauseFailed(self._name, f"the deadline is outside of the years 1970 to {LAST_YEAR}")
        if not isfinite(seconds) or abs(seconds) > LONGEST:
            raise ClauseFailed(self._name, "the duration is longer than 10,000 years")
        return seconds


def _or_null(gives: Clause) -> Clause:
    """Let a clause that is only a field be null if the field is missing. The record then gives no deadline."""
    if path_of(gives.node) is None:
        return gives
    return gives._replace(node=FunctionCall("default", (gives.node, Literal(None))))


def _instant(value: Any, unit: str) -> float:
    """Convert a value to seconds since 1970. Raises EvaluationError."""
    if isinstance(value, datetime):
        return (value - EPOCH) / _SECOND
    if isinstance(value, str) and unit == "rfc3339":
        return (time_of(value) - EPOCH) / _SECOND
    return _number(value, unit, "the deadline is neither a time nor text in RFC 3339")


def _duration(value: Any, unit: str) -> float:
    """Convert a value to seconds. Raises EvaluationError."""
    if isinstance(value, timedelta):
        return value / _SECOND
    if isinstance(value, str) and unit == "rfc3339":
        return duration_of(value) / _SECOND
    return _number(value, unit, 'the time is neither a duration nor text such as "1h30m"')


def _number(value: Any, unit: str, otherwise: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise EvaluationError(otherwise if unit == "rfc3339" else f"the value is not a number of `unit: {unit}`")
    if unit == "rfc3339":
        raise EvaluationError(f"{otherwise}; a number needs `unit`")
    try:
        return float(value / PER_SECOND[unit])
    except (OverflowError, ArithmeticError):
        return inf
