"""The sections `outbox` and `timeouts` as the file writes them; `false` turns a part off."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluicegate.streams.config.fields import Count, Duration, SpanField, unless_unknown
from sluicegate.streams.config.scalars import Unknown

_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)

Order = Annotated[Literal["key", "none"], unless_unknown("key")]
LaneCount = Annotated[int, Field(ge=1, le=1024), unless_unknown(16)]
BatchSizeField = Annotated[int, Field(ge=1, le=10_000), unless_unknown(500)]


class Degraded(BaseModel):
    model_config = _CLOSED
    age: Duration = 60.0
    dead: Count = 1


class Unhealthy(BaseModel):
    model_config = _CLOSED
    age: Duration = 600.0
    dead: Count = 1000


class OutboxModel(BaseModel):
    """Rows of applications and of the leased contracts. `lanes`: unless it is written, the number that the store has
    (16 in a new one)."""

    model_config = _CLOSED
    lanes: LaneCount | None = None
    order: Order = "key"
    attempts: Count = 10
    backoff: SpanField = (1.0, 60.0)
    retention: Duration = 3600.0
    poll: Duration = 1.0
    lease: Duration = 30.0
    degraded: Annotated[Degraded, unless_unknown(Degraded)] = Field(default_factory=Degraded)
    unhealthy: Annotated[Unhealthy, unless_unknown(Unhealthy)] = Field(default_factory=Unhealthy)


class TimeoutsModel(BaseModel):
    """Due timeouts; `lease` is how long a process may take to emit a batch."""

    model_config = _CLOSED
    lease: Duration = 300.0
    batch: BatchSizeField = 500
    poll: Duration = 1.0


def _unless_off(value: object) -> object:
    return None if value is False or isinstance(value, Unknown) else value


def _or_off(model: type[BaseModel], **nested: type[BaseModel]) -> WithJsonSchema:
    """`nested` models stand in it by value: it is one definition."""
    made = model.model_json_schema()
    made.pop("$defs", None)
    made["properties"] |= {name: each.model_json_schema() for name, each in nested.items()}
    return WithJsonSchema({"anyOf": [{"enum": [False]}, made]})


OutboxOrOff = Annotated[
    OutboxModel | None, BeforeValidator(_unless_off), _or_off(OutboxModel, degraded=Degraded, unhealthy=Unhealthy)
]
TimeoutsOrOff = Annotated[TimeoutsModel | None, BeforeValidator(_unless_off), _or_off(TimeoutsModel)]
