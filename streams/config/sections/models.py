"""The declarative file as pydantic models: its keys, their kinds and defaults. What is not built yet is absent."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from sluicegate.streams.agent import AppSettings, Http
from sluicegate.streams.config.sections.cases import Tests
from sluicegate.streams.config.sections.dead_letters import DeadLettersField
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import NAME, NameField, StoreUrl, refused, unless_unknown
from sluicegate.streams.config.sections.leased import (
    OutboxModel,
    OutboxOrOff,
    SchedulesField,
    TimeoutsModel,
    TimeoutsOrOff,
    unless_off,
)
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.registry import RegistryModel
from sluicegate.streams.config.text.scalars import Unknown


class HttpModel(FilePart, Http, frozen=True):
    """The HTTP port of the supervisor."""


_HTTP_SCHEMA = {"anyOf": [{"enum": [False]}, HttpModel.model_json_schema()]}


def _agents(value: object) -> object:
    """The agents without those that are unknown."""
    if not isinstance(value, dict):
        return value
    if not value:
        raise refused("there is no agent", "write at least one agent under `agents`")
    return {name: agent for name, agent in value.items() if not isinstance(agent, Unknown)}


class FileModel(FilePart, AppSettings, frozen=True):
    """The file. `kafka` is checked separately, setting by setting (sluicegate.streams.config.sections.kafka)."""

    app: NameField = Field(
        description=(
            "The name of the app. Consumer groups are called `APP.AGENT`, and the store keeps state under this name."
        ),
        examples=["shop"],
    )
    kafka: Annotated[dict[str, Any], unless_unknown(dict)] = Field(
        repr=False,
        description="Settings of librdkafka, by their own names. `bootstrap.servers` is required. Several clusters "
        "have names, each with its settings.",
        examples=[{"bootstrap.servers": "localhost:9092"}],
    )
    store: StoreUrl = Field(
        repr=False,
        description=(
            "The URL of the store that keeps state, offsets and outputs. `${NAME}` reads a variable of the environment."
        ),
        examples=["postgresql://shop:${PASSWORD}@localhost/shop"],
    )
    dead_letters: DeadLettersField = Field(
        default=None,
        description="The topic of the dead letters of all agents that name none themselves.",
        examples=["shop.dead"],
    )
    http: Annotated[HttpModel | None, BeforeValidator(unless_off), WithJsonSchema(_HTTP_SCHEMA)] = Field(
        default_factory=HttpModel,
        description="The port for health, metrics and status. `false` opens none.",
        examples=[{"port": 9464}],
    )
    outbox: OutboxOrOff = Field(
        default_factory=OutboxModel,
        description="The dispatcher that sends the rows of the outbox. `false` switches it off.",
        examples=[{"lanes": 16}],
    )
    timeouts: TimeoutsOrOff = Field(
        default_factory=TimeoutsModel,
        description="The dispatcher that sends due timeouts. `false` switches it off.",
        examples=[{"lease": "5m"}],
    )
    schedules: SchedulesField = Field(
        default_factory=dict,
        description="Messages that are sent again and again, by name.",
        examples=[{"nightly": {"every": "0 2 * * *", "topic": "reports.due"}}],
    )
    schema_registry: (
        Annotated[RegistryModel, unless_unknown(lambda: RegistryModel.model_construct(url=["http://unknown"]))] | None
    ) = Field(
        default=None,
        description="The schema registry that schemas are read from and registered at.",
        examples=[{"url": "https://registry:8081"}],
    )
    agents: Annotated[dict[str, AgentModel], BeforeValidator(_agents), unless_unknown(dict)] = Field(
        json_schema_extra={"propertyNames": {"pattern": NAME}, "minProperties": 1},
        description="The agents by name. Each reads topics, and aggregates, handles or forwards their records.",
        examples=[{"baskets": {"from": "orders", "aggregate": {"count": 100}, "to": {"topic": "baskets"}}}],
    )
    tests: Tests = Field(
        default_factory=dict,
        description="Tests of the file by name: each is a list of steps for `sluicegate test`.",
        examples=[
            {
                "two orders": [
                    {"send": {"topic": "orders", "key": "a", "value": {"amount": 3}}},
                    {"advance": "30s"},
                    {"expect": {"topic": "baskets", "key": "a"}},
                ]
            }
        ],
    )
