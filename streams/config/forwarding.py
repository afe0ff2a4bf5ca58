"""What an agent that forwards records cannot have: it has neither an aggregation nor a handler."""

from collections.abc import Iterator

from sluicegate.streams.config.models_agent import AgentModel
from sluicegate.streams.config.models_topics import DestinationModel
from sluicegate.streams.config.problems import FileFinding, Path

OF_FORMATS = ("format", "schema_", "framing", "schema_id", "message", "validate_")


def findings(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """Keys that would change the record."""
    if not agent.forwards or not agent.outputs:
        return
    needs = (path, (*path, "aggregate"), (*path, "handler"))
    if agent.repartition is not None:
        what = "is not needed: a record that is forwarded goes to its output under the key that key: names"
        yield FileFinding(
            (*path, "repartition"), what, "leave it out, or write key alone", (*needs, (*path, "repartition"))
        )
    for at, to in agent.outputs.items():
        place = (*path, *at)
        if to.select is None:
            yield from _unchanged(agent, to, place, needs)


def _unchanged(agent: AgentModel, to: DestinationModel, place: Path, needs: tuple[Path, ...]) -> Iterator[FileFinding]:
    """A value that goes on as it came has the format of the input."""
    for field in OF_FORMATS:
        if field not in to.model_fields_set or (field == "format" and to.format in (agent.format, "raw")):
            continue
        at = (*place, field.rstrip("_"))
        what = f"does not apply: the value goes on as it came, as {agent.format}"
        yield FileFinding(at, what, "leave it out, or write select: for a new value", (*needs, at, (*place, "select")))
