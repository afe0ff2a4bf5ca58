"""`correlate`: one result of several topics, as the file writes it.

An agent with `correlate` is one agent for each leg, which re-keys the leg's records to an internal topic, and an
aggregation of that topic.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from sluicegate.schemas.codecs import SCHEMA_FORMATS
from sluicegate.streams import agent as run
from sluicegate.streams.aggregation.ending import over_legs
from sluicegate.streams.config.sections import correlating_time
from sluicegate.streams.config.sections.correlating_time import CorrelationTimeout, TimeoutField
from sluicegate.streams.config.sections.dedupe import DedupeField, DeduplicationModel
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    Count,
    DurationOrZero,
    Expression,
    FieldPath,
    Start,
    TopicField,
    refused,
    short_form,
    unless_unknown,
)
from sluicegate.streams.config.sections.models_topics import TOPICS_SCHEMA, Sources
from sluicegate.streams.config.sections.reading import ReadModel
from sluicegate.streams.config.sections.windows import TIMESTAMP, TimeField, TimeModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Native, Unknown
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import is_name, parse
from sluicegate.streams.expressions.scope import identifiers, left_of, paths, right_of
from sluicegate.streams.expressions.tree import FunctionCall, Has, Identifier, Node
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.units import spoken_duration

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel

CORRELATE = "correlate"
FEWEST, MOST = 2, 16  # legs
KEEPS = {"first": "first", "last": "last", "all": "collect"}
"""The reducer of a leg, by `keep`."""
TAKEN_NAMES = ("key", "key_base64", "count", "reason", "opened_at", "closed_at", "group", "message", "window")
Keep = Annotated[Literal["first", "last", "all"], unless_unknown("first")]
LateLegs = Annotated[Literal["dead-letter", "skip"], unless_unknown("dead-letter")]
OnNullLeg = Annotated[Literal["dead-letter", "skip"], unless_unknown("dead-letter")]


_DEDUPE_SCHEMA = {"anyOf": [DeduplicationModel.model_json_schema(), {"type": "null"}]}


class LegModel(ReadModel, frozen=True):
    """One leg: its topics, and the part of its records that a group keeps. Without `key` it is the key of the
    record."""

    from_: Sources = Field(
        alias="from",
        description="The topics of the leg: one, a list, or `{topic, dedupe, envelope}`.",
        examples=["payments"],
    )
    key: FieldPath | None = Field(
        default=None,
        description="The field that holds the key of the correlation. Without it, the key of the record counts.",
        examples=["order_id"],
    )
    keep: Keep = Field(
        default="first",
        description="Which records of the leg a group keeps: the first, the last, or all in their order.",
        examples=["last"],
    )
    where: Expression | None = Field(
        default=None,
        description="The records that belong to the leg. Others are left out.",
        examples=['kind == "request"'],
    )
    dedupe: Annotated[DedupeField | None, WithJsonSchema(_DEDUPE_SCHEMA)] = Field(
        default=None,
        description="Drops records of the leg that a producer wrote twice, by an id in them.",
        examples=[{"id": "header:event-id", "horizon": "24h"}],
    )
    start: Start | None = Field(
        default=None,
        description="Where partitions of the leg without a committed offset begin. Without it, where the agent says.",
        examples=["latest"],
    )
    on_null: OnNullLeg = Field(
        default="dead-letter", description="What happens to a record without a value.", examples=["skip"]
    )
    time: TimeField = Field(
        default=TimeModel(),
        description="The field that holds the time of a record: a path, or `{field, unit}`. `timestamp` is Kafka's.",
        examples=["paid_at"],
        json_schema_extra={"default": TIMESTAMP},
    )


_LEG_SCHEMA = {"anyOf": [*TOPICS_SCHEMA["anyOf"], LegModel.model_json_schema()]}
LegField = Annotated[LegModel, short_form("from"), WithJsonSchema(_LEG_SCHEMA)]


class CorrelateModel(FilePart, frozen=True):
    """`complete` None: each leg has a record. `through` None: the topic APP.AGENT.legs."""

    legs: Annotated[dict[str, LegField], unless_unknown(dict)] = Field(
        description="The legs by name: a topic each, or a mapping with `from` and how its records are read.",
        examples=[{"order": "orders", "payment": {"from": "payments", "key": "order_id"}}],
    )
    complete: Expression | None = Field(
        default=None,
        description="An expression over the legs. The record for which it is true completes the group. Unless it is "
        "written, all legs are needed.",
        examples=["has(order) && has(payment)"],
    )
    timeout: TimeoutField = Field(
        description="The time within which all legs of a key must come, by the times of their records. The long form "
        "is `{after, since, clock, idle, at_most, max_ahead}`.",
        examples=["15m"],
    )
    remember: DurationOrZero = Field(
        default=3600.0,
        description="How long the key of a group that ended is known. Its records are late.",
        examples=["1d"],
    )
    late: LateLegs = Field(
        default="dead-letter", description="What happens to a record whose key has ended.", examples=["skip"]
    )
    through: TopicField | None = Field(
        default=None,
        description="The internal topic that has the records of all legs. Unless it is written, APP.AGENT.legs.",
        examples=["shop.settle.legs"],
    )
    max_keys: Count = Field(
        default=1_000_000, description="The most ended keys that are known in a partition.", examples=[100000]
    )
    max_groups: Count = Field(
        default=run.GroupSettings.max_groups,
        description="The most open correlations of a partition.",
        examples=[5_000_000],
    )
    hot_groups: Count = Field(
        default=run.GroupSettings.hot_groups,
        description="The most open correlations of a partition in memory. Beyond it, the least recently used are rows "
        "of the store.",
        examples=[50_000],
    )

    def topic(self, app: str, agent: str) -> str:
        """The internal topic of this agent."""
        return self.through or f"{app}.{agent}.legs"


def _unknown() -> CorrelateModel:
    return CorrelateModel.model_construct(legs={}, timeout=CorrelationTimeout.model_construct(after=60.0))


CorrelateField = Annotated[CorrelateModel, unless_unknown(_unknown)]


def with_topics(value: object) -> object:
    """The agent's mapping with `from` for all topics of the legs."""
    if not isinstance(value, dict) or value.get(CORRELATE) is None:
        return value
    if "from" in value:
        raise refused("has both from and correlate", "leave from out: the legs name the topics")
    written = value[CORRELATE].get("legs") if isinstance(value[CORRELATE], dict) else None
    legs = written if isinstance(written, dict) else {}
    sources = [leg.get("from") if isinstance(leg, dict) else leg for leg in legs.values()]
    listed = [one for source in sources for one in (source if isinstance(source, list) else [source])]
    named = [one.get("topic") if isinstance(one, dict) else one for one in listed]
    known: list[object] = [
        *dict.fromkeys(name for name in named if isinstance(name, str) and not isinstance(name, Unknown))
    ]
    regexes = dict.fromkeys(one["pattern"] for one in listed if isinstance(one, dict) and _is_text(one.get("pattern")))
    known += [{"pattern": regex} for regex in regexes]
    return {**value, "from": known or ["unknown"]}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Unknown)


def combined(leg: LegModel, agent: "AgentModel") -> LegModel:
    """The leg combined with the agent's keys for all legs: both conditions apply, the leg's computed fields follow
    those of the agent, and any other key of the leg overrides the agent's."""
    conditions = [text for text in (agent.where, leg.where) if text]
    both = " && ".join(f"({text})" for text in conditions) if len(conditions) > 1 else None
    of_schema = leg.format in SCHEMA_FORMATS
    return leg.model_copy(
        update={
            "where": both or next(iter(conditions), None),
            "let": {**(agent.let or {}), **(leg.let or {})},
            "fields": leg.fields if leg.fields is not None or of_schema else agent.fields,
            "dedupe": leg.dedupe or agent.dedupe,
            "start": agent.start if leg.start is None else leg.start,
        }
    )


def aggregate(correlate: CorrelateModel) -> dict[str, Any]:
    """The equivalent values of `aggregate`. An expression with a mistake counts as the default; `findings` reports
    it."""
    legs = correlate.legs
    return {
        "until": until(correlate.complete, legs),
        "compute": {name: (KEEPS[leg.keep], name) for name, leg in legs.items()},
        "max_groups": correlate.max_groups,
        "hot_groups": correlate.hot_groups,
    }


def until(complete: str | None, legs: Mapping[str, LegModel]) -> str:
    """`complete` as an expression over `group`."""
    text = complete or " && ".join(f"has({name})" for name in legs)
    try:
        columns = sorted({identifier.column for identifier in identifiers(parse(text), legs)}, reverse=True)
    except ExpressionError:
        return "false"
    for column in columns:
        text = f"{text[: column - 1]}group.{text[column - 1 :]}"
    return text


def expanded(
    correlate: CorrelateModel, name: str, agent: run.Agent, app: str, reading: Mapping[str, Mapping[str, Any]]
) -> list[run.Agent]:
    """The agents of the legs, and `agent` as the aggregation of their outputs. `reading` has each leg's values that
    decide which records are read, and how."""
    through = correlate.topic(app, name)
    assert agent.aggregation is not None
    timeout = correlate.timeout
    correlation = run.Correlation(correlate.remember, correlate.late, correlate.max_keys, timeout.since)
    window = correlating_time.window(timeout)
    legs = [
        replace(
            agent,
            name=f"{name}.{leg}",
            aggregation=run.Aggregation(key=model.key, on_null=model.on_null),
            to=run.Destination(through, "raw"),
            rekeys=name,
            leg=leg,
            times=correlating_time.of_leg(window, model.time),
            handler=None,
            having="",
            routes=(),
            lookups=(),
            history="",
            **reading[leg],
        )
        for leg, model in correlate.legs.items()
    ]
    origins = tuple(f"{leg.name}/{topic}" for leg in legs for topic in leg.topics)
    window = None if window is None else replace(window, origins=origins)
    rule = replace(agent.aggregation, correlation=correlation, window=window, on_missing="ignore")
    groups = replace(agent, topics=(through,), receive=(through,), start="earliest", aggregation=rule)
    return [*legs, replace(groups, where="", let=(), dedupe=None)]


def place_of(agent: run.Agent) -> Path:
    """The place of an agent in the file. The agent of a leg has the place of its leg."""
    return ("agents", agent.rekeys, CORRELATE, "legs", agent.leg) if agent.leg else ("agents", agent.name)


def written(agent: run.Agent, legs: list[run.Agent], reading: Callable[[run.Agent], dict[str, Any]]) -> dict[str, Any]:
    """The equivalent keys of the file. `reading` returns the keys that decide which records are read, and how."""
    rule = agent.aggregation
    assert rule is not None
    assert rule.correlation is not None
    keeps = {reducer.name: keep for reducer in rule.compute for keep, kind in KEEPS.items() if kind == reducer.kind}
    return {
        "legs": {leg.leg: _leg(leg, keeps[leg.leg]) | reading(leg) for leg in legs},
        "complete": over_legs(str(rule.until)),
        "timeout": correlating_time.written(rule),
        "remember": Native(rule.correlation.remember),
        "late": rule.correlation.late,
        "max_keys": rule.correlation.max_keys,
        "max_groups": rule.max_groups,
        "hot_groups": rule.hot_groups,
        "through": agent.topics[0],
    }


def _leg(agent: run.Agent, keep: str) -> dict[str, Any]:
    rule = agent.aggregation or run.Aggregation()
    key = {} if rule.key is None else {"key": rule.key}
    return {"keep": keep, "on_null": rule.on_null, "time": correlating_time.time_written(agent.times), **key}


# -- findings ----------------------------------------------------------------------------------------------------------

OF_A_LEG = ("key", "format", "schema", "writer_schema", "writer_schemas", "framing", "schema_id", "message", "validate")
"""Keys that each leg has for itself."""
REFUSED = {
    "aggregate": "does not go together with correlate, which makes the groups",
    "repartition": "does not go together with correlate, which sends the records of a key through a topic of its own",
    "scope": "does not go together with correlate: its groups are open in one partition each",
}


def findings(agent: "AgentModel", path: Path, names: Mapping[str, object]) -> Iterator[FileFinding]:
    """Keys that an agent with `correlate` cannot have, and legs that contradict each other. `names` are names of
    agents."""
    correlate = agent.correlate
    if correlate is None:
        return
    at: Path = (*path, CORRELATE)
    for attribute, field in type(agent).model_fields.items():
        name = field.alias or attribute
        place = (*path, name)
        if attribute not in agent.model_fields_set or getattr(agent, attribute) == field.default:
            continue
        if name in REFUSED:
            yield FileFinding(place, REFUSED[name], "leave one out", (place, at))
        elif name in OF_A_LEG:
            hint = f"write it in the legs: correlate.legs.NAME.{name}"
            yield FileFinding(place, "stands at the agent, but each leg has its own", hint, (place, at))
    yield from _legs(agent, correlate, path, names)
    times: dict[Path, TimeModel] = {(*at, "legs", name, "time"): leg.time for name, leg in correlate.legs.items()}
    yield from correlating_time.findings(correlate.timeout, (*at, "timeout"), times)
    yield from _complete(correlate, (*at, "complete"))


def _legs(
    agent: "AgentModel", correlate: CorrelateModel, path: Path, names: Mapping[str, object]
) -> Iterator[FileFinding]:
    at: Path = (*path, CORRELATE)
    place: Path = (*at, "legs")
    if not FEWEST <= len(correlate.legs) <= MOST:
        yield FileFinding(
            place, f"must be {FEWEST} to {MOST} legs, not {len(correlate.legs)}", "add or remove legs", (place,)
        )
    for name, leg in correlate.legs.items():
        if not is_name(name) or name in TAKEN_NAMES:
            hint = "write a name of letters, digits and _, which the result does not have already"
            yield FileFinding((*place, name), "is not the name of a leg", hint, ((*place, name),))
        if f"{path[1]}.{name}" in names:
            yield FileFinding(
                (*place, name), "takes the name of another agent", "rename one of them", ((*place, name),)
            )
        if leg.format == "raw":
            at_format = (*place, name, "format")
            yield FileFinding(at_format, "has no fields", "write json, or another format", (at_format,))
        for twice in sorted({*(leg.let or {})} & {*(agent.let or {})}):
            needs = ((*place, name, "let", twice), (*path, "let", twice))
            yield FileFinding(needs[0], "is computed for all legs already", "give one of the two another name", needs)
        if correlate.through in [source.name for source in leg.from_]:
            needs = ((*at, "through"), (*place, name, "from"))
            yield FileFinding(needs[0], "is a topic that a leg reads", "give it a topic of its own", needs)
    topics = [source.name for leg in correlate.legs.values() for source in leg.from_ if leg.where is None]
    for topic in sorted({name for name in topics if topics.count(name) > 1}):
        what = f"read the topic {topic} twice without where: each record would be in two legs"
        yield FileFinding(place, what, "give the legs a where that divides the records", (place,))


def _complete(correlate: CorrelateModel, at: Path) -> Iterator[FileFinding]:
    if correlate.complete is None:
        return
    try:
        node = parse(correlate.complete)
    except ExpressionError as error:
        what, _, hint = error.problem.partition("; ")
        yield FileFinding(at, what, hint or "correct the expression", (at,), error.column)
        return
    for name in sorted({path[0] for path in paths(node)} - {*correlate.legs}):
        yield FileFinding(at, f"names {name}, which is not a leg", did_you_mean(name, list(correlate.legs)), (at,))
    counted = {name for name, leg in correlate.legs.items() if leg.keep == "all"}
    for name in sorted(counted & _read(node)):
        hint = f"write has({name}) or size({name})"
        yield FileFinding(at, f"reads a field of the leg {name}, which keeps all records", hint, (at,))


def _read(node: Node) -> set[str]:
    """The names that an expression uses in any way other than `has(NAME)` and `size(NAME)`."""
    names, waiting = set(), [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Has) and isinstance(part.path, Identifier):
            continue
        if isinstance(part, FunctionCall) and part.function == "size":
            waiting += [] if isinstance(part.target or part.arguments[0], Identifier) else [*right_of(part)]
            continue
        if isinstance(part, Identifier):
            names.add(part.name)
        operand = left_of(part)
        waiting += [*([operand] if operand is not None else ()), *right_of(part)]
    return names


# -- words -------------------------------------------------------------------------------------------------------------


def meaning(agent: run.Agent) -> list[str]:
    """How the groups of a correlation end, and the fate of late legs: one sentence each."""
    rule = agent.aggregation
    if rule is None or rule.correlation is None:
        return []
    absent = correlating_time.meaning(rule) if rule.window is not None else []
    late = (
        "is only counted" if rule.correlation.late == "skip" else f"goes to {agent.dead_letters} with the reason late"
    )
    remember = rule.correlation.remember
    if not remember:
        return [*absent, "forgets a key when its group ends: a later record of the key opens a new group"]
    return [*absent, f"remembers ended keys for {spoken_duration(remember)}: a record of such a key {late}"]
