"""`from` and `to` of an agent: topics, and destinations with their routes."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.envelopes import EnvelopeField, SourceEnvelope
from sluicegate.streams.config.sections.fields import (
    CLUSTER_NAME,
    CLUSTER_OF_TOPIC,
    LONGEST_EXPRESSION,
    LONGEST_PATTERN,
    TOPIC,
    ClauseField,
    ClusterField,
    Expression,
    FlagField,
    Format,
    PatternField,
    SchemaId,
    Text,
    TopicField,
    of_cluster,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.registry import RegisterField, Strategy
from sluicegate.streams.config.text.problems import printable
from sluicegate.streams.config.text.scalars import as_written
from sluicegate.streams.topic_names import name_of, on_cluster

_EXPRESSION_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}
SendersField = Annotated[Literal["sluicegate"], unless_unknown("sluicegate")]
Framing = Annotated[Literal["none", "confluent"], unless_unknown("none")]


class SourceModel(FilePart, frozen=True):
    """A `topic` or a `pattern`. `dedupe: sluicegate`: another Sluicegate writes this topic, and its repeats are
    dropped. `envelope: cloudevents`: its records are CloudEvents; `debezium`: change events of a table."""

    topic: TopicField | None = Field(default=None, description="The topic.", examples=["orders"])
    pattern: PatternField | None = Field(
        default=None,
        description="In place of `topic`: a regular expression (RE2). The agent reads each topic whose whole name "
        "matches, also those that are made while it runs.",
        examples=["orders\\..*"],
    )
    dedupe: SendersField | None = Field(
        default=None,
        description="`sluicegate`: another Sluicegate app writes the topic; its repeats are dropped.",
        examples=["sluicegate"],
    )
    envelope: SourceEnvelope | None = Field(
        default=None,
        description="`cloudevents`: the records are CloudEvents. `debezium`: they are changes of a table's rows.",
        examples=["cloudevents"],
    )

    cluster: ClusterField | None = CLUSTER_OF_TOPIC

    _of_cluster = model_validator(mode="before")(of_cluster)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.topic is None) == (self.pattern is None):
            what = "names no topic" if self.topic is None else "has both topic and pattern"
            raise refused(what, "write {topic: NAME} or {pattern: REGEX}")
        return self

    @property
    def name(self) -> str:
        """The name of the source as in sluicegate.streams.topic_names."""
        return self.topic if self.topic is not None else on_cluster(name_of(self.pattern or ""), self.cluster or "")


def _as_sources(value: object) -> object:
    if isinstance(value, str | int | dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise refused("names no topic", "write a topic, a list of topics, or {topic: NAME, dedupe: sluicegate}")
    return [item if isinstance(item, dict) else {"topic": item} for item in value]


_TOPIC_SCHEMA = {"type": "string", "pattern": TOPIC}
_SOURCE_KEYS: dict[str, dict[str, Any]] = {
    "topic": _TOPIC_SCHEMA,
    "pattern": {"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN},
    "dedupe": {"enum": ["sluicegate"]},
    "envelope": {"enum": ["cloudevents"]},
    "cluster": {"type": "string", "pattern": CLUSTER_NAME},
}
_SOURCE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": described(SourceModel, _SOURCE_KEYS),
    "oneOf": [{"required": ["topic"]}, {"required": ["pattern"]}],
}
_ONE_SOURCE = {"anyOf": [_TOPIC_SCHEMA, _SOURCE_SCHEMA]}
_SOURCES_SCHEMA = {"anyOf": [_TOPIC_SCHEMA, _SOURCE_SCHEMA, {"type": "array", "minItems": 1, "items": _ONE_SOURCE}]}
TOPICS_SCHEMA = {"anyOf": [_TOPIC_SCHEMA, {"type": "array", "minItems": 1, "items": _TOPIC_SCHEMA}]}
"""The short forms of `from` that name topics alone."""
Sources = Annotated[list[SourceModel], BeforeValidator(_as_sources), WithJsonSchema(_SOURCES_SCHEMA)]


def _as_selected(value: object) -> object:
    """Accepts `[names]`, the fields of these names; with an expression each, they are computed."""
    if isinstance(value, dict) and None in value.values():
        hint = "write {NAME: EXPRESSION}, or a list of names; if YAML ended one at a comma, quote the expression"
        raise refused("has a field without an expression", hint)
    if isinstance(value, list) and value:
        if twice := [name for name in value if isinstance(name, str) and value.count(name) > 1]:
            raise refused(f"names {printable(twice[0])} twice", "keep one of them")
        return dict.fromkeys(map(as_written, value)) if all(isinstance(as_written(v), str) for v in value) else value
    return value


_SELECT_SCHEMA = {
    "anyOf": [
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        {"type": "object", "minProperties": 1, "additionalProperties": _EXPRESSION_SCHEMA},
    ]
}
SelectField = Annotated[
    dict[str, Expression | None],
    Field(min_length=1),
    unless_unknown(dict),
    BeforeValidator(_as_selected),
    WithJsonSchema(_SELECT_SCHEMA),
]


class DestinationModel(FilePart, frozen=True):
    """`schema` and what follows belong to formats with schemas; `where` and `continue` to one of several. `subject` and
    `register` belong to `schema_registry`."""

    topic: TopicField = Field(description="The topic that outputs are written to.", examples=["baskets"])
    cluster: ClusterField | None = CLUSTER_OF_TOPIC
    where: ClauseField = Field(
        default=None,
        description="An expression. In a list of routes, this one takes the results for which it is true.",
        examples=["spent >= 1000"],
    )
    select: SelectField | None = Field(
        default=None,
        description="All that the value of the output holds: `[names]`, or `{name: expression}`.",
        examples=[{"region": "key", "mean": "double(spent) / count"}],
    )
    continue_: FlagField = Field(
        default=False,
        alias="continue",
        description="Whether the next routes are asked as well when this one takes a result.",
        examples=[True],
    )
    format: Format = Field(
        default="json",
        description="The format of the outputs. `module:name` is a codec of your own.",
        examples=["avro"],
    )
    schema_: Text | None = Field(
        default=None,
        alias="schema",
        description="The file of the schema that outputs are written with.",
        examples=["basket.avsc"],
    )
    framing: Framing | None = Field(
        default=None, description="`confluent`: a schema id stands before each output.", examples=["confluent"]
    )
    schema_id: SchemaId | None = Field(
        default=None, description="The id that stands before each output, with `framing: confluent`.", examples=[8]
    )
    subject: Strategy | None = Field(
        default=None, description="How the subject of the schema registry is named.", examples=["topic"]
    )
    register_: RegisterField | None = Field(
        default=None,
        alias="register",
        description="Whether `run` registers the schema at the schema registry. Otherwise it must be there already.",
        examples=[True],
    )
    message: Text | None = Field(
        default=None, description="The message of a Protobuf schema that outputs hold.", examples=["shop.Basket"]
    )
    validate_: RegisterField | None = Field(
        default=None,
        alias="validate",
        description="Whether each value is checked against its JSON Schema.",
        examples=[True],
    )
    envelope: EnvelopeField | None = Field(
        default=None,
        description="Outputs are CloudEvents with these attributes.",
        examples=[{"cloudevents": "binary", "type": "com.example.basket"}],
    )

    _of_cluster = model_validator(mode="before")(of_cluster)


_WRITE_ROUTES = "write {topic: NAME}, or a list of {topic: NAME, where: EXPRESSION}"
DROP = DestinationModel.model_construct(topic="drop")
"""The last entry of a list under `to`: what no route takes is left out."""


def _as_one(value: object) -> object:
    if value == "drop":
        raise refused("is drop alone: nothing would be written", f"{_WRITE_ROUTES}, whose last entry may be drop")
    return None if isinstance(value, list) else _as_destination(value)


def _as_destination(value: object) -> object:
    """The short form of a destination is the name of its topic."""
    return value if isinstance(value, dict | None) else {"topic": value}


def _as_routes(value: object) -> object:
    if not isinstance(value, list):
        return []
    if not value or value == ["drop"]:
        raise refused("names no route", _WRITE_ROUTES)
    if "drop" in value[:-1]:
        raise refused("has drop before another route", "write drop as the last entry")
    return [DROP if route == "drop" else _as_destination(route) for route in value]


OneDestination = Annotated[
    DestinationModel | None,
    BeforeValidator(_as_one),
    unless_unknown(lambda: DestinationModel.model_construct(topic="unknown")),
]
Routes = Annotated[list[DestinationModel], BeforeValidator(_as_routes), WithJsonSchema({})]
