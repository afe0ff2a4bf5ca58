"""The sections `outbox` and `timeouts` as the file writes them; `false` turns a part off."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluicegate.streams.config.described import described
from sluicegate.streams.config.fields import Count, Duration, SpanField, unless_unknown
from sluicegate.streams.config.scalars import Unknown

_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)

Order = Annotated[Literal["key", "none"], unless_unknown("key")]
LaneCount = Annotated[int, Field(ge=1, le=1024), unless_unknown(16)]
BatchSizeField = Annotated[int, Field(ge=1, le=10_000), unless_unknown(500)]


class Degraded(BaseModel):
    model_config = _CLOSED
    age: Duration = Field(default=60.0, description="The age of the oldest row that is to be sent.", examples=["1m"])
    dead: Count = Field(default=1, description="The number of dead rows.", examples=[1])


class Unhealthy(BaseModel):
    model_config = _CLOSED
    age: Duration = Field(default=600.0, description="The age of the oldest row that is to be sent.", examples=["10m"])
    dead: Count = Field(default=1000, description="The number of dead rows.", examples=[1000])


class OutboxModel(BaseModel):
    """Rows of applications and of the leased contracts. `lanes`: unless it is written, the number that the store has
    (16 in a new one)."""

    model_config = _CLOSED
    lanes: LaneCount | None = Field(
        default=None,
        description=(
            "The number of lanes that rows are spread over. Unless it is written, the number that the store has "
            "(16 in a new one)."
        ),
        examples=[16],
    )
    order: Order = Field(
        default="key",
        description="`key` sends the rows of a key in the order of their commits; `none` promises no order.",
        examples=["key"],
    )
    attempts: Count = Field(
        default=10, description="How often a row is sent before it is dead, with the first attempt.", examples=[10]
    )
    backoff: SpanField = Field(
        default=(1.0, 60.0),
        description="The shortest and the longest pause between two attempts.",
        examples=["1s..60s"],
    )
    retention: Duration = Field(default=3600.0, description="How long rows that were sent are kept.", examples=["1h"])
    poll: Duration = Field(default=1.0, description="How often an idle dispatcher looks for rows.", examples=["1s"])
    lease: Duration = Field(
        default=30.0, description="How long a dispatcher owns a lane without renewing it.", examples=["30s"]
    )
    degraded: Annotated[Degraded, unless_unknown(Degraded)] = Field(
        default_factory=Degraded,
        description="Limits above which `/readyz` reports the outbox as degraded.",
        examples=[{"age": "1m"}],
    )
    unhealthy: Annotated[Unhealthy, unless_unknown(Unhealthy)] = Field(
        default_factory=Unhealthy,
        description="Limits above which `/readyz` reports the outbox as unhealthy.",
        examples=[{"age": "10m"}],
    )


class TimeoutsModel(BaseModel):
    """Due timeouts; `lease` is how long a process may take to emit a batch."""

    model_config = _CLOSED
    lease: Duration = Field(
        default=300.0,
        description="How long a dispatcher may take to send a batch of due timeouts before another takes them.",
        examples=["5m"],
    )
    batch: BatchSizeField = Field(default=500, description="The most timeouts in a batch.", examples=[500])
    poll: Duration = Field(
        default=1.0, description="How often an idle dispatcher looks for due timeouts.", examples=["1s"]
    )


def _unless_off(value: object) -> object:
    return None if value is False or isinstance(value, Unknown) else value


def _or_off(model: type[BaseModel], **nested: type[BaseModel]) -> WithJsonSchema:
    """`nested` models stand in it by value: it is one definition."""
    made = model.model_json_schema()
    made.pop("$defs", None)
    made["properties"] |= described(model, {name: each.model_json_schema() for name, each in nested.items()})
    return WithJsonSchema({"anyOf": [{"enum": [False]}, made]})


OutboxOrOff = Annotated[
    OutboxModel | None, BeforeValidator(_unless_off), _or_off(OutboxModel, degraded=Degraded, unhealthy=Unhealthy)
]
TimeoutsOrOff = Annotated[TimeoutsModel | None, BeforeValidator(_unless_off), _or_off(TimeoutsModel)]
