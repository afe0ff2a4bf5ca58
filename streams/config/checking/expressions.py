"""Checks the expressions of the file, before anything runs. A problem has its column in the expression."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sluicegate.streams.aggregation.clauses import GROUP, MESSAGE, PARTS, message_type
from sluicegate.streams.aggregation.ending import ASKED, of_group
from sluicegate.streams.aggregation.results import fixed_fields
from sluicegate.streams.config.checking.record_types import group_type, result_type, row_types
from sluicegate.streams.config.sections import deadlines
from sluicegate.streams.config.sections.calls import flow
from sluicegate.streams.config.sections.correlating import LegModel
from sluicegate.streams.config.sections.lookups import built
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import Aggregate, UntilModel
from sluicegate.streams.config.sections.models_topics import DROP
from sluicegate.streams.config.text.problems import FileFinding, Path, printable
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.expressions.check import check, check_condition
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import is_name, parse
from sluicegate.streams.expressions.scope import paths, roots
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.types import UNKNOWN, ValueType
from sluicegate.streams.expressions.words import normal
from sluicegate.streams.hints import did_you_mean

TIMEOUT = ("aggregate", "timeout")
EVERYTHING = "true"
"""The condition of a route without `where`."""

OF_THE_FIRST_RECORD = {"key", "timestamp", "topic", "partition", "offset"}
"""Parts of `message` that a record of `repartition` no longer has."""
OF_MESSAGE = "ask for message.key, message.headers, message.timestamp or message.topic"


class Parsed(NamedTuple):
    """One expression of an agent. `path` is its place in the file. `name` is the field that it computes, or the key.
    `condition`: it must be true or false."""

    path: Path
    name: str
    node: Node
    condition: bool

    @property
    def names(self) -> frozenset[str]:
        return roots(self.node)

    @property
    def parts(self) -> set[str]:
        """The parts of `message` that it reads; all parts where it uses `message` as a whole."""
        parts = [path[1:2] for path in paths(self.node) if path[0] == MESSAGE]
        return {part for path in parts for part in path or PARTS}


LetClauses = Mapping[str, Parsed]


def findings(file: FileModel) -> Iterator[FileFinding]:
    """Text that is not an expression, unknown names, and clauses that the rest of the agent does not allow."""
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        lets: dict[str, Parsed] = {}
        for at, reader in agent.readers.items():
            parsed = [_parsed(place, text) for place, text in _texts(agent, reader, (*path, *at)).items()]
            yield from (finding for finding in parsed if isinstance(finding, FileFinding))
            clauses = [clause for clause in parsed if isinstance(clause, Parsed)]
            known = {**lets, **{clause.name: clause for clause in clauses if _is_let(clause.path)}}
            yield from _of_clauses(agent, reader, clauses, known)
            yield from _names(reader, (*path, *at))
            lets = lets if at else known
        if agent.correlate is None:
            yield from _elsewhere(agent, path, lets)
        yield from _of_results(agent, path)
        if agent.handler is not None:
            yield from _of_sent(agent, path)
            yield from _of_calls(agent, path, lets)
        if agent.forwards:
            yield from _of_forwarded(agent, path, lets, _types(lets))
        yield from _routes(agent, path)


def _texts(agent: AgentModel, reader: AgentModel | LegModel, path: Path) -> dict[Path, str]:
    """The expressions of the records that the agent, or this leg of it, reads. `until` of a correlation is made from
    `complete`, which has findings of its own."""
    texts: dict[Path, str] = {(*path, "let", name): text for name, text in (reader.let or {}).items()}
    if reader.where:
        texts[*path, "where"] = reader.where
    if agent.correlate is None and agent.aggregate is not None and isinstance(agent.aggregate.until, str):
        texts[*path, "aggregate", "until"] = agent.aggregate.until
    if agent.correlate is None and agent.aggregate is not None:
        texts |= {(*path, *TIMEOUT, key): text for key, text in deadlines.texts(agent.aggregate.timeout)}
    return texts


def _of_clauses(
    agent: AgentModel, reader: AgentModel | LegModel, clauses: Sequence[Parsed], lets: LetClauses
) -> Iterator[FileFinding]:
    """The problems of clauses. `lets` are the computed fields that the clauses may name; clauses under `let` are among
    them."""
    types = _types({name: clause for name, clause in lets.items() if clause not in clauses})
    for clause in clauses:
        yield from _of_record(reader, clause, lets)
        path = clause.path[:-2] if _is_let(clause.path) or _is_until(clause.path) else clause.path[:-1]
        if _is_until(clause.path) and agent.aggregate is not None:
            yield from _of_group(agent, agent.aggregate, clause, lets)
            needs: tuple[Path, ...] = (clause.path, (*path, "let"), (*path, "aggregate"))
            yield from _type_findings(
                clause, types | {GROUP: group_type(agent.aggregate, agent.aggregate.compute)}, None, needs
            )
            continue
        yield from _type_findings(clause, types, None, (clause.path, (*path, "let"), (*path[:2], "let")))
        if _is_deadline(clause.path) and agent.aggregate is not None:
            yield from _of_deadline(agent, clause, lets, check(clause.node, types)[0])
        if _is_let(clause.path):
            types[clause.name] = check(clause.node, types)[0]


def _types(lets: LetClauses) -> dict[str, ValueType]:
    """The types of the names that an expression of a record can use: these computed fields, and `message`."""
    types: dict[str, ValueType] = {MESSAGE: message_type(UNKNOWN)}
    for name, clause in lets.items():
        types[name] = check(clause.node, types)[0]
    return types


def _is_let(path: Path) -> bool:
    """Whether the path is a computed field, of an agent or of a leg of a correlation."""
    return len(path) in (4, 7) and path[-2] == "let"


def _is_deadline(path: Path) -> bool:
    return path[2:4] == TIMEOUT


def _is_until(path: Path) -> bool:
    return path[2:] == ("aggregate", "until")


def _parsed(path: Path, text: str) -> Parsed | FileFinding:
    if isinstance(text, Unknown):
        text = "true"
    try:
        gives = _is_let(path) or "select" in path[3:] or (_is_deadline(path) and path[-1] != "cancel")
        return Parsed(path, str(path[-1]), parse(text), not gives)
    except ExpressionError as error:
        what, _, hint = error.problem.partition("; ")
        if error.column > len(text):
            hint = "finish it; where YAML ended it at a comma, a bracket or a #, quote the expression"
        return FileFinding(path, what, hint or "correct the expression", (path,), error.column)


def _of_record(reader: AgentModel | LegModel, clause: Parsed, lets: LetClauses) -> Iterator[FileFinding]:
    """Names that an expression of a record must not use. `lets` are all computed fields, including those that the leg
    has from its agent."""
    path, names = clause.path, clause.names
    for part in sorted(clause.parts - {*PARTS}):
        yield FileFinding(path, f"message has no {part}", did_you_mean(part, PARTS), (path,))
    if GROUP in names and not _is_until(path):
        hint = "ask for a field of the record, or of message"
        yield FileFinding(path, "names group, which only `until` can ask", hint, (path,))
    own = reader.let or {}
    order = [*(name for name in lets if name not in own), *own]
    later = order[order.index(clause.name) :] if _is_let(clause.path) else []
    for name in sorted(names & {*later}):
        what = "names itself" if name == clause.name else f"names {name}, which is computed after it"
        yield FileFinding(path, what, "name only fields of the record and fields that are computed before it", (path,))
    fields = sorted(names - {MESSAGE, GROUP, *order})
    if fields and reader.format == "raw":
        needs = (path, (*path[:2], "format"))
        yield FileFinding(path, f"needs the field {fields[0]}, but raw records have none", OF_MESSAGE, needs)


def _of_group(agent: AgentModel, rule: Aggregate, clause: Parsed, lets: LetClauses) -> Iterator[FileFinding]:
    """Names that an `until` expression must not use."""
    path, aggregate = clause.path, (*clause.path[:2], "aggregate")
    if (GROUP,) in paths(clause.node):
        hint = "write group.count, or group.NAME with a name of compute"
        yield FileFinding(path, "names group as a whole", hint, (path,))
    if agent.scope == "shared" and of_group(clause.node):
        what = "asks for group, and needs scope partition for it: no worker reads a shared group before it ends"
        yield FileFinding(path, what, "ask for fields of the record", (path, (*path[:2], "scope")))
    for name in of_group(clause.node):
        if name in rule.compute and rule.compute[name].kind not in ASKED:
            what = f"asks for group.{name}, which is computed by {rule.compute[name].kind}"
            yield FileFinding(path, what, f"ask for a value of {', '.join(ASKED)}", (path, aggregate))
    yield from _of_first_record(agent, clause, lets)


def _of_first_record(agent: AgentModel, clause: Parsed, lets: LetClauses) -> Iterator[FileFinding]:
    """Parts of the original message that a clause of a group cannot use, because `repartition` wrote the record
    anew."""
    path = clause.path
    if agent.repartition is not None:
        before = _with_those_before(lets)
        parts = clause.parts.union(*(before[name] for name in clause.names if name in before))
        for part in sorted(parts & OF_THE_FIRST_RECORD):
            what = f"asks for message.{part}, but is asked of the record that repartition wrote anew"
            hint = "ask for fields or headers, or leave out repartition"
            yield FileFinding(path, what, hint, (path, (*path[:2], "repartition"), (*path[:2], "let")))


def _of_deadline(agent: AgentModel, clause: Parsed, lets: LetClauses, type_: ValueType) -> Iterator[FileFinding]:
    """Names and types that an expression under `timeout` must not have."""
    yield from _of_first_record(agent, clause, lets)
    timeout = agent.aggregate.timeout if agent.aggregate is not None else None
    if timeout is None or clause.condition or (wrong := deadlines.wrong_type(clause.name, timeout.unit, type_)) is None:
        return
    needs = (clause.path, (*clause.path[:-1], "unit"), (*clause.path[:2], "let"))
    yield FileFinding(clause.path, *wrong, needs)


def _type_findings(
    clause: Parsed, names: Mapping[str, ValueType], source: str | None, needs: tuple[Path, ...]
) -> Iterator[FileFinding]:
    """Names, functions and types that are certainly wrong."""
    judge = check_condition(clause.node, names, source) if clause.condition else check(clause.node, names, source)[1]
    for finding in judge:
        if not finding.is_warning:
            what, _, hint = printable(finding.problem).partition("; ")
            yield FileFinding(clause.path, what, hint or "correct the expression", needs, finding.column)


def _names(reader: AgentModel | LegModel, path: Path) -> Iterator[FileFinding]:
    """Names of computed fields that an expression cannot write."""
    for name in reader.let or ():
        at = (*path, "let", name)
        if name in (MESSAGE, GROUP):
            yield FileFinding(at, "is a reserved name of expressions", "give the field another name", (at,))
            continue
        if not is_name(name):
            hint = "use letters, digits and _, beginning with a letter, and no word of the language"
            yield FileFinding(at, "is not a name that an expression can write", hint, (at,))


def _elsewhere(agent: AgentModel, path: Path, lets: LetClauses) -> Iterator[FileFinding]:
    """Computed fields that use parts of the original message in a place where it is no longer available."""
    grouped = (
        _used(agent.aggregate.compute[name].field for name in agent.aggregate.compute) if agent.aggregate else set()
    )
    kept = _used([agent.dedupe.id.field if agent.dedupe else None])
    ends = agent.aggregate.until if agent.aggregate else None
    until = _used([ends.field if isinstance(ends, UntilModel) else None])
    for name, parts in _with_those_before(lets).items():
        at = (*path, "let", name)
        if agent.repartition is not None and name in grouped | kept | until:
            for part in sorted(parts & OF_THE_FIRST_RECORD):
                what = f"asks for message.{part}, but is computed of the record that repartition wrote anew"
                hint = "compute it from fields or headers, or leave out repartition"
                yield FileFinding(at, what, hint, (at, (*path, "repartition"), (*path, "aggregate"), (*path, "dedupe")))
        if agent.scope == "shared" and name in grouped and "offset" in parts:
            what = "asks for message.offset, but is computed when the batch of the shared buffer fires"
            yield FileFinding(at, what, "leave one of the two out", (at, (*path, "scope"), (*path, "aggregate")))
        if agent.handler is not None and name in grouped and parts:
            what = "asks for message, but a group keeps no messages for a handler that names bad items"
            yield FileFinding(at, what, "compute it from fields, or leave out the handler", (at, (*path, "handler")))


def _of_results(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The problems of expressions over a group's result."""
    at, aggregate = (*path, "having"), (*path, "aggregate")
    if agent.having and agent.aggregate is None:
        hint = "write where: it asks each record"
        yield FileFinding(at, "asks the result of a group, but there is no aggregate", hint, (at, aggregate))
    if agent.aggregate is None:
        return
    texts = dict(_of_outputs(agent, path)) if agent.handler is None else {}
    rule, rows = agent.aggregate, row_types(built(agent.lookup))
    names = result_type(rule, rule.compute, emits=agent.emit is not None) | rows
    if agent.having:
        texts[at] = agent.having
    for place, text in texts.items():
        clause = _parsed(place, text)
        if isinstance(clause, FileFinding):
            yield clause
            continue
        yield from _type_findings(clause, names, "the result", (place, aggregate, (*path, "lookup")))


def _of_sent(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """The problems of expressions under `to` of an agent with a handler. They see the fields of its messages, which are
    unknown."""
    for place, text in _of_outputs(agent, path):
        parsed = _parsed(place, text)
        if isinstance(parsed, FileFinding):
            yield parsed
            continue
        needs = (place, (*path, "handler"))
        for name in sorted(parsed.names & {MESSAGE, GROUP}):
            hint = "ask for fields of that value; the handler can add what it needs"
            yield FileFinding(place, f"names {name}, but sees only the value that the handler sends", hint, needs)
        yield from _type_findings(parsed, {}, None, needs)


def _of_calls(agent: AgentModel, path: Path, lets: LetClauses) -> Iterator[FileFinding]:
    """The problems of expressions of flow control. They see the message of the handler, or the result of the group."""
    rule = agent.aggregate
    for place, text in flow.texts(agent, path):
        parsed = _parsed(place, text)
        if isinstance(parsed, FileFinding):
            yield parsed
            continue
        clause = parsed._replace(condition=False)
        if rule is None:
            yield from _of_record(agent, clause, lets)
            yield from _type_findings(clause, _types(lets), None, (place, (*path, "let")))
        else:
            names = result_type(rule, rule.compute, emits=agent.emit is not None)
            yield from _type_findings(clause, names, "the result", (place, (*path, "aggregate")))


def _of_forwarded(
    agent: AgentModel, path: Path, lets: LetClauses, types: Mapping[str, ValueType]
) -> Iterator[FileFinding]:
    """The problems of expressions under `to` of an agent that forwards. They see the record, and `select` copies its
    fields."""
    rows = row_types(built(agent.lookup))
    for place, text in _of_outputs(agent, path):
        clause = _parsed(place, text)
        if isinstance(clause, FileFinding):
            yield clause
            continue
        yield from _of_record(agent, clause, lets)
        yield from _type_findings(clause, {**types, **rows}, None, (place, (*path, "let"), (*path, "lookup")))
    for at, to in agent.outputs.items():
        place = (*path, *at, "select")
        for name in [name for name, expression in (to.select or {}).items() if expression is None]:
            if is_name(name) and name not in (MESSAGE, "group"):
                yield from _of_record(agent, Parsed(place, name, parse(name), False), lets)
            else:
                hint = "write {NAME: EXPRESSION}, such as {order: 'message.value[\"order-id\"]'}"
                yield FileFinding(
                    place, f"names {printable(name)}, which no expression can name as a field", hint, (place,)
                )


def _of_outputs(agent: AgentModel, path: Path) -> Iterator[tuple[Path, str]]:
    """`where` and `select` of each destination. A name without an expression stands for the field of that name."""
    for at, to in agent.outputs.items():
        if to.where is not None:
            yield (*path, *at, "where"), to.where
        for name, expression in (to.select or {}).items():
            if expression is not None:
                yield (*path, *at, "select", name), expression


def _routes(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """Invalid keys of destinations, and routes that nothing reaches."""
    for at, to in agent.outputs.items():
        place = (*path, *at)
        if agent.aggregate is not None and agent.handler is None and to.select is not None:
            fixed = fixed_fields(agent.aggregate.window is not None, agent.emit is not None)
            fields = [*fixed, *agent.aggregate.compute, *(agent.lookup or ())]
            for name in [name for name, expression in to.select.items() if expression is None and name not in fields]:
                what = f"names {name}, which is not a field of the result"
                yield FileFinding((*place, "select"), what, did_you_mean(name, fields), ((*place, "select"),))
        if at == ("to",) and (to.where is not None or to.continue_):
            key = "where" if to.where is not None else "continue"
            every = "where: of the agent for every record" if agent.forwards else "having: for every result"
            every = f", or {every}" if agent.handler is None else ""
            hint = f"write a list of routes under to{every}"
            yield FileFinding((*place, key), "belongs to one of several routes", hint, ((*place, key),))
    if agent.routes:
        yield from _never_reached(agent, (*path, "to"))


def _never_reached(agent: AgentModel, to: Path) -> Iterator[FileFinding]:
    """Routes that get nothing, or the same as another route."""
    conditions = [_condition(route.where) for route in agent.routes]
    noun = "record" if agent.forwards else "result" if agent.handler is None else "value"
    for number, route in enumerate(agent.routes):
        for before, other in enumerate(agent.routes[:number]):
            same = route is not DROP and conditions[number] == conditions[before]
            if not other.continue_ and conditions[before] == EVERYTHING:
                hint = "give the route before it a `where`, or `continue: true`"
                yield FileFinding((*to, number), f"is never reached: {other.topic} takes every record", hint, (to,))
                return
            if same and not other.continue_:
                what = f"is never reached: route {before + 1}, {other.topic}, has the same `where`"
                yield FileFinding((*to, number), what, "give it another `where`, or leave it out", (to,))
            elif same and (route.topic, route.select) == (other.topic, other.select):
                what = f"is the same as route {before + 1}: every {noun} would be written twice"
                yield FileFinding((*to, number), what, "leave one of them out", (to,))


def _condition(where: str | None) -> str:
    """The canonical text of a condition. Text that is not an expression stays as it is."""
    try:
        return EVERYTHING if where is None else normal(parse(where))
    except ExpressionError:
        return str(where)


def _used(fields: "Iterator[str | None] | list[str | None]") -> set[str]:
    return {field.partition(".")[0] for field in fields if field}


def _with_those_before(lets: LetClauses) -> dict[str, set[str]]:
    """The parts of `message` that each computed field uses, directly or through fields that it names."""
    parts: dict[str, set[str]] = {}
    for name, clause in lets.items():
        parts[name] = clause.parts.union(*(parts[reference] for reference in clause.names if reference in parts))
    return parts
