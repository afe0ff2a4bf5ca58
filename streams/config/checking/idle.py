"""Keys that have no effect beside the other keys of their agent. They are problems, because their author expects an
effect."""

from collections.abc import Iterator

from sluicegate.streams.aggregation.clauses import MESSAGE
from sluicegate.streams.config.checking.forwarding import converts
from sluicegate.streams.config.sections import deadlines
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import UntilModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import paths

READ_WITH = ("validate_", "schema_id", "lookup", "let")
"""Keys with which a forwarder decodes values, or may decode them."""


def findings(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    decode, expression = (*path, "on_error", "decode"), (*path, "on_error", "expression")
    decides = agent.on_error.decode != "dead-letter"
    if decides and agent.format == "raw":
        what = "has no meaning with format: raw: every value is one"
        yield FileFinding(decode, what, "leave it out", (path, (*path, "format"), decode))
    elif decides and agent.forwards and not _decodes(agent):
        what = "has no meaning: no clause reads the value, so a record goes on without being decoded"
        yield FileFinding(decode, what, "leave it out, or write validate: true with a JSON Schema", (path, decode))
    if agent.on_error.expression != "dead-letter" and not _has_expressions(agent):
        yield FileFinding(expression, "has no meaning: the agent has no expression", "leave it out", (path, expression))
    if agent.on_change and agent.aggregate is None:
        what, at = "has no meaning without an aggregation: no group is open", (*path, "on_change")
        yield FileFinding(at, what, "leave it out", (path, at, (*path, "aggregate")))
    rule = agent.aggregate
    if rule is not None and agent.correlate is None and rule.on_missing != "dead-letter" and not _needs_fields(agent):
        what, at = "has no meaning: the group needs no field", (*path, "aggregate", "on_missing")
        yield FileFinding(at, what, "leave it out, or name a field in key or compute", (path, at))


def _has_expressions(agent: AgentModel) -> bool:
    """Whether any expression can apply to a record. `until` of a correlation is made from `complete`."""
    until = agent.correlate is None and agent.aggregate is not None and isinstance(agent.aggregate.until, str)
    timed = agent.aggregate is not None and any(deadlines.texts(agent.aggregate.timeout))
    read = any(reader.where or reader.let for reader in agent.readers.values())
    complete = agent.correlate is not None and agent.correlate.complete is not None
    written = any(to.where is not None or to.select for to in agent.outputs.values())
    return bool(until or timed or read or complete or agent.having or agent.lookup or written)


def _needs_fields(agent: AgentModel) -> bool:
    """Whether a group needs a field of its records, or the time of a window."""
    rule = agent.aggregate
    if rule is None:
        return False
    by_value = isinstance(rule.until, UntilModel)
    computed = any(reducer.field is not None or reducer.function is not None for reducer in rule.compute.values())
    return agent.key is not None or rule.window is not None or by_value or computed


def _decodes(agent: AgentModel) -> bool:
    """Whether a forwarder decodes values, as far as its keys show."""
    if (
        agent.key is not None
        or any(getattr(agent, key) for key in READ_WITH)
        or any(source.envelope for source in agent.from_)
    ):
        return True
    by_field = agent.dedupe is not None and agent.dedupe.id.field is not None
    if by_field or any(to.select or converts(agent, to) for to in agent.outputs.values()):
        return True
    return any(_reads(text) for text in (agent.where, *(to.where for to in agent.outputs.values())) if text)


def _reads(text: str) -> bool:
    try:
        names = paths(parse(text))
    except ExpressionError:
        return True
    return any(path[0] != MESSAGE or len(path) == 1 or path[1] == "value" for path in names)
