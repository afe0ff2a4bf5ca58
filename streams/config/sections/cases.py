"""The key `tests:` of the file: its models, and the cases built from them (sluicegate.streams.cases)."""

import base64
import binascii
from collections.abc import Iterator, Mapping, Set
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from sluicegate.streams.cases import (
    ANYTHING,
    PARTITIONS,
    AdvanceStep,
    Case,
    CaseStep,
    DeployStep,
    Expect,
    ExpectNothing,
    ExpectRows,
    PutRow,
    ReplaceHandlers,
    SendCase,
    SetupFile,
)
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    CLUSTER_OF_TOPIC,
    AnyValue,
    ClusterField,
    Duration,
    Text,
    TopicField,
    of_cluster,
    plain,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.models_agent import FunctionsField
from sluicegate.streams.config.text.document import LineColumn
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.contracts.headers import DEAD_STAGE
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.units import DURATION, TIME, duration, moment

KINDS = ("setup", "handlers", "row", "deploy", "send", "expect", "advance", "expect_nothing", "expect_rows")
PartitionNumber = Annotated[int, Field(ge=0, le=PARTITIONS - 1), unless_unknown(0)]
Times = Annotated[int, Field(ge=1, le=100_000), unless_unknown(1)]


def _from_base64(value: object) -> object:
    if isinstance(value, Unknown):
        return b""
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise refused("is not base64", "write the bytes as base64, such as e30=") from None


class Moment(NamedTuple):
    """A time in seconds since 1970, or in seconds since the begin of the test."""

    at: float | None = None
    after: float | None = None


def _as_moment(value: object) -> object:
    if isinstance(value, Unknown):
        return Moment()
    text = value if isinstance(value, str) else ""
    parsed = Moment(None, duration(text[1:])) if text.startswith("+") else Moment(moment(text))
    if parsed == Moment():
        raise refused("is not a time", "write a time such as 2026-01-01T00:00:10Z, or +90s since the test's begin")
    return parsed


def _empty_map(value: object) -> object:
    return {} if isinstance(value, Unknown) or value is None else value


Base64 = Annotated[bytes, BeforeValidator(_from_base64), WithJsonSchema({"type": "string"})]
_SINCE_BEGIN = r"^\+" + DURATION.removeprefix("^")
_MOMENT_SCHEMA = {"anyOf": [{"type": "string", "pattern": TIME}, {"type": "string", "pattern": _SINCE_BEGIN}]}
MomentField = Annotated[Any, BeforeValidator(_as_moment), WithJsonSchema(_MOMENT_SCHEMA)]
HeadersField = Annotated[dict[str, Text], BeforeValidator(_empty_map)]


class SendStep(FilePart, frozen=True):
    """One record, or `times` equal records. The value is written in the format of the agent that reads the topic."""

    topic: TopicField = Field(description="The topic that the record is sent to.", examples=["orders"])
    cluster: ClusterField | None = CLUSTER_OF_TOPIC
    key: Text | None = Field(default=None, description="The key of the record.", examples=["a"])
    value: AnyValue = Field(
        default=None,
        description="The value of the record. `null` is a record without a value.",
        examples=[{"amount": 3}],
    )
    value_base64: Base64 | None = Field(
        default=None, description="The bytes of the value, in base64.", examples=["eyJhIjogMX0="]
    )
    headers: HeadersField = Field(
        default_factory=dict, description="The headers of the record.", examples=[{"event-id": "e-1"}]
    )
    partition: PartitionNumber | None = Field(default=None, description="The partition of the record.", examples=[0])
    times: Times = Field(default=1, description="How many equal records are sent.", examples=[100])
    at: MomentField | None = Field(
        default=None, description="The time of the record: a time, or `+90s` since the test's begin.", examples=["+90s"]
    )

    _of_cluster = model_validator(mode="before")(of_cluster)

    @model_validator(mode="after")
    def _one_value(self) -> Self:
        if ("value" in self.model_fields_set) == (self.value_base64 is not None):
            raise refused(
                "needs one value", "write value: ..., or value_base64: ...; value: null is a record without a value"
            )
        return self


class ExpectStep(FilePart, frozen=True):
    """The next output of the topic; with a key, the next output of that key."""

    topic: TopicField = Field(description="The topic of the output.", examples=["baskets"])
    cluster: ClusterField | None = CLUSTER_OF_TOPIC
    key: Text | None = Field(
        default=None,
        description="The key of the output. Without it, the next one of the topic is compared.",
        examples=["a"],
    )
    value: AnyValue = Field(
        default=None,
        description="The value of the output. Of a mapping, only the named fields are compared.",
        examples=[{"count": 2}],
    )
    reason: Text | None = Field(default=None, description="The reason of a dead letter.", examples=["missing-field"])
    headers: HeadersField = Field(
        default_factory=dict, description="Headers that the output has.", examples=[{DEAD_STAGE: "aggregate"}]
    )

    _of_cluster = model_validator(mode="before")(of_cluster)


class ExpectRowsStep(FilePart, frozen=True):
    """The rows of a query in the tables of the test: exactly these, in this order."""

    sql: Text = Field(description="The query.", examples=["select id, amount from orders"])
    rows: list[dict[str, AnyValue]] = Field(
        description="The rows that it finds, in this order.", examples=[[{"id": "a", "amount": 3}]]
    )


class RowStep(FilePart, frozen=True):
    """A row of the table, the collection or the hash of a lookup. Null deletes it."""

    table: Text | None = Field(default=None, description="The table of a lookup.", examples=["customers"])
    collection: Text | None = Field(default=None, description="The collection of a lookup.", examples=["customers"])
    hash: Text | None = Field(
        default=None, description="The hash of a lookup, as the lookup names it.", examples=["customer:{key}"]
    )
    key: Annotated[str | int, BeforeValidator(plain), WithJsonSchema({"type": ["string", "integer"]})] = Field(
        description="The key of the row.", examples=["c-1"]
    )
    value: Annotated[dict[str, AnyValue] | None, BeforeValidator(plain)] = Field(
        description="The fields of the row. `null` deletes the row.", examples=[{"name": "Ada", "tier": "gold"}]
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(place is not None for place in (self.table, self.collection, self.hash)) != 1:
            raise refused(
                "does not say where the row is", "write one of table, collection and hash, as the lookup does"
            )
        return self

    @property
    def source(self) -> str:
        return self.table or self.collection or self.hash or ""


class DeployModel(FilePart, frozen=True):
    """The rules of another file become the ones that run."""

    file: Text = Field(description="The file whose rules become the ones that run.", examples=["shop-2.yaml"])
    open: Literal["finish", "convert", "rewind", "flush", "drop"] | None = Field(
        default=None, description="What happens to the groups that are open.", examples=["convert"]
    )


class StepModel(FilePart, frozen=True):
    """One step. Exactly one key is set; `_as_step` checks it."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})
    setup: Text | None = Field(
        default=None, description="A file of SQL statements that make the tables of the test.", examples=["orders.sql"]
    )
    handlers: Annotated[dict[str, FunctionsField], unless_unknown(dict)] | None = Field(
        default=None,
        description="Functions that are called in place of the handlers of these agents, from here on.",
        examples=[{"enter": "stubs:accepted"}],
    )
    row: (
        Annotated[RowStep, unless_unknown(lambda: RowStep.model_construct(table="unknown", key="", value=None))] | None
    ) = Field(
        default=None,
        description="Writes or deletes a row that a lookup reads.",
        examples=[{"table": "customers", "key": "c-1", "value": {"name": "Ada"}}],
    )
    deploy: Annotated[DeployModel, unless_unknown(lambda: DeployModel.model_construct(file="unknown"))] | None = Field(
        default=None,
        description="Makes the rules of another file the ones that run.",
        examples=[{"file": "shop-2.yaml", "open": "convert"}],
    )
    send: Annotated[SendStep, unless_unknown(lambda: SendStep.model_construct(topic="unknown"))] | None = Field(
        default=None, description="Sends a record.", examples=[{"topic": "orders", "key": "a", "value": {"amount": 3}}]
    )
    expect: Annotated[ExpectStep, unless_unknown(lambda: ExpectStep.model_construct(topic="unknown"))] | None = Field(
        default=None,
        description="The next output of a topic.",
        examples=[{"topic": "baskets", "key": "a", "value": {"count": 2}}],
    )
    advance: Duration | None = Field(default=None, description="Moves the clock of the test.", examples=["30s"])
    expect_nothing: TopicField | None = Field(
        default=None, description="The topic that has no more outputs.", examples=["baskets"]
    )
    expect_rows: (
        Annotated[ExpectRowsStep, unless_unknown(lambda: ExpectRowsStep.model_construct(sql="", rows=[]))] | None
    ) = Field(
        default=None,
        description="What a query finds in the tables of the test.",
        examples=[{"sql": "select id from orders", "rows": [{"id": "a"}]}],
    )


def _as_steps(value: object) -> object:
    if isinstance(value, Unknown):
        return []
    if not isinstance(value, list) or not value:
        raise refused("has no steps", "write a list of steps, such as - send: {topic: T, key: K, value: {...}}")
    return value


def _as_step(value: object) -> object:
    if isinstance(value, Unknown):
        return {"advance": "1s"}
    keys = list(value) if isinstance(value, dict) else []
    if len(keys) != 1 or keys[0] not in KINDS:
        raise refused(
            "is not a step", did_you_mean(str(keys[0]), KINDS) if len(keys) == 1 else f"write one of {', '.join(KINDS)}"
        )
    return value


OneStep = Annotated[StepModel, BeforeValidator(_as_step)]
StepsField = Annotated[list[OneStep], Field(json_schema_extra={"minItems": 1}), BeforeValidator(_as_steps)]
Tests = Annotated[dict[str, StepsField], BeforeValidator(_empty_map)]


def findings(
    tests: Mapping[str, list[StepModel]],
    reads: Set[str],
    writes: Set[str],
    rows: set[str],
    handlers: Mapping[str, bool],
) -> Iterator[FileFinding]:
    """Topics that no agent reads or writes, tables without a lookup, and agents without a handler: a step on them could
    have no effect. `rows` are the sources of the lookups. `handlers` tells for each agent whether it has a handler. A
    handler may send to any topic: topics that an `expect` names count as written."""
    if any(handlers.values()):
        writes = writes | {step.expect.topic for steps in tests.values() for step in steps if step.expect is not None}
    for name, steps in tests.items():
        for number, step in enumerate(steps):
            path: Path = ("tests", name, number)
            if any(step.deploy is not None for step in steps[:number]):
                continue  # the other file decides about topics from now on
            if step.setup is not None and any(step.setup is None for step in steps[:number]):
                yield FileFinding((*path, "setup"), "comes after another step", "begin the test with it")
            for agent in step.handlers or ():
                if not handlers.get(agent, False):
                    yield _without_handler((*path, "handlers", agent), agent, handlers)
            if step.row is not None and step.row.source not in rows:
                at, hint = (*path, "row"), did_you_mean(step.row.source, sorted(rows)) if rows else "add a lookup"
                yield FileFinding(at, "is of a source that no lookup has", hint, (at, ("agents",)))
            for kind, topic, known, verb in _topics(step, reads, writes):
                if topic not in known:
                    at = (*path, kind) if kind == "expect_nothing" else (*path, kind, "topic")
                    yield FileFinding(
                        at, f"is a topic that no agent {verb}", did_you_mean(topic, sorted(known)), (at, ("agents",))
                    )


def _without_handler(path: Path, agent: str, handlers: Mapping[str, bool]) -> FileFinding:
    if agent in handlers:
        return FileFinding(path, "is an agent without a handler", "leave it out", (path, ("agents", agent)))
    known = [name for name, handled in handlers.items() if handled]
    return FileFinding(path, "is not an agent with a handler", did_you_mean(agent, known), (path, ("agents",)))


def _topics(step: StepModel, reads: Set[str], writes: Set[str]) -> Iterator[tuple[str, str, Set[str], str]]:
    if step.send is not None:
        yield "send", step.send.topic, reads, "reads"
    if step.expect is not None:
        yield "expect", step.expect.topic, writes, "writes"
    if step.expect_nothing is not None:
        yield "expect_nothing", step.expect_nothing, writes, "writes, and no `expect` has"


def cases(tests: Mapping[str, list[StepModel]], places: Mapping[Path, LineColumn]) -> tuple[Case, ...]:
    """The cases, in the order of the file."""
    return tuple(
        Case(
            name,
            places["tests", name][0],
            tuple(_step(step, places["tests", name, i][0]) for i, step in enumerate(steps)),
        )
        for name, steps in tests.items()
    )


def _step(step: StepModel, line: int) -> CaseStep:
    if step.send is not None:
        sent = step.send
        value = sent.value if sent.value_base64 is None else sent.value_base64
        time = sent.at or Moment()
        times = sent.times, time.at, time.after
        return SendCase(line, sent.topic, sent.key, value, sent.headers, sent.partition, *times)
    if step.expect is not None:
        wanted = step.expect
        value = wanted.value if "value" in wanted.model_fields_set else ANYTHING
        return Expect(line, wanted.topic, wanted.key, value, wanted.reason, wanted.headers)
    if step.handlers is not None:
        return ReplaceHandlers(line, {agent: tuple(functions) for agent, functions in step.handlers.items()})
    if step.row is not None:
        return PutRow(line, step.row.source, step.row.key, step.row.value)
    if step.deploy is not None:
        return DeployStep(line, step.deploy.file, step.deploy.open)
    if step.setup is not None:
        return SetupFile(line, step.setup)
    if step.expect_rows is not None:
        return ExpectRows(line, step.expect_rows.sql, tuple(step.expect_rows.rows))
    if step.expect_nothing is not None:
        return ExpectNothing(line, step.expect_nothing)
    return AdvanceStep(line, step.advance or 0.0)
