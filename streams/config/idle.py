"""Keys that have no effect beside the other keys of their agent: a warning, because their author expects an effect."""

from collections.abc import Iterator

from sluicegate.streams.aggregation.clauses import MESSAGE
from sluicegate.streams.config.forwarding import converts
from sluicegate.streams.config.models_agent import AgentModel
from sluicegate.streams.config.problems import FileFinding, Path
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import paths

READ_WITH = ("validate_", "schema_id", "lookup", "let")
"""Keys that make a forwarder decode values, or that may."""


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


def _has_expressions(agent: AgentModel) -> bool:
    until = agent.aggregate is not None and isinstance(agent.aggregate.until, str)
    clauses = (agent.where, agent.let, agent.having, agent.lookup, agent.correlate)
    return until or any(clauses) or any(to.where is not None or to.select for to in agent.outputs.values())


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
        asked = paths(parse(text))
    except ExpressionError:
        return True
    return any(path[0] != MESSAGE or len(path) == 1 or path[1] == "value" for path in asked)
