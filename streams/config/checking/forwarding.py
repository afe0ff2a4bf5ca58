"""Checks an agent that forwards records, because it has neither an aggregation nor a handler: which outputs are
converted, and which keys have no effect."""

from collections.abc import Iterator

from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_topics import DestinationModel
from sluicegate.streams.config.text.problems import FileFinding, Path

OF_FORMATS = ("format", "schema_", "framing", "schema_id", "message", "validate_")


def converts(agent: AgentModel, to: DestinationModel) -> bool:
    """Whether the whole value of a forwarded record is converted: to another format, with a schema or a frame of the
    output, to an event, or with looked-up rows that its own format cannot hold."""
    if not agent.forwards or to.select is not None:
        return False
    written = {*OF_FORMATS} & to.model_fields_set
    if to.format in (agent.format, "raw"):
        written -= {"format"}
    return bool(written or to.envelope or (agent.lookup and agent.format not in ("json", "raw")))


def findings(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    """Keys that have no effect on a forwarded record."""
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
        if agent.format == "raw" and converts(agent, to):
            key = "envelope" if to.envelope is not None else "format"
            what = "does not apply: a raw value has no document, so it goes on as it came"
            hint = "leave it out, write select: for a new value, or write the format of the records"
            yield FileFinding((*place, key), what, hint, (*needs, (*place, key), (*path, "format")))
