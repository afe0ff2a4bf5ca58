"""`envelope` of `from` and of `to`: messages that are CloudEvents, and records that are change events of Debezium."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from sluicegate.streams import agent as run
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Text, unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel

SourceEnvelope = Annotated[Literal["cloudevents", "debezium"], unless_unknown("cloudevents")]
Mode = Annotated[Literal["binary", "structured"], unless_unknown("binary")]


class EnvelopeModel(FilePart, frozen=True):
    """`cloudevents` is the mode; `type` and `source` are attributes of each event."""

    cloudevents: Mode = Field(
        description="The mode: `binary` has the attributes in headers, `structured` in the value.", examples=["binary"]
    )
    type: Text = Field(description="The attribute `type` of each event.", examples=["com.example.basket"])
    source: Text | None = Field(
        default=None, description="The attribute `source` of each event. Without it, `/APP/AGENT`.", examples=["/shop"]
    )


def _unknown() -> EnvelopeModel:
    return EnvelopeModel.model_construct(cloudevents="binary", type="unknown")


EnvelopeField = Annotated[EnvelopeModel, unless_unknown(_unknown)]


def findings(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Problems: attributes of events that are missing or without effect."""
    for place, reader in agent.readers.items():
        at, form = (*path, *place, "from"), (*path, *place, "format")
        events = {source.envelope or "" for source in reader.from_}
        if reader.format == "raw" and events != {""} and agent.repartition is None:  # which needs a field
            what = "has an envelope, so its records have fields, but raw records have none"
            yield FileFinding(at, what, "use format: json, where data that is not JSON is in data_base64", (at, form))
        elif reader.format != "json" and len(events) > 1:
            what = f"has topics with an envelope and others without, and format: {reader.format} reads one kind only"
            yield FileFinding(at, what, "let an agent of its own read the others", (at, form))
    for place, to in agent.outputs.items():
        if to.envelope is not None:
            yield from _of_output(to.envelope, (*path, *place))


def _of_output(envelope: EnvelopeModel, path: Path) -> Iterator[FileFinding]:
    at = (*path, "envelope")
    for name in ("type", "source"):
        text = getattr(envelope, name)
        if text is not None and not isinstance(text, Unknown) and (not text or not text.isprintable() or " " in text):
            what, key = "is not an attribute of an event", (*at, name)
            yield FileFinding(key, what, "write text without spaces, such as com.example.order or /shop", (key,))


def built(envelope: EnvelopeModel | None) -> run.EventEnvelope | None:
    return None if envelope is None else run.EventEnvelope(envelope.cloudevents, envelope.type, envelope.source or "")


def written(envelope: run.EventEnvelope | None) -> dict[str, str] | None:
    """The value as the file writes it."""
    if envelope is None:
        return None
    source = {"source": envelope.source} if envelope.source else {}
    return {"cloudevents": envelope.mode, "type": envelope.type, **source}
