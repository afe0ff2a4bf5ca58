"""An agent as the file writes it."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from sluicegate.streams.config import correlating, correlating_time
from sluicegate.streams.config.dead_letters import DeadLettersField
from sluicegate.streams.config.declared import DeclaredFields
from sluicegate.streams.config.dedupe import DedupeField
from sluicegate.streams.config.described import described
from sluicegate.streams.config.fields import (
    FIELD,
    FUNCTION,
    Concurrency,
    Count,
    ErrorNames,
    Expression,
    FieldPath,
    FlagField,
    Function,
    SizeField,
    SpanField,
    Start,
    Text,
    TopicField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.lookups import LookupsField
from sluicegate.streams.config.models_groups import Aggregate, ReducerModel, TimeoutModel
from sluicegate.streams.config.models_topics import DROP, ClauseField, DestinationModel, OneDestination, Routes, Sources
from sluicegate.streams.config.problems import Path
from sluicegate.streams.config.reading import ReadModel
from sluicegate.streams.config.scalars import Unknown
from sluicegate.streams.config.windows import WindowModel

_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)
_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}
Scope = Annotated[Literal["partition", "shared"], unless_unknown("partition")]
Then = Annotated[Literal["dead-letter", "stop", "park"], unless_unknown("dead-letter")]
OnDecode = Annotated[Literal["dead-letter", "skip", "stop", "wait"], unless_unknown("dead-letter")]
Delivery = Annotated[Literal["at-least-once", "transactional"], unless_unknown("at-least-once")]
OnChange = Annotated[Literal["finish", "convert", "flush", "drop", "refuse"], unless_unknown("refuse")]
OnExpression = Annotated[Literal["dead-letter", "skip", "stop"], unless_unknown("dead-letter")]
OnProduce = Annotated[Literal["dead", "stop"], unless_unknown("dead")]


class KeyModel(BaseModel):
    model_config = _CLOSED
    field: FieldPath = Field(description="The field whose value names the group.", examples=["customer.id"])


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
            "properties": described(KeyModel, {"field": _FIELD_SCHEMA}),
            "required": ["field"],
        },
    ]
}


class Retry(BaseModel):
    """`attempts` counts the first one; `backoff` is the shortest and the longest pause; `isolate_after` so many
    failures the messages of a group are tried alone."""

    model_config = _CLOSED
    attempts: Count = Field(
        default=5, description="How often the handler is called, with the first attempt.", examples=[5]
    )
    backoff: SpanField = Field(
        default=(1.0, 60.0),
        description="The shortest and the longest pause between two attempts.",
        examples=["1s..60s"],
    )
    isolate_after: Count | None = Field(
        default=None, description="After so many failures the messages of a group are tried alone.", examples=[2]
    )


class OnErrorModel(BaseModel):
    """What happens on an error, by stage. For handlers, the handler's `then` says it."""

    model_config = _CLOSED
    decode: OnDecode = Field(
        default="dead-letter",
        description=(
            "What happens to a record that cannot be decoded. `wait` is for a schema registry that does not answer."
        ),
        examples=["skip"],
    )
    produce: OnProduce = Field(
        default="dead",
        description=(
            "What happens to an output that Kafka refuses for good: it becomes a dead row, or the partition halts."
        ),
        examples=["stop"],
    )
    expression: OnExpression = Field(
        default="dead-letter",
        description="What happens to a record for which an expression has no answer.",
        examples=["skip"],
    )


def _as_functions(value: object) -> object:
    if value == []:
        raise refused("names no function", "write package.module:function, or a list of them")
    return value if isinstance(value, list) else [value]


_FUNCTION_SCHEMA = {"type": "string", "pattern": FUNCTION}
_FUNCTIONS_SCHEMA = {"anyOf": [_FUNCTION_SCHEMA, {"type": "array", "minItems": 1, "items": _FUNCTION_SCHEMA}]}
FunctionsField = Annotated[list[Function], BeforeValidator(_as_functions), WithJsonSchema(_FUNCTIONS_SCHEMA)]


class AgentModel(ReadModel):
    """An aggregation, a handler, or both: the handler then gets the completed groups. With neither, the agent forwards
    each record."""

    model_config = _CLOSED
    from_: Sources = Field(
        alias="from",
        description="The topics that the agent reads: one, a list, or `{topic, dedupe, envelope}`.",
        examples=["orders"],
    )
    fields: DeclaredFields | None = Field(
        default=None,
        description="The fields of the records and their types, which `check` compares expressions with.",
        examples=[{"amount": "number", "tier": "text or null"}],
    )
    where: ClauseField = Field(
        default=None,
        description="An expression. The agent takes the records for which it is true.",
        examples=['status == "paid"'],
    )
    let: Annotated[dict[str, Expression], unless_unknown(dict)] | None = Field(
        default=None, description="Computed fields by name, each an expression.", examples=[{"total": "amount * qty"}]
    )
    key: Annotated[KeyModel | None, BeforeValidator(_as_key), WithJsonSchema(_KEY_SCHEMA)] = Field(
        default=None,
        description="The field whose value names the group. Without it, or with `message`, the key of the record does.",
        examples=["customer.id"],
    )
    scope: Scope = Field(
        default="partition",
        description="`shared` makes groups over all partitions; `partition` makes them in each.",
        examples=["partition"],
    )
    repartition: TopicField | None = Field(
        default=None,
        description="The topic through which records are sent under the key of their group.",
        examples=["orders-by-customer"],
    )
    having: ClauseField = Field(
        default=None,
        description="An expression. Only results for which it is true are sent or handled.",
        examples=["spent >= 100"],
    )
    aggregate: Annotated[Aggregate | None, unless_unknown(Aggregate)] = Field(
        default=None,
        description="How records become groups, and when a group is complete.",
        examples=[{"count": 100, "timeout": {"after": "30s"}}],
    )
    handler: FunctionsField | None = Field(
        default=None,
        description=(
            "The function that is called for each record or each complete group, as `module:function`; a list is "
            "called in its order."
        ),
        examples=["shop:enter"],
    )
    session: FlagField = Field(
        default=False,
        description="Whether the handler gets the transaction of the store, in which it may write rows of its own.",
        examples=[True],
    )
    concurrency: Concurrency = Field(
        default=0,
        description=(
            "With 1 or more, so many calls of the handler run at a time, outside of the commit. 0: within the commit."
        ),
        examples=[8],
    )
    retry: Annotated[Retry, unless_unknown(Retry)] = Field(
        default_factory=Retry,
        description="How often, and with which pauses, a failed call of the handler is tried again.",
        examples=[{"attempts": 5, "backoff": "1s..60s"}],
    )
    then: Then = Field(
        default="dead-letter",
        description=(
            "What happens after the last attempt: `dead-letter`, `stop` halts the partition, `park` sets the "
            "record aside for `parked retry`."
        ),
        examples=["park"],
    )
    outage: ErrorNames = Field(
        default_factory=list,
        description=(
            "Errors that the handler raises while a system does not answer, as `package.Name`: the call counts no "
            "attempt, and is made again until the system answers. Those of well-known libraries need not be named."
        ),
        examples=[["shop.StockIsAway"]],
    )
    to: OneDestination = Field(
        default=None,
        description="The destination of results: a topic, `{topic, ...}`, or a list of routes whose last entry may be "
        "`drop`.",
        examples=["baskets", {"topic": "baskets"}],
    )
    routes: Routes = Field(default_factory=list, alias="to")
    dead_letters: DeadLettersField = Field(
        default=None,
        description="The topic of the agent's dead letters. Without it, the app's topic.",
        examples=["baskets.dead"],
    )
    start: Start = Field(
        default="earliest",
        description="Where partitions without a committed offset begin: `earliest`, `latest` or a time.",
        examples=["latest"],
    )
    max_record_bytes: SizeField = Field(
        default=1024 * 1024, description="The largest record. Larger ones become dead letters.", examples=["1MiB"]
    )
    dedupe: DedupeField | None = Field(
        default=None,
        description="Drops records that a producer wrote twice, by an id in them.",
        examples=[{"id": "header:event-id", "horizon": "24h"}],
    )
    on_error: Annotated[OnErrorModel, unless_unknown(OnErrorModel)] = Field(
        default_factory=OnErrorModel,
        description="What happens to records and outputs that fail, by stage.",
        examples=[{"decode": "dead-letter"}],
    )
    delivery: Delivery = Field(
        default="at-least-once",
        description="How outputs are sent. `transactional` sends them in Kafka transactions.",
        examples=["transactional"],
    )
    revision: Text | None = Field(
        default=None, description="The name of the handler's code. Another revision is another rule.", examples=["2"]
    )
    on_change: OnChange | None = Field(
        default=None,
        description=(
            "What `run` does about open groups under a rule that was never deployed. Without it, groups are "
            "converted if the change permits it; otherwise `run` refuses."
        ),
        examples=["finish"],
    )
    history: TopicField | None = Field(
        default=None,
        description="The topic for a message about each group that ends without a result.",
        examples=["baskets.history"],
    )
    lookup: LookupsField | None = Field(
        default=None,
        description="Rows of the store or of a compacted topic that are added to messages and results, by name.",
        examples=[{"customer": {"table": "customers", "column": "id", "key": "key", "fields": ["name", "tier"]}}],
    )
    correlate: correlating.CorrelateField | None = Field(
        default=None,
        description="One result of the records of several topics with the same key, or of those that came in time.",
        examples=[{"legs": {"order": "orders", "payment": {"from": "payments", "key": "order_id"}}, "timeout": "15m"}],
    )

    @model_validator(mode="before")
    @classmethod
    def _topics_of_legs(cls, value: object) -> object:
        return correlating.with_topics(value)

    @model_validator(mode="after")
    def _correlated(self) -> Self:
        """An agent with `correlate` has the aggregation that means the same."""
        if self.correlate is not None and self.aggregate is None:
            given = correlating.aggregate(self.correlate)
            compute = {
                name: ReducerModel.model_construct(kind=kind, field=field, function=None)
                for name, (kind, field) in given["compute"].items()
            }
            timeout = self.correlate.timeout
            ends: dict[str, Any] = (
                {"window": WindowModel.model_construct(tumbling=timeout.after)}
                if timeout.clock == correlating_time.EVENT
                else {"timeout": TimeoutModel.model_construct(after=timeout.after, since=timeout.since)}
            )
            made = Aggregate.model_construct(until=given["until"], compute=compute, **ends)
            self.__dict__["aggregate"] = made.model_copy(update={"on_missing": "ignore"})
        return self

    @property
    def forwards(self) -> bool:
        return self.aggregate is None and self.handler is None

    @property
    def outputs(self) -> dict[Path, DestinationModel]:
        """Each destination by its place below the agent."""
        one: dict[Path, DestinationModel] = {} if self.to is None else {("to",): self.to}
        return one | {("to", number): route for number, route in enumerate(self.routes) if route is not DROP}
