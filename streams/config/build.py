"""Builds the values that run (sluicegate.streams.agent) from the models of the file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluicegate.streams import agent as run
from sluicegate.streams.config.checking import forwarding, tables
from sluicegate.streams.config.checking.checks import rekeying
from sluicegate.streams.config.checking.written import dead_letters, letters
from sluicegate.streams.config.formats import schemas
from sluicegate.streams.config.sections import (
    correlating,
    deadlines,
    emitting,
    entries,
    envelopes,
    kafka,
    late,
    lookups,
    registry,
    windows,
)
from sluicegate.streams.config.sections.calls import flow
from sluicegate.streams.config.sections.dedupe import DeduplicationModel
from sluicegate.streams.config.sections.leased import OutboxModel, built_schedules
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import Aggregate, UntilModel
from sluicegate.streams.config.sections.models_topics import DROP, DestinationModel
from sluicegate.streams.config.text.scalars import Unknown

DEFAULT_MAX_ITEMS = 100_000


def app(file: FileModel, folder: str) -> run.App:
    agents = file.agents.values()
    here = Path(folder)
    written = {output.topic for a in agents for output in a.outputs.values()} | {dead_letters(file, a) for a in agents}
    written |= {a.history for a in agents if a.history} | {schedule.topic for schedule in file.schedules.values()}
    return run.App(
        name=file.app,
        store=file.store,
        agents=schemas.connected(
            tuple(made for name, agent in file.agents.items() for made in _agents(file, name, agent, written, here))
        ),
        **_clusters(file.kafka),
        **entries.values(run.AppSettings, file),
        http=run.Http(**entries.values(run.Http, file.http)) if file.http else None,
        folder=folder,
        outbox=_outbox(file.outbox) if file.outbox else None,
        timeouts=run.Timeouts(**entries.values(run.Timeouts, file.timeouts)) if file.timeouts else None,
        registry=registry.built(file.schema_registry, here),
        schedules=built_schedules(file.schedules),
    )


def _outbox(outbox: OutboxModel) -> run.Outbox:
    (first, most), low, high = outbox.backoff, outbox.degraded, outbox.unhealthy
    limits = run.Threshold(low.age, low.dead), run.Threshold(high.age, high.dead)
    return run.Outbox(first, most, *limits, **entries.values(run.OutboxSettings, outbox))


def _clusters(section: Mapping[str, object]) -> dict[str, Any]:
    clusters = kafka.clusters_of(section)
    settings = {name: _kafka(settings) for name, settings in clusters.settings.items()}
    return {"kafka": settings.pop(clusters.default, {}), "clusters": settings, "cluster": clusters.default}


def _kafka(settings: Mapping[str, object]) -> dict[str, kafka.KafkaSetting]:
    result: dict[str, kafka.KafkaSetting] = {}
    for name, value in settings.items():
        converted = str(value) if isinstance(value, Unknown) else kafka.converted(name, value)
        if converted is not None:
            result[name] = converted
    return result


def _agents(file: FileModel, name: str, agent: AgentModel, written: set[str], folder: Path) -> list[run.Agent]:
    """The agents of one entry of the file. Re-keying adds agents."""
    built = _agent(file, name, agent, written, folder)
    if agent.correlate is not None:
        legs = {leg: _reading(file, model, written, folder) for leg, model in agent.legs.items()}
        return correlating.expanded(agent.correlate, name, built, file.app, legs)
    if agent.repartition is not None and agent.key is not None and built.changes and built.aggregation is not None:
        return tables.halves(built, rekeying(name), agent.repartition, agent.key.field)
    if agent.repartition is not None and agent.key is not None:
        return _repartitioned(name, built, agent.repartition, agent.key.field)
    return [built]


def _repartitioned(name: str, agent: run.Agent, through: str, key: str) -> list[run.Agent]:
    """Two agents: one that re-keys to the topic `through`, and the agent itself, which reads that topic by the message
    key."""
    rule = agent.aggregation or run.Aggregation()
    on_missing = "dead-letter" if rule.on_missing == "ignore" else rule.on_missing
    keyed = run.Aggregation(key=key, on_null=rule.on_null, on_missing=on_missing)
    first = replace(
        agent,
        name=rekeying(name),
        aggregation=keyed,
        to=run.Destination(through, "raw"),
        handler=None,
        rekeys=name,
        dedupe=None,
        scope="partition",
        having="",
        routes=(),
        lookups=(),
        history="",
    )
    own = None if agent.aggregation is None else replace(agent.aggregation, key=None)
    if own is not None and own.window is not None:
        origins = tuple(f"{first.name}/{topic}" for topic in first.topics)
        first, own = replace(first, times=own.window), replace(own, window=replace(own.window, origins=origins))
    events = (through,) if agent.events and agent.format != "json" else ()  # the re-keyed value is the document
    keyed_by = replace(agent, topics=(through,), receive=(through,), events=events, start="earliest")
    return [first, replace(keyed_by, aggregation=own, where="")]


def _agent(file: FileModel, name: str, agent: AgentModel, written: set[str], folder: Path) -> run.Agent:
    registry_name = registry.name_of(file.schema_registry)
    return run.Agent(
        name=name,
        aggregation=_aggregation(agent, agent.aggregate) if agent.aggregate else None,
        to=_destination(agent, agent.to, folder, registry_name) if agent.to else None,
        dead_letters=dead_letters(file, agent),
        dead_headers=letters(file, agent).headers or "sluicegate",
        handler=_handler(agent, agent.handler) if agent.handler else None,
        on_error=run.OnError(**entries.values(run.OnError, agent.on_error)),
        **entries.values(run.AgentSettings, agent) | _reading(file, agent, written, folder),
        routes=tuple(_destination(agent, route, folder, registry_name) for route in agent.routes if route is not DROP),
        unrouted="drop" if DROP in agent.routes else "dead-letter",
        lookups=lookups.built(agent.lookup),
        key=agent.key.field if agent.key is not None and agent.forwards else "",
    )


def _reading(
    file: FileModel, reader: AgentModel | correlating.LegModel, written: set[str], folder: Path
) -> dict[str, Any]:
    """The values that decide which records are read, and how. `model` is an agent, or a leg of a correlation."""
    start = reader.start
    return {
        "topics": tuple(s.name for s in reader.from_),
        "receive": tuple(s.name for s in reader.from_ if s.dedupe or s.topic in written),
        "events": tuple(s.name for s in reader.from_ if s.envelope == "cloudevents"),
        "changes": tuple(s.name for s in reader.from_ if s.envelope == "debezium"),
        "start": start if isinstance(start, float) else "latest" if start == "latest" else "earliest",
        "format": reader.format,
        "schema": schemas.schema_options(reader, folder, registry.name_of(file.schema_registry)),
        "let": tuple(run.Let(name, expression) for name, expression in (reader.let or {}).items()),
        "where": reader.where or "",
        "dedupe": _dedupe(reader.dedupe) if reader.dedupe else None,
    }


def _destination(agent: AgentModel, to: DestinationModel, folder: Path, asked: str) -> run.Destination:
    select = tuple(run.Selected(name, expression or "") for name, expression in (to.select or {}).items())
    anew = forwarding.converts(agent, to)
    form = to.format if anew or select or not agent.forwards else "json"  # not used: the bytes stay as they are
    schema, event = schemas.schema_options(to, folder, asked), envelopes.built(to.envelope)
    return run.Destination(to.topic, form, schema, select, to.where or "", to.continue_, event, anew)


def _dedupe(dedupe: DeduplicationModel) -> run.Deduplication:
    header, field = dedupe.id.header, dedupe.id.field
    return run.Deduplication(
        by="header" if header else "field" if field else "key",
        name=header or field,
        **entries.values(run.DedupeSettings, dedupe),
    )


def _handler(agent: AgentModel, functions: list[str]) -> run.Handler:
    first, most = agent.retry.backoff
    keys = entries.values(run.HandlerSettings, agent) | entries.values(run.RetrySettings, agent.retry)
    return run.Handler(tuple(functions), first, most, tuple(agent.outage), **keys, **flow.built(agent))


def _aggregation(agent: AgentModel, rule: Aggregate) -> run.Aggregation:
    return run.Aggregation(
        key=agent.key.field if agent.key else None,
        **deadlines.built(rule.timeout),
        until=run.Until(rule.until.field, rule.until.equals) if isinstance(rule.until, UntilModel) else rule.until,
        compute=tuple(
            run.Reducer(name, reducer.kind, reducer.field, reducer.function, reducer.option)
            for name, reducer in rule.compute.items()
        ),
        max_items=rule.max_items or max(DEFAULT_MAX_ITEMS, rule.count or 0),
        **entries.values(run.GroupSettings, rule) | {"on_full": late.on_full(rule)},
        window=windows.built(rule, emits=agent.emit is not None),
        emit=emitting.built(agent.emit),
    )
