"""Problems of an app's expressions that follow from the known types of its records and results.

It is the last check of expressions. An expression that can never work is a problem. One that may have no answer for
some records is a warning.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sluicegate.schemas.json import UNREADABLE, document
from sluicegate.streams.agent import Agent, App, Until
from sluicegate.streams.aggregation.clauses import GROUP, MESSAGE, message_type
from sluicegate.streams.aggregation.ending import over_legs
from sluicegate.streams.config.checking.record_types import (
    RecordFields,
    RecordType,
    field_type,
    group_type,
    of_values,
    record_type,
    result_type,
    row_types,
)
from sluicegate.streams.config.sections import correlating, deadlines
from sluicegate.streams.config.sections.correlating import LegModel
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.expressions.check import Finding, check, check_condition
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import path_of
from sluicegate.streams.expressions.types import MAP, NUMBERS, UNKNOWN, open_record_of, record_of
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.reducers import kind_of


class Judged(NamedTuple):
    finding: FileFinding
    is_warning: bool


class PlacedExpression(NamedTuple):
    """An expression with its place in the file."""

    path: Path
    expression: str
    is_condition: bool

    def findings(self, names: RecordFields, source: str | None) -> tuple[Finding, ...]:
        node = parse(self.expression)
        return check_condition(node, names, source) if self.is_condition else check(node, names, source)[1]


def judged(app: App, file: FileModel | None = None) -> Iterator[Judged]:
    """The problems and warnings. `file` has the names of schema files, and the tests, which an app does not have."""
    for agent in app.agents:
        yield from judged_agent(agent, file)


def judged_agent(agent: Agent, file: FileModel | None = None) -> Iterator[Judged]:
    path = correlating.place_of(agent) if agent.leg else ("agents", agent.rekeys or agent.name)
    model = None if file is None else file.agents[str(path[1])]
    reader = model.legs[agent.leg] if model is not None and agent.leg else model
    record = record_type(agent, None if reader is None else reader.schema_)
    if reader is not None and reader.fields is not None:
        record = RecordType(reader.fields, "fields")
    if model is not None and agent.correlates:
        record = RecordType({name: record_of(leg.fields) if leg.fields else MAP for name, leg in model.legs.items()})
    types = _types(agent, record)
    clauses = [*_clauses(agent, path, model)]
    yield from _of_record(agent, path, clauses, record, types)
    if agent.forwards:
        # the expressions of each destination see the record with its looked-up rows
        for text in _of_outputs(agent, path):
            yield from map(_as_judged(text), text.findings({**types, **row_types(agent.lookups)}, record.source))
    if file is not None and reader is not None and record.source is None and not (agent.events or agent.keeps_rows):
        yield from _not_in_tests(agent, path, clauses, record, sent(file, reader))
    if agent.grouped:
        yield from _of_result(agent, path, types)


def _types(agent: Agent, record: RecordType) -> RecordFields:
    """The names that expressions of a record can use."""
    whole = open_record_of(record.fields) if record.source is None else record_of(record.fields)
    types = {**record.fields, MESSAGE: message_type(whole)}
    for let in agent.let:
        types[let.name] = check(parse(let.expression), types)[0]
    return types


def _clauses(agent: Agent, path: Path, model: AgentModel | None) -> Iterator[PlacedExpression]:
    """The expressions of a record. Keys of a correlation that apply to all legs are at the agent."""
    of_all = model if model is not None and agent.leg else None
    for let in agent.let:
        place = path[:2] if of_all is not None and let.name in (of_all.let or {}) else path
        yield PlacedExpression((*place, "let", let.name), let.expression, False)
    if of_all is not None and of_all.correlate is not None:
        conditions = {path[:2]: of_all.where, path: of_all.correlate.legs[agent.leg].where}
    else:
        conditions = {path: agent.where}
    for place, text in conditions.items():
        if text:
            yield PlacedExpression((*place, "where"), text, True)


def _of_outputs(agent: Agent, path: Path) -> Iterator[PlacedExpression]:
    """`where` and `select` of each destination."""
    for number, to in enumerate(agent.outputs):
        at: Path = (*path, "to", number) if agent.routes else (*path, "to")
        if to.where:
            yield PlacedExpression((*at, "where"), to.where, True)
        for field in to.select:
            if field.expression:
                yield PlacedExpression((*at, "select", field.name), field.expression, False)


def _copied(agent: Agent, path: Path) -> Iterator[PlacedExpression]:
    """The fields of a forwarded record that `select` copies."""
    for number, to in enumerate(agent.outputs if agent.forwards else ()):
        at: Path = (*path, "to", number) if agent.routes else (*path, "to")
        for field in to.select:
            if not field.expression:
                yield PlacedExpression((*at, "select"), field.name, False)


def _ending(agent: Agent, path: Path, types: RecordFields) -> tuple[PlacedExpression, RecordFields] | None:
    """`until` of an aggregation or `complete` of a correlation, and the names that it can use."""
    rule = agent.aggregation if not agent.rekeys else None
    if rule is None or not isinstance(rule.until, str):
        return None
    group = group_type(rule, {reducer.name: reducer for reducer in rule.compute}, types)
    if rule.correlation is None:
        return PlacedExpression((*path, "aggregate", "until"), rule.until, True), {**types, GROUP: group}
    return PlacedExpression((*path, correlating.CORRELATE, "complete"), over_legs(rule.until), True), group.fields or {}


def _of_record(
    agent: Agent, path: Path, clauses: Sequence[PlacedExpression], record: RecordType, types: RecordFields
) -> Iterator[Judged]:
    for text in clauses:
        yield from map(_as_judged(text), text.findings(types, record.source))
    if (ending := _ending(agent, path, types)) is not None:
        text, names = ending
        yield from map(_as_judged(text), text.findings(names, record.source))
    yield from _of_deadline(agent, path, record, types)
    if record.source is not None:
        yield from _named(agent, path, record)
    for let in agent.let if record.source is not None else ():
        if let.name in record.fields:
            what = f"hides the field {let.name} of {record.source}"
            yield Judged(FileFinding((*path, "let", let.name), what, "give the computed field another name"), False)
    for reducer in agent.aggregation.compute if agent.aggregation is not None else ():
        type_ = field_type(types, reducer.field)
        if kind_of(reducer).takes == "number" and not (type_.kind in NUMBERS or type_.kind == "unknown"):
            what = f"needs a number, but {reducer.field} is {type_}"
            at = (*path, "aggregate", "compute", reducer.name)
            yield Judged(FileFinding(at, what, "compute something else, or take another field"), False)


def _of_deadline(agent: Agent, path: Path, record: RecordType, types: RecordFields) -> Iterator[Judged]:
    """The expressions under `timeout`. A field alone may be missing there."""
    rule = agent.aggregation if not agent.rekeys else None
    if rule is None or rule.deadline is None:
        return
    deadline, at = rule.deadline, (*path, "aggregate", "timeout")
    gives = PlacedExpression((*at, deadline.name), deadline.at or deadline.after, False)
    alone = path_of(parse(gives.expression)) is not None
    for text in [gives, *([PlacedExpression((*at, "cancel"), deadline.cancel, True)] if deadline.cancel else [])]:
        problems = text.findings(types, record.source)
        yield from (
            _as_judged(text)(problem) for problem in problems if not (problem.is_warning and alone and text is gives)
        )
    type_ = check(parse(gives.expression), types)[0]
    if (wrong := deadlines.wrong_type(deadline.name, deadline.unit, type_)) is not None:
        yield Judged(FileFinding(gives.path, *wrong, (gives.path, (*at, "unit"))), False)


def _named(agent: Agent, path: Path, record: RecordType) -> Iterator[Judged]:
    """Field names in keys other than expressions, where all fields of a record are known."""
    rule, known = agent.aggregation, [*record.fields, *(let.name for let in agent.let)]
    named: dict[Path, str | None] = {(*path, "key"): agent.key or (None if rule is None else rule.key)}
    if agent.dedupe is not None and agent.dedupe.by == "field":
        named[*path, "dedupe", "id"] = agent.dedupe.name
    if rule is not None and not agent.rekeys:
        named |= {(*path, "aggregate", "compute", reducer.name): reducer.field for reducer in rule.compute}
        named[*path, "aggregate", "window", "time"] = rule.window.time if rule.window is not None else None
        named[*path, "aggregate", "until", "field"] = rule.until.field if isinstance(rule.until, Until) else None
    wanted = [(at, field) for at, field in named.items() if field is not None]
    known += [lookup.name for lookup in agent.lookups]
    for number, to in enumerate(agent.outputs if agent.forwards else ()):
        place: Path = (*path, "to", number, "select") if agent.routes else (*path, "to", "select")
        wanted += [(place, entry.name) for entry in to.select if not entry.expression]
    for at, field in wanted:
        if field.partition(".")[0] not in known:
            what = f"needs {field}, but {record.source} has no such field"
            yield Judged(FileFinding(at, what, did_you_mean(field, known)), False)


def _of_result(agent: Agent, path: Path, types: RecordFields) -> Iterator[Judged]:
    """`having`, and the expressions of each destination."""
    assert agent.aggregation is not None
    rule = agent.aggregation
    names = result_type(rule, {reducer.name: reducer for reducer in rule.compute}, types, emits=rule.emit is not None)
    names |= row_types(agent.lookups)
    texts = [PlacedExpression((*path, "having"), agent.having, True)] if agent.having else []
    outputs = _of_outputs(agent, path) if agent.handler is None else ()
    for text in (*texts, *outputs):
        yield from map(_as_judged(text), text.findings(names, "the result"))


def _as_judged(text: PlacedExpression) -> Callable[[Finding], Judged]:
    def finding(problem: Finding) -> Judged:
        what, _, hint = printable(problem.problem).partition("; ")
        of_file = FileFinding(text.path, what, hint or "correct the expression", (text.path,), problem.column)
        return Judged(of_file, problem.is_warning)

    return finding


# -- names that no test sends ------------------------------------------------------------------------------------------


def sent(file: FileModel, reader: AgentModel | LegModel) -> list[dict[str, Any]]:
    """The objects that the tests send to the agent, or to this leg. Empty when one of its topics gets none, or gets
    results of other agents: then the tests do not show the fields of its records."""
    topics = {source.name for source in reader.from_}
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for step in [step.send for steps in file.tests.values() for step in steps if step.send is not None]:
        value = step.value if step.value_base64 is None else _decoded(step.value_base64)
        if isinstance(value, dict):
            by_topic.setdefault(step.topic, []).append(value)
    written = {to.topic for agent in file.agents.values() for to in agent.outputs.values()}
    if topics & written or not topics <= by_topic.keys():
        return []
    return [value for topic in sorted(topics) for value in by_topic[topic]]


def _decoded(value: bytes) -> object:
    try:
        return document(value)
    except UNREADABLE:
        return None


def _not_in_tests(
    agent: Agent, path: Path, clauses: Sequence[PlacedExpression], record: RecordType, values: list[dict[str, Any]]
) -> Iterator[Judged]:
    """Names that occur neither in a test nor in the type of the handler's `value`."""
    whole = of_values(values)
    if whole.fields is None or agent.format in ("avro", "protobuf", "raw"):
        return
    fields = {**whole.fields, **record.fields}
    names = {**fields, MESSAGE: message_type(record_of(fields)), **{let.name: UNKNOWN for let in agent.let}}
    names |= row_types(agent.lookups)
    outputs = _of_outputs(agent, path) if agent.forwards else ()
    for text in (*clauses, *outputs, *_copied(agent, path)):
        unknown = [finding for finding in text.findings(names, "the values that the tests send") if finding.is_name]
        yield from (finding._replace(is_warning=True) for finding in map(_as_judged(text), unknown))
