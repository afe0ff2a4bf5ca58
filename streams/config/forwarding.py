"""What an agent that forwards records cannot have: it has neither an aggregation nor a handler."""

from collections.abc import Iterator

from sluicegate.streams.config.models import AgentModel, DestinationModel
from sluicegate.streams.config.problems import FileFinding, Path
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.tree import Identifier

OF_FORMATS = ("format", "schema_", "framing", "schema_id")


def findings(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """Keys that would change the record, and names that `select` cannot copy."""
    if not agent.forwards or not agent.outputs:
        return
    needs = (path, (*path, "aggregate"), (*path, "handler"))
    if agent.key is not None and agent.repartition is None:
        what = "has no meaning without an aggregation: a record goes on under its own key"
        yield FileFinding((*path, "key"), what, "leave it out", (*needs, (*path, "key")))
    if agent.repartition is not None:
        what = "needs an aggregation or a handler: a record goes on under its own key"
        yield FileFinding((*path, "repartition"), what, "leave it out", (*needs, (*path, "repartition")))
    for at, to in agent.outputs.items():
        place = (*path, *at)
        yield from _selected(to, place) if to.select is not None else _unchanged(agent, to, place, needs)


def _unchanged(agent: AgentModel, to: DestinationModel, place: Path, needs: tuple[Path, ...]) -> Iterator[FileFinding]:
    """A value that goes on as it came has the format of the input."""
    for field in OF_FORMATS:
        if field not in to.model_fields_set or (field == "format" and to.format in (agent.format, "raw")):
            continue
        at = (*place, field.rstrip("_"))
        what = f"does not apply: the value goes on as it came, as {agent.format}"
        yield FileFinding(at, what, "leave it out, or write select: for a new value", (*needs, at, (*place, "select")))


def _selected(to: DestinationModel, place: Path) -> Iterator[FileFinding]:
    at = (*place, "select")
    for name in [name for name, expression in (to.select or {}).items() if expression is None]:
        try:
            plain = isinstance(parse(name), Identifier) and name not in ("message", "group")
        except ExpressionError:
            plain = False
        if not plain:
            hint = "write {NAME: EXPRESSION}, such as {order: 'message.value[\"order-id\"]'}"
            yield FileFinding(
                at, f"names {name}, which is no name of a field that an expression can write", hint, (at,)
            )
