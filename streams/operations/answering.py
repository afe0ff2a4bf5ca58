"""What each clause of an agent answers for one record or one result, by the code that the engine runs.

Pure: the caller reads the record. Nothing is claimed or written.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any, Literal, NamedTuple

from sluicegate.schemas import Codec
from sluicegate.streams import topic_names
from sluicegate.streams.agent import Agent, OnError
from sluicegate.streams.aggregation.accept import accept, refuse
from sluicegate.streams.aggregation.clauses import Clause, ClauseFailed, Fields, Where, answered, as_field, clause
from sluicegate.streams.aggregation.deadline import CANCELLED
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.aggregation.events_read import one_as_read
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import ResultFields, Results, clauses, results, rfc3339
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import DecodeWaits, Halt
from sluicegate.streams.expressions.times import duration_text
from sluicegate.streams.formats import reads
from sluicegate.streams.handlers.forwarding import Forwarded, Forwarding
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.tables import KeepingRows, of_rows, row_of
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.proof import HeaderProof, without_steering
from sluicegate.streams.windows.opening import accept_into, groups_of
from sluicegate.streams.windows.times import NoTime, reader
from sluicegate.streams.windows.units import timed_by

TIME = "time"
"""The clause of an agent with event time that reads the time of a record from a field."""


class ClauseAnswer(NamedTuple):
    """The answer of one clause: a `value`, or the `problem` that prevents one, with the `reason` of a dead letter.
    `failed` names the clause that failed: this one, or a computed field that it uses. It is empty when the record
    cannot be read; then the problem may quote the payload."""

    clause: str
    value: Any = None
    problem: str = ""
    reason: str = ""
    failed: str = ""


class Verdict(NamedTuple):
    """What the agent does with a record or a result. `reason` and `error` are the fields of the dead letter; `error`
    without a reason is why the partition halts. `outputs` are the topics that a result or a forwarded record goes to,
    each with its value. None stands for the value of the record, unchanged."""

    outcome: Literal["taken", "left-out", "dead-letter", "skipped", "halted", "passed-over"]
    reason: str = ""
    error: str = ""
    clause: str = ""
    outputs: tuple[tuple[str, Any], ...] = ()


class RecordClauses:
    """The clauses of an agent that see a record: each `let`, `where`, the key, an `until` expression, the event time in
    a field, and the clauses under `to` of an agent that forwards. `until` sees a group of this record alone. Two routes
    to one topic have clauses with one name."""

    def __init__(self, agent: Agent) -> None:
        """Raises ConfigurationError, and ValueError where the format cannot be read."""
        codec = reads(agent)
        self._table = Rule(agent, codec) if agent.over_table else None
        agent = of_rows(agent) if agent.keeps_rows else agent
        self._rule, self._opaque = Rule(_refusing(agent), codec), agent.forwards
        self._asks = tuple(_asks(agent, codec, self._rule))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._asks)

    def answer(self, number: int, record: Record) -> ClauseAnswer:
        """The answer of clause number `number` of `names`."""
        name, ask = self._asks[number]
        groups, answer = Groups(self._rule), None
        try:
            read = one_as_read(self._rule, record) if self._table is None else row_of(self._table, record)
            if read is None:  # the change leaves no row
                return ClauseAnswer(name)
            record, value = read, read.value()
            if (value is None and not self._opaque) or len(value or b"") > self._rule.max_record_bytes:
                raise OverflowError
            answer = ask(record, value, groups)  # type: ignore[arg-type]  # what needs a value refuses None
        except NoTime as error:
            return ClauseAnswer(name, None, str(error), error.reason, name)
        except Exception as error:
            refuse(groups, record, error)
        for event in groups.drain():
            if isinstance(event, Refused):
                return ClauseAnswer(name, None, event.error, event.reason, event.clause)
        return ClauseAnswer(name, answer)


def _refusing(agent: Agent) -> Agent:
    """The agent with a dead letter for each unusable record, so that each refusal has a reason."""
    rule = agent.aggregation
    if rule is not None:
        on_missing = "dead-letter" if rule.on_missing == "skip" else rule.on_missing
        rule = replace(rule, on_null="dead-letter", on_missing=on_missing)
    return replace(_without_results(agent), aggregation=rule, on_error=OnError())


def _without_results(agent: Agent) -> Agent:
    """The agent without its clauses about results, so that a group that one record completes is not judged."""
    return replace(agent, having="", routes=(), to=None)


AskRecord = Callable[[Record, bytes, Groups], Any]
"""What a clause answers for a record and its value. The groups hold nothing yet."""


def _asks(agent: Agent, codec: Codec, rule: Rule) -> Iterator[tuple[str, AskRecord]]:
    for let in agent.let:
        name = f"let.{let.name}"
        yield name, _computes(clause(name, let.expression), agent, codec)
    if agent.where:
        where = Where(agent.where, agent.let, codec, opaque=agent.forwards)
        yield "where", lambda record, value, groups: where.takes(record, value)
    if agent.aggregation is not None or agent.key:
        key_of = rule.key_of
        yield "key", lambda record, value, groups: record.key() if key_of is None else key_of(rule.reader.read(record))
    if rule.ending is not None:
        yield rule.ending.name, _ends
    if (deadline := rule.deadline) is not None:
        yield "timeout", lambda record, value, groups: _shown(deadline.evaluate(record), deadline.is_instant)
    if (window := timed_by(agent)) is not None and not window.origins:
        time_of = reader(window, codec.decode)
        yield TIME, lambda record, value, groups: rfc3339(time_of(record) / 1000)
    for output_clause in (
        [output_clause for to in agent.outputs for output_clause in clauses(to)] if agent.forwards else ()
    ):
        computes = _computes(output_clause, agent, codec)
        yield (
            output_clause.name,
            _holds(output_clause.name, computes) if output_clause.name.startswith("to.") else computes,
        )


def _ends(record: Record, value: bytes, groups: Groups) -> bool:
    """Whether the record ends a group that holds only this record."""
    accept(groups, [record], 0.0)
    ending = groups.rule.ending
    return ending is not None and groups.outcomes[ending.name, "true"] > 0


def _shown(deadline: float | None, is_instant: bool) -> str | None:
    """The value for output: an instant as RFC 3339 text, a duration as text; None where the record gives no value."""
    if deadline is None or deadline == CANCELLED:
        return None if deadline is None else "none any more"
    return rfc3339(deadline) if is_instant else duration_text(timedelta(seconds=deadline))


def _computes(clause: Clause, agent: Agent, codec: Codec) -> AskRecord:
    fields = Fields([clause], agent.let, codec, opaque=agent.forwards)
    compute = fields.function(clause)
    return lambda record, value, groups: as_field(compute(fields.read(record, value)))


def _holds(name: str, computes: AskRecord) -> AskRecord:
    return lambda record, value, groups: answered(name, computes(record, value, groups))


def record_verdict(app: str, agent: Agent, record: Record, proof: HeaderProof) -> Verdict:
    """What the agent does with the record. `proof` decides whether the record's headers are believed. Effects of
    earlier records and of the clock are not judged: repeats, full groups, and records that are late or far ahead. Nor
    is the size of outputs."""
    if not for_us([record], Partition(app, agent.name, record.topic(), record.partition()), proof):
        return Verdict("passed-over")
    record = believed(agent, record, proof)
    codec = reads(agent)
    groups = groups_of(rule := Rule(_without_results(agent), codec))
    forwarding = Forwarding(agent, rule, codec, sys.maxsize) if agent.forwards else None
    items: list[Item] = []
    dedupe = DuplicateFilter(IdRule(agent, codec)) if agent.dedupe else None
    try:
        kept = taken(groups, [record])
        for run in dedupe.runs(kept, 0.0, groups) if dedupe else (kept,):
            if agent.keeps_rows:
                items += KeepingRows(agent, codec, sys.maxsize).read(groups, run)
            elif agent.aggregation is not None:
                accept_into(groups, run, inf)
            elif forwarding is not None:
                items += forwarding.read(groups, run)
    except (Halt, DecodeWaits) as error:
        return Verdict("halted", error=str(error))
    for event in (*groups.drain(), *items):
        if isinstance(event, Refused):
            return Verdict("dead-letter", event.reason, event.error, event.clause)
        if isinstance(event, Message) and forwarding is not None:
            forwarded: Forwarded = event.value
            outputs = [
                (topic, None if value == event.record.value() else value) for _, topic, value in forwarded.outputs
            ]
            return Verdict("taken", outputs=tuple(outputs)) if outputs else Verdict("left-out", clause="to")
    if agent.keeps_rows and groups.outcomes["where", "false"]:
        return Verdict("left-out", clause="where")
    if groups.counts["skipped"]:
        return Verdict("skipped")
    return Verdict("taken" if kept else "left-out", clause="" if kept else "where")


def believed(agent: Agent, record: Record, proof: HeaderProof) -> Record:
    """The record as the agent reads it. Without proof, the headers that steer it are left out."""
    steered = topic_names.reads(agent.receive, record.topic()) and headers(record) and not proof.believes(record)
    return without_steering(record) if steered else record


def result_clauses(agent: Agent) -> list[str]:
    """The clauses of an agent that see a result, in the order of evaluation."""
    made = results(agent)
    return [] if made is None else [name for name, _ in _of_results(made)]


def result_answers(agent: Agent, result: ResultFields) -> list[ClauseAnswer]:
    """The answer of each of these clauses, including clauses that the engine would skip after an earlier answer."""
    made = results(agent)
    return [] if made is None else [_answer(name, ask, result) for name, ask in _of_results(made)]


def _of_results(made: Results) -> Iterator[tuple[str, Callable[[ResultFields], Any]]]:
    if made.having is not None:
        yield "having", _condition("having", made.having)
    for route in made.routes or ():
        if route.where is not None:
            yield route.name, _condition(route.name, route.where)
        for name, ask in route.select:
            if ask is not None:
                yield f"select.{name}", _as_field(ask)


def _condition(name: str, ask: Callable[[ResultFields], Any]) -> Callable[[ResultFields], Any]:
    return lambda result: answered(name, ask(result))


def _as_field(ask: Callable[[ResultFields], Any]) -> Callable[[ResultFields], Any]:
    return lambda result: as_field(ask(result))


def _answer(name: str, ask: Callable[[ResultFields], Any], result: ResultFields) -> ClauseAnswer:
    try:
        return ClauseAnswer(name, ask(result))
    except ClauseFailed as failed:
        return ClauseAnswer(name, None, str(failed), "expression-failed", failed.clause)


def result_verdict(agent: Agent, result: ResultFields) -> Verdict:
    """What the agent does with a result."""
    made = results(agent)
    to = ((agent.to.topic, result),) if agent.to is not None else ()
    if made is None:
        return Verdict("taken", outputs=to)
    uncounted: Counter[tuple[str, str]] = Counter()
    try:
        if not made.takes(result, uncounted):
            return Verdict("left-out", clause="having")
        outputs = made.outputs(result, uncounted)
    except ClauseFailed as failed:
        if agent.on_error.expression == "stop":
            return Verdict("halted", error=f"{failed.clause} has no answer ({failed})", clause=failed.clause)
        return Verdict("dead-letter", "expression-failed", str(failed), failed.clause)
    if outputs is None:
        return Verdict("taken", outputs=to)
    if not outputs:
        drops = agent.unrouted == "drop"
        return Verdict("left-out", clause="to") if drops else Verdict("dead-letter", "unrouted", "no route takes it")
    return Verdict("taken", outputs=tuple((agent.outputs[number].topic, value) for number, value in outputs))
