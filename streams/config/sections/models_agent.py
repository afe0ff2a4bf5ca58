"""An agent as the file writes it."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sluicegate.streams.agent import AgentSettings, HandlerSettings, OnError, RetrySettings
from sluicegate.streams.config.sections import correlating, correlating_time
from sluicegate.streams.config.sections.calls.flow import RateLimitField, ThrottleField
from sluicegate.streams.config.sections.dead_letters import DeadLettersField
from sluicegate.streams.config.sections.deadlines import TimeoutModel
from sluicegate.streams.config.sections.dedupe import DedupeField
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.emitting import EmitField
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    FIELD,
    FUNCTION,
    ErrorNames,
    FieldPath,
    Function,
    SpanField,
    Start,
    TopicField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.lookups import LookupsField
from sluicegate.streams.config.sections.models_groups import Aggregate, ReducerModel
from sluicegate.streams.config.sections.models_topics import DROP, DestinationModel, OneDestination, Routes, Sources
from sluicegate.streams.config.sections.reading import ReadModel
from sluicegate.streams.config.sections.windows import WindowModel
from sluicegate.streams.config.text.problems import Path
from sluicegate.streams.config.text.scalars import Unknown

_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}


class KeyModel(FilePart, frozen=True):
    field: FieldPath = Field(description="The field whose value is the key.", examples=["customer.id"])


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


class Retry(FilePart, RetrySettings, frozen=True):
    """`attempts` includes the first one. `backoff` is the shortest and the longest pause. After `isolate_after`
    failures the messages of a group are tried one by one."""

    backoff: SpanField = Field(
        default=(1.0, 60.0),
        description="The shortest and the longest pause between two attempts.",
        examples=["1s..60s"],
    )


class OnErrorModel(FilePart, OnError, frozen=True):
    """The action on an error, by stage. For handlers, the key `then` decides."""


def _as_functions(value: object) -> object:
    if value == []:
        raise refused("names no function", "write package.module:function, or a list of them")
    return value if isinstance(value, list) else [value]


_FUNCTION_SCHEMA = {"type": "string", "pattern": FUNCTION}
_FUNCTIONS_SCHEMA = {"anyOf": [_FUNCTION_SCHEMA, {"type": "array", "minItems": 1, "items": _FUNCTION_SCHEMA}]}
FunctionsField = Annotated[list[Function], BeforeValidator(_as_functions), WithJsonSchema(_FUNCTIONS_SCHEMA)]


class AgentModel(ReadModel, AgentSettings, HandlerSettings, frozen=True):
    """An agent with an aggregation, a handler, or both: the handler then gets the completed groups. With neither, the
    agent forwards each record."""

    from_: Sources = Field(
        alias="from",
        description="The topics that the agent reads: one, a list, or `{topic, dedupe, envelope}`.",
        examples=["orders"],
    )
    key: Annotated[KeyModel | None, BeforeValidator(_as_key), WithJsonSchema(_KEY_SCHEMA)] = Field(
        default=None,
        description=(
            "The field whose value names the group, or is the new key of a forwarded record. Without it, or with "
            "`message`, it is the key of the record."
        ),
        examples=["customer.id"],
    )
    repartition: TopicField | None = Field(
        default=None,
        description="The topic through which records are sent under the key of their group.",
        examples=["orders-by-customer"],
    )
    aggregate: Annotated[Aggregate | None, unless_unknown(Aggregate)] = Field(
        default=None,
        description="How records become groups, and when a group is complete.",
        examples=[{"count": 100, "timeout": {"after": "30s"}}],
    )
    emit: EmitField | None = Field(
        default=None,
        description="When a group has results before it ends: `every`, `count` or `on: change`.",
        examples=[{"every": "10s"}],
    )
    handler: FunctionsField | None = Field(
        default=None,
        description=(
            "The function that is called for each record or each complete group, as `module:function`; a list is "
            "called in its order."
        ),
        examples=["shop:enter"],
    )
    retry: Annotated[Retry, unless_unknown(Retry)] = Field(
        default_factory=Retry,
        description="How often, and with which pauses, a failed call of the handler is tried again.",
        examples=[{"attempts": 5, "backoff": "1s..60s"}],
    )
    outage: ErrorNames = Field(
        default_factory=list,
        description=(
            "Errors that the handler raises while a system does not answer, as `package.Name`: the call counts no "
            "attempt, and is made again until the system answers. Those of well-known libraries need not be named."
        ),
        examples=[["shop.StockIsAway"]],
    )
    throttle: ThrottleField | None = Field(
        default=None,
        description="How many calls of the handler begin in a time, over all workers. The others wait.",
        examples=[{"limit": 100, "per": "1s"}],
    )
    rate_limit: RateLimitField | None = Field(
        default=None,
        description="How many messages or groups are handled in a time, over all workers. The others never are.",
        examples=[{"limit": 100, "per": "1m", "over": "drop"}],
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
        """Gives an agent with `correlate` the equivalent aggregation."""
        if self.correlate is not None and self.aggregate is None:
            aggregate = correlating.aggregate(self.correlate)
            compute = {
                name: ReducerModel.model_construct(kind=kind, field=field, function=None, option=None)
                for name, (kind, field) in aggregate["compute"].items()
            }
            timeout = self.correlate.timeout
            ends: dict[str, Any] = (
                {"window": WindowModel.model_construct(tumbling=timeout.after)}
                if timeout.clock == correlating_time.EVENT
                else {"timeout": TimeoutModel.model_construct(after=timeout.after, since=timeout.since)}
            )
            made = Aggregate.model_construct(**aggregate | {"compute": compute}, **ends)
            self.__dict__["aggregate"] = made.model_copy(update={"on_missing": "ignore"})
        return self

    @property
    def legs(self) -> dict[str, correlating.LegModel]:
        """The legs by name, each combined with the agent's keys for all legs."""
        legs = {} if self.correlate is None else self.correlate.legs
        return {name: correlating.combined(leg, self) for name, leg in legs.items()}

    @property
    def readers(self) -> "dict[Path, AgentModel | correlating.LegModel]":
        """The parts of the file that decide how records are read, by their place below the agent: the agent, and the
        legs of a correlation."""
        legs = {} if self.correlate is None else self.correlate.legs
        return {(): self, **{(correlating.CORRELATE, "legs", name): leg for name, leg in legs.items()}}

    @property
    def forwards(self) -> bool:
        return self.aggregate is None and self.handler is None

    @property
    def outputs(self) -> dict[Path, DestinationModel]:
        """The destinations by their place below the agent."""
        one: dict[Path, DestinationModel] = {} if self.to is None else {("to",): self.to}
        return one | {("to", number): route for number, route in enumerate(self.routes) if route is not DROP}
