"""The declarative file as pydantic models: its keys, their kinds and defaults. What is not built yet is absent."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator

from sluicegate.streams.config.cases import Tests
from sluicegate.streams.config.dead_letters import DeadLettersField
from sluicegate.streams.config.declared import DeclaredFields
from sluicegate.streams.config.dedupe import DedupeField
from sluicegate.streams.config.envelopes import EnvelopeField, SourceEnvelope
from sluicegate.streams.config.fields import (
    FIELD,
    FUNCTION,
    LONGEST_EXPRESSION,
    NAME,
    TOPIC,
    Concurrency,
    Count,
    Duration,
    Expression,
    FieldPath,
    FlagField,
    Format,
    Function,
    NameField,
    PortField,
    SchemaId,
    SizeField,
    SpanField,
    Start,
    StoreUrl,
    Text,
    TopicField,
    ValueField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.leased import OutboxModel, OutboxOrOff, TimeoutsModel, TimeoutsOrOff
from sluicegate.streams.config.lookups import LookupsField
from sluicegate.streams.config.problems import Path, did_you_mean, printable
from sluicegate.streams.config.registry import RegisterField, RegistryModel, Strategy
from sluicegate.streams.config.scalars import Unknown, as_written
from sluicegate.streams.config.windows import WindowField

_EXPRESSION_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}
_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)
RESERVED = ("key", "key_base64", "count", "reason", "opened_at", "closed_at")
OF_A_FIELD = ("sum", "min", "max", "mean", "first", "last", "distinct", "collect")
REDUCERS = ("count", *OF_A_FIELD, "reduce")


Since = Annotated[Literal["first", "last"], unless_unknown("first")]
OnTimeout = Annotated[Literal["fire", "discard", "dead-letter"], unless_unknown("fire")]
OnMissing = Annotated[Literal["dead-letter", "skip", "ignore"], unless_unknown("dead-letter")]
OnNull = Annotated[Literal["dead-letter", "skip"], unless_unknown("dead-letter")]
OnFull = Annotated[Literal["fire-oldest", "dead-letter", "stop"], unless_unknown("fire-oldest")]
SendersField = Annotated[Literal["sluicegate"], unless_unknown("sluicegate")]
Scope = Annotated[Literal["partition", "shared"], unless_unknown("partition")]
Then = Annotated[Literal["dead-letter", "stop", "park"], unless_unknown("dead-letter")]
OnDecode = Annotated[Literal["dead-letter", "skip", "stop", "wait"], unless_unknown("dead-letter")]
Delivery = Annotated[Literal["at-least-once", "transactional"], unless_unknown("at-least-once")]
OnChange = Annotated[Literal["finish", "convert", "flush", "drop", "refuse"], unless_unknown("refuse")]
OnExpression = Annotated[Literal["dead-letter", "skip", "stop"], unless_unknown("dead-letter")]
OnProduce = Annotated[Literal["dead", "stop"], unless_unknown("dead")]
Framing = Annotated[Literal["none", "confluent"], unless_unknown("none")]
AcceptLevel = Annotated[Literal["durable", "lossy", "volatile"], unless_unknown("durable")]


class TimeoutModel(BaseModel):
    """`{after, since}`, or `{first, last}` with either or both."""

    model_config = _CLOSED
    after: Duration | None = None
    since: Since | None = None
    first: Duration | None = None
    last: Duration | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        both = self.first is not None or self.last is not None
        if (self.after is None) != both or (both and self.since is not None):
            raise refused("is neither form of a timeout", "write {after: 30s, since: first}, or {first: 30s, last: 5s}")
        return self


class UntilModel(BaseModel):
    model_config = _CLOSED
    field: FieldPath
    equals: ValueField


_UNTIL_FORM = "{field, equals}"
UntilField = Annotated[
    Annotated[UntilModel, Tag(_UNTIL_FORM)] | Annotated[Expression, Tag("expression")],
    Discriminator(lambda value: _UNTIL_FORM if isinstance(value, dict | UntilModel) else "expression"),
    unless_unknown(lambda: UntilModel.model_construct(field="unknown", equals=None)),
    WithJsonSchema({"anyOf": [_EXPRESSION_SCHEMA, UntilModel.model_json_schema()]}),
]


class ReducerModel(BaseModel):
    """One computed field: `kind` is one of REDUCERS."""

    model_config = _CLOSED
    kind: str
    field: FieldPath | None = None
    function: Function | None = None


def _as_reducer(value: object) -> object:
    if isinstance(value, Unknown) or value in ("count", "collect"):
        return {"kind": "count" if isinstance(value, Unknown) else value}
    if isinstance(value, dict) and len(value) == 1:
        [(kind, argument)] = value.items()
        if kind in OF_A_FIELD:
            return {"kind": kind, "field": argument if argument is not None else ""}
        if kind == "count":
            raise refused("takes no field", "write count")
        if kind == "reduce":
            return {"kind": kind, "function": argument if argument is not None else ""}
        raise refused("is no reducer", did_you_mean(str(kind), REDUCERS))
    if isinstance(value, str):
        hint = f"write {{{value}: FIELD}}" if value in OF_A_FIELD else did_you_mean(value, REDUCERS)
        raise refused("is no reducer", hint)
    raise refused("is no reducer", "write count, collect, or {sum: FIELD} and the like")


_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}
_REDUCER_SCHEMA = {
    "anyOf": [
        {"enum": ["count", "collect"]},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {
                **dict.fromkeys(OF_A_FIELD, _FIELD_SCHEMA),
                "reduce": {"type": "string", "pattern": FUNCTION},
            },
        },
    ]
}
ReducerSpec = Annotated[ReducerModel, BeforeValidator(_as_reducer), WithJsonSchema(_REDUCER_SCHEMA)]


class Aggregate(BaseModel):
    model_config = _CLOSED
    count: Count | None = None
    timeout: Annotated[TimeoutModel, unless_unknown(lambda: TimeoutModel.model_construct(after=1.0))] | None = None
    until: UntilField | None = None
    compute: Annotated[dict[str, ReducerSpec], unless_unknown(dict)] = Field(default_factory=dict)
    on_timeout: OnTimeout = "fire"
    on_missing: OnMissing = "dead-letter"
    on_null: OnNull = "dead-letter"
    on_full: OnFull = "fire-oldest"
    max_items: Count | None = None
    max_bytes: SizeField = 900_000
    max_groups: Count = 1_000_000
    max_buffered_bytes: SizeField = 512 * 1024 * 1024
    window: WindowField | None = None


class SourceModel(BaseModel):
    """`dedupe: sluicegate`: another Sluicegate writes this topic, its repeats are dropped. `envelope: cloudevents`: its
    records are CloudEvents."""

    model_config = _CLOSED
    topic: TopicField
    dedupe: SendersField | None = None
    envelope: SourceEnvelope | None = None


def _as_sources(value: object) -> object:
    if isinstance(value, str | int | dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise refused("names no topic", "write a topic, a list of topics, or {topic: NAME, dedupe: sluicegate}")
    return [item if isinstance(item, dict) else {"topic": item} for item in value]


_TOPIC_SCHEMA = {"type": "string", "pattern": TOPIC}
_SOURCE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"topic": _TOPIC_SCHEMA, "dedupe": {"enum": ["sluicegate"]}, "envelope": {"enum": ["cloudevents"]}},
    "required": ["topic"],
}
_ONE_SOURCE = {"anyOf": [_TOPIC_SCHEMA, _SOURCE_SCHEMA]}
_SOURCES_SCHEMA = {"anyOf": [_TOPIC_SCHEMA, _SOURCE_SCHEMA, {"type": "array", "minItems": 1, "items": _ONE_SOURCE}]}
Sources = Annotated[list[SourceModel], BeforeValidator(_as_sources), WithJsonSchema(_SOURCES_SCHEMA)]


class KeyModel(BaseModel):
    model_config = _CLOSED
    field: FieldPath


def _as_key(value: object) -> object:
    if value == "message" or isinstance(value, Unknown):
        return None
    return value if isinstance(value, dict) or value is None else {"field": value}


_KEY_SCHEMA = {
    "anyOf": [
        _FIELD_SCHEMA,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"field": _FIELD_SCHEMA},
            "required": ["field"],
        },
    ]
}


def _written(value: object) -> object:
    if value is None:
        raise refused("is empty", "write an expression, such as amount > 100, or leave it out")
    return value


ClauseField = Annotated[Expression | None, BeforeValidator(_written)]


def _as_selected(value: object) -> object:
    """`[names]` are the fields of these names; with an expression each: computed."""
    if isinstance(value, dict) and None in value.values():
        hint = "write {NAME: EXPRESSION}, or a list of names; if YAML ended one at a comma, quote the expression"
        raise refused("has a field without an expression", hint)
    if isinstance(value, list) and value:
        if twice := [each for each in value if isinstance(each, str) and value.count(each) > 1]:
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


class DestinationModel(BaseModel):
    """`schema` and what follows belong to formats with schemas; `where` and `continue` to one of several. `subject` and
    `register` belong to `schema_registry`."""

    model_config = _CLOSED
    topic: TopicField
    where: ClauseField = None
    select: SelectField | None = None
    continue_: FlagField = Field(default=False, alias="continue")
    format: Format = "json"
    schema_: Text | None = Field(default=None, alias="schema")
    framing: Framing | None = None
    schema_id: SchemaId | None = None
    subject: Strategy | None = None
    register_: RegisterField | None = Field(default=None, alias="register")
    message: Text | None = None
    validate_: RegisterField | None = Field(default=None, alias="validate")
    envelope: EnvelopeField | None = None


DROP = DestinationModel.model_construct(topic="drop")
"""The last entry of a list under `to`: what no route takes is left out."""


def _as_one(value: object) -> object:
    return None if isinstance(value, list) else value


def _as_routes(value: object) -> object:
    if not isinstance(value, list):
        return []
    if not value or value == ["drop"]:
        raise refused("names no route", "write {topic: NAME}, or a list of {topic: NAME, where: EXPRESSION}")
    if "drop" in value[:-1]:
        raise refused("has drop before another route", "write drop as the last entry")
    return [DROP if each == "drop" else each for each in value]


class Retry(BaseModel):
    """`attempts` counts the first one; `backoff` is the shortest and the longest pause; `isolate_after` so many
    failures the messages of a group are tried alone."""

    model_config = _CLOSED
    attempts: Count = 5
    backoff: SpanField = (1.0, 60.0)
    isolate_after: Count | None = None


class OnErrorModel(BaseModel):
    """What happens on an error, by stage. For handlers, the handler's `then` says it."""

    model_config = _CLOSED
    decode: OnDecode = "dead-letter"
    produce: OnProduce = "dead"
    expression: OnExpression = "dead-letter"


def _as_functions(value: object) -> object:
    if value == []:
        raise refused("names no function", "write package.module:function, or a list of them")
    return value if isinstance(value, list) else [value]


_FUNCTION_SCHEMA = {"type": "string", "pattern": FUNCTION}
_FUNCTIONS_SCHEMA = {"anyOf": [_FUNCTION_SCHEMA, {"type": "array", "minItems": 1, "items": _FUNCTION_SCHEMA}]}
FunctionsField = Annotated[list[Function], BeforeValidator(_as_functions), WithJsonSchema(_FUNCTIONS_SCHEMA)]


class AgentModel(BaseModel):
    """An aggregation, a handler, or both: the handler then gets the completed groups. With neither, the agent forwards
    each record."""

    model_config = _CLOSED
    from_: Sources = Field(alias="from")
    format: Format = "json"
    schema_: Text | None = Field(default=None, alias="schema")
    writer_schema: Text | None = None
    writer_schemas: Text | None = None
    framing: Framing | None = None
    schema_id: SchemaId | None = None
    message: Text | None = None
    validate_: RegisterField | None = Field(default=None, alias="validate")
    fields: DeclaredFields | None = None
    where: ClauseField = None
    let: Annotated[dict[str, Expression], unless_unknown(dict)] | None = None
    key: Annotated[KeyModel | None, BeforeValidator(_as_key), WithJsonSchema(_KEY_SCHEMA)] = None
    scope: Scope = "partition"
    repartition: TopicField | None = None
    having: ClauseField = None
    aggregate: Annotated[Aggregate | None, unless_unknown(Aggregate)] = None
    handler: FunctionsField | None = None
    session: FlagField = False
    concurrency: Concurrency = 0
    retry: Annotated[Retry, unless_unknown(Retry)] = Field(default_factory=Retry)
    then: Then = "dead-letter"
    to: Annotated[
        DestinationModel | None,
        BeforeValidator(_as_one),
        unless_unknown(lambda: DestinationModel.model_construct(topic="unknown")),
    ] = None
    routes: Annotated[list[DestinationModel], BeforeValidator(_as_routes), WithJsonSchema({})] = Field(
        default_factory=list, alias="to"
    )
    dead_letters: DeadLettersField = None
    start: Start = "earliest"
    max_record_bytes: SizeField = 1024 * 1024
    dedupe: DedupeField | None = None
    on_error: Annotated[OnErrorModel, unless_unknown(OnErrorModel)] = Field(default_factory=OnErrorModel)
    delivery: Delivery = "at-least-once"
    revision: Text | None = None
    on_change: OnChange | None = None
    history: TopicField | None = None
    lookup: LookupsField | None = None

    @property
    def forwards(self) -> bool:
        return self.aggregate is None and self.handler is None

    @property
    def outputs(self) -> dict[Path, DestinationModel]:
        """Each destination by its place below the agent."""
        one: dict[Path, DestinationModel] = {} if self.to is None else {("to",): self.to}
        return one | {("to", number): route for number, route in enumerate(self.routes) if route is not DROP}


class HttpModel(BaseModel):
    model_config = _CLOSED
    port: PortField = 9464
    host: Text = "127.0.0.1"
    token: Text | None = Field(default=None, repr=False)
    console: FlagField = False


def _as_http(value: object) -> object:
    return None if value is False or isinstance(value, Unknown) else value


_HTTP_SCHEMA = {"anyOf": [{"enum": [False]}, HttpModel.model_json_schema()]}


def _agents(value: object) -> object:
    if isinstance(value, dict) and not value:
        raise refused("there is no agent", "write at least one agent under `agents`")
    return value


class FileModel(BaseModel):
    """`kafka` is checked apart, setting by setting (sluicegate.streams.config.kafka)."""

    model_config = _CLOSED
    app: NameField
    kafka: Annotated[dict[str, Any], unless_unknown(dict)] = Field(repr=False)
    store: StoreUrl = Field(repr=False)
    dead_letters: DeadLettersField = None
    accept_level: AcceptLevel = "durable"
    auto_migrate: FlagField | None = None
    allow_plaintext: FlagField = False
    start_timeout: Duration = 30.0
    http: Annotated[HttpModel | None, BeforeValidator(_as_http), WithJsonSchema(_HTTP_SCHEMA)] = Field(
        default_factory=HttpModel
    )
    outbox: OutboxOrOff = Field(default_factory=OutboxModel)
    timeouts: TimeoutsOrOff = Field(default_factory=TimeoutsModel)
    schema_registry: (
        Annotated[RegistryModel, unless_unknown(lambda: RegistryModel.model_construct(url=["http://unknown"]))] | None
    ) = None
    agents: Annotated[dict[str, AgentModel], BeforeValidator(_agents), unless_unknown(dict)] = Field(
        json_schema_extra={"propertyNames": {"pattern": NAME}, "minProperties": 1}
    )
    tests: Tests = Field(default_factory=dict)
