"""The sections `outbox` and `timeouts` as the file writes them; `false` turns a part off."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from sluicegate.streams.agent import OutboxSettings, Timeouts
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Count, Duration, SpanField, unless_unknown
from sluicegate.streams.config.text.scalars import Unknown


class Degraded(FilePart, frozen=True):
    age: Duration = Field(default=60.0, description="The age of the oldest row that is to be sent.", examples=["1m"])
    dead: Count = Field(default=1, description="The number of dead rows.", examples=[1])


class Unhealthy(FilePart, frozen=True):
    age: Duration = Field(default=600.0, description="The age of the oldest row that is to be sent.", examples=["10m"])
    dead: Count = Field(default=1000, description="The number of dead rows.", examples=[1000])


class OutboxModel(FilePart, OutboxSettings, frozen=True):
    """Rows of applications and of the leased contracts. `lanes`: unless it is written, the number that the store has
    (16 in a new one)."""

    backoff: SpanField = Field(
        default=(1.0, 60.0),
        description="The shortest and the longest pause between two attempts.",
        examples=["1s..60s"],
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


class TimeoutsModel(FilePart, Timeouts, frozen=True):
    """Due timeouts; `lease` is how long a process may take to emit a batch."""


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
