"""The sections `outbox`, `timeouts` and `schedules` as the file writes them; `false` turns one of the first two off."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema

from sluicegate.schemas import json
from sluicegate.streams.agent import OutboxSettings, RecurringMessage, Timeouts
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    NAME,
    AnyValue,
    Count,
    Duration,
    SpanField,
    Text,
    TopicField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.text.problems import FileFinding
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.contracts.recurring import recurrence


class Degraded(FilePart, frozen=True):
    age: Duration = Field(default=60.0, description="The age of the oldest row that is to be sent.", examples=["1m"])
    dead: Count = Field(default=1, description="The number of dead rows.", examples=[1])


class Unhealthy(FilePart, frozen=True):
    age: Duration = Field(default=600.0, description="The age of the oldest row that is to be sent.", examples=["10m"])
    dead: Count = Field(default=1000, description="The number of dead rows.", examples=[1000])


class OutboxModel(FilePart, OutboxSettings, frozen=True):
    """Rows of applications and of the leased contracts. `lanes` None: the number of lanes in the store (16 in a new
    one)."""

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


def unless_off(value: object) -> object:
    return None if value is False or isinstance(value, Unknown) else value


def _or_off(model: type[BaseModel], **nested: type[BaseModel]) -> WithJsonSchema:
    """The section, or `false`. `nested` models are inlined, because the schema is one definition."""
    schema = model.model_json_schema()
    schema.pop("$defs", None)
    schema["properties"] |= described(model, {name: section.model_json_schema() for name, section in nested.items()})
    return WithJsonSchema({"anyOf": [{"enum": [False]}, schema]})


OutboxOrOff = Annotated[
    OutboxModel | None, BeforeValidator(unless_off), _or_off(OutboxModel, degraded=Degraded, unhealthy=Unhealthy)
]
TimeoutsOrOff = Annotated[TimeoutsModel | None, BeforeValidator(unless_off), _or_off(TimeoutsModel)]

MOST_SCHEDULES = 1000


def _recurring(value: str) -> str:
    try:
        recurrence(value)
    except ValueError as error:
        what, _, hint = str(error).partition("; ")
        raise refused(what, hint or "write a duration such as 15m, or five fields of cron") from None
    return value


class ScheduleModel(FilePart, frozen=True):
    every: Annotated[Text, AfterValidator(_recurring), unless_unknown("1h")] = Field(
        description="When: a duration, or the five fields of cron, which a time zone may follow.",
        examples=["0 2 * * mon-fri Europe/Vienna"],
    )
    topic: TopicField = Field(description="The topic that the message is sent to.", examples=["reports.due"])
    key: Text | None = Field(default=None, description="The key of the message.", examples=["all"])
    value: AnyValue = Field(
        default_factory=dict, description="The value of the message, sent as JSON.", examples=[{"report": "sales"}]
    )


SchedulesField = Annotated[
    dict[
        str,
        Annotated[
            ScheduleModel, unless_unknown(lambda: ScheduleModel.model_construct(every="1h", topic="unknown", value={}))
        ],
    ],
    Field(max_length=MOST_SCHEDULES),
    unless_unknown(dict),
]


def schedule_findings(schedules: Mapping[str, ScheduleModel], timed: bool) -> Iterator[FileFinding]:
    """The problems of schedules. `timed`: timeouts are sent."""
    for name in schedules:
        if not re.fullmatch(NAME, name):
            yield FileFinding(("schedules", name), "is not a name", "use only letters, digits and . _ -")
    if schedules and not timed:
        places = (("schedules",), ("timeouts",))
        yield FileFinding(places[0], "are sent as timeouts", "leave out timeouts: false", places)


def built_schedules(schedules: Mapping[str, ScheduleModel]) -> tuple[RecurringMessage, ...]:
    return tuple(
        RecurringMessage(name, schedule.every, schedule.topic, json.encode(schedule.value).decode(), schedule.key)
        for name, schedule in schedules.items()
    )


def written_schedules(schedules: tuple[RecurringMessage, ...]) -> dict[str, object] | None:
    """The schedules as the file writes them."""
    made = {
        schedule.name: {
            "every": schedule.every,
            "topic": schedule.topic,
            "value": json.decode_any(schedule.value.encode()),
        }
        | ({} if schedule.key is None else {"key": schedule.key})
        for schedule in schedules
    }
    return made or None  # type: ignore[return-value]
