"""Checks values built in Python (sluicegate.streams.agent) by the rules of the file.

They are written as the tree that a file would give, and that tree passes the checks of a file. Where the file has text
for a duration, a size or a start, Python has a number; it is passed as `Native`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path as FilePath
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams import agent as run
from sluicegate.streams.config import loading
from sluicegate.streams.config.checking import rules, typed
from sluicegate.streams.config.sections import correlating, deadlines, entries, envelopes, registry, windows
from sluicegate.streams.config.sections.calls import flow
from sluicegate.streams.config.sections.leased import written_schedules
from sluicegate.streams.config.text.document import FileDocument
from sluicegate.streams.config.text.problems import FileFinding, Path, dotted
from sluicegate.streams.config.text.scalars import Native
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.reducers import written
from sluicegate.streams.topic_names import pattern_of

Tree = dict[str, Any]
NAMED = ("agents", "compute", "let", "lookups")
"""Tuples whose items have names, as the keys of a mapping in the file have."""


def check(app: run.App) -> None:
    """Raises ConfigurationError with every finding, one per line, each with its key in the file."""
    findings = [*_kinds(app, ()), *_names(app)] or [*_orphans(app)]
    if not findings:
        findings = loading.findings_of(
            FileDocument(tree=_tree(app)), FilePath(app.folder), unreadable=lambda folder, name, form: None
        )
    findings = findings or list(rules.findings(app))
    if findings := findings or [problem.finding for problem in typed.judged(app) if not problem.is_warning]:
        raise ConfigurationError(
            "\n".join(f"{dotted(finding.path) or 'app'}: {finding.message}; {finding.hint}" for finding in findings)
        )


def check_without_systems(app: run.App) -> None:
    """Same as `check`, but the brokers, the store and the port of the app are not used."""
    anywhere: run.ClusterSettings = {"bootstrap.servers": "localhost:9092"}
    clusters = dict.fromkeys(app.clusters, anywhere)
    check(replace(app, kafka=anywhere, clusters=clusters, store="memory://", http=None))


# -- checks before there is a tree -------------------------------------------------------------------------------------


def _kinds(value: Any, path: Path) -> Iterator[FileFinding]:
    """Values whose type differs from the class, the tuple or the mapping that sluicegate.streams.agent declares."""
    hints = get_type_hints(type(value))
    for field in fields(value):
        there, at, hint = getattr(value, field.name), (*path, field.name), hints[field.name]
        kinds = get_args(hint) if get_origin(hint) is not tuple and not _is_mapping(hint) else (hint,)
        yield from _kind(there, at, kinds or (hint,))


def _kind(value: object, path: Path, kinds: Sequence[Any]) -> Iterator[FileFinding]:
    if (value is None and NoneType in kinds) or (isinstance(value, str) and str in kinds):
        return
    for kind in kinds:
        if is_dataclass(kind) and isinstance(kind, type):
            yield from _kinds(value, path) if isinstance(value, kind) else (_other(path, kind),)
        elif get_origin(kind) is tuple:
            yield from _items(value, path, get_args(kind)[0])
        elif _is_mapping(kind) and not isinstance(value, Mapping):
            yield FileFinding(path, "must be a mapping", "write {NAME: VALUE}")


def _items(value: object, path: Path, kind: Any) -> Iterator[FileFinding]:
    if not isinstance(value, tuple | list):
        yield FileFinding(path, "must be a tuple", "write (ITEM,): the comma makes the tuple")
        return
    for number, item in enumerate(value):
        name = getattr(item, "name", None) if path[-1] in NAMED else None
        yield from _kind(item, (*path, name if isinstance(name, str) else number), (kind,))


def _is_mapping(kind: object) -> bool:
    return get_origin(kind) is dict


def _other(path: Path, kind: type) -> FileFinding:
    module = run.__name__ if hasattr(run, kind.__name__) else kind.__module__
    return FileFinding(path, f"must be a value of {kind.__name__}", f"build it with {module}.{kind.__name__}(...)")


def _names(app: run.App) -> Iterator[FileFinding]:
    """The keys of a mapping in the form of the file: text, each once."""
    agents = app.agents if isinstance(app.agents, tuple | list) else ()
    yield from _each_once([getattr(agent, "name", "") for agent in agents], ("agents",))
    for agent in agents:
        looked_up = getattr(agent, "lookups", ())
        if isinstance(looked_up, tuple | list):
            named = [getattr(lookup, "name", "") for lookup in looked_up]
            yield from _each_once(named, ("agents", str(agent.name), "lookup"))
        compute = getattr(getattr(agent, "aggregation", None), "compute", ())
        if isinstance(compute, tuple | list):
            path = ("agents", str(agent.name), "aggregate", "compute")
            yield from _each_once([getattr(reducer, "name", "") for reducer in compute], path)


def _each_once(names: Sequence[object], path: Path) -> Iterator[FileFinding]:
    for number, name in enumerate(names):
        if not isinstance(name, str):
            yield FileFinding((*path, number, "name"), "must be text", "write a name")
        elif name in names[:number]:
            yield FileFinding((*path, name), "is written twice", "keep one of them")


def _orphans(app: run.App) -> Iterator[FileFinding]:
    """Re-keying agents without an agent to re-key for, or without a key."""
    names = [agent.name for agent in app.agents if not agent.rekeys]
    for agent in app.agents:
        if agent.rekeys and agent.rekeys not in names:
            hint = did_you_mean(str(agent.rekeys), names) if names else "leave it out"
            yield FileFinding(("agents", agent.name, "rekeys"), "names no agent", hint)
        elif agent.rekeys and (agent.aggregation is None or agent.to is None):
            yield FileFinding(
                ("agents", agent.name), "needs an aggregation with a key, and a destination", "give it both"
            )


# -- the tree ----------------------------------------------------------------------------------------------------------


def _tree(app: run.App) -> Tree:
    rekeying = {agent.rekeys: agent for agent in app.agents if agent.rekeys and not agent.leg}
    return _without_none(
        app=app.name,
        store=app.store,
        kafka=_clusters(app) if app.cluster else _settings(app.kafka),
        **entries.written(run.AppSettings, app),
        http=False if app.http is None else entries.written(run.Http, app.http),
        outbox=False if app.outbox is None else _outbox(app.outbox),
        timeouts=False if app.timeouts is None else entries.written(run.Timeouts, app.timeouts),
        schedules=written_schedules(app.schedules),
        schema_registry=None if app.registry is None else _registry(app.registry),
        agents={agent.name: _agent_of(app, agent, rekeying) for agent in app.agents if not agent.rekeys},
    )


def _without_none(**keys: object) -> Tree:
    """The keys that are set. A key that is None is one that the file leaves out."""
    return {name: value for name, value in keys.items() if value is not None}


def _clusters(app: run.App) -> Tree:
    named = {app.cluster: app.kafka, **app.clusters}
    return {"default": app.cluster, **{name: _settings(settings) for name, settings in named.items()}}


def _settings(settings: Mapping[str, object]) -> Tree:
    return {str(name): value if isinstance(value, bool) else _text(value) for name, value in settings.items()}


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


def _outbox(outbox: run.Outbox) -> Tree:
    limits = {"degraded": outbox.degraded, "unhealthy": outbox.unhealthy}
    return {
        **entries.written(run.OutboxSettings, outbox),
        "backoff": Native((outbox.backoff_first, outbox.backoff_most)),
        **{name: {"age": Native(limit.age), "dead": limit.dead} for name, limit in limits.items()},
    }


def _registry(registry: run.Registry) -> Tree:
    auth = _without_none(username=registry.username, password=registry.password, token=registry.token)
    if registry.oauth is not None:
        auth |= {name: value for name, value in asdict(registry.oauth).items() if value}
    files = _without_none(ca=registry.ca, certificate=registry.certificate, key=registry.key)
    return {
        "url": list(registry.urls),
        "timeout": Native(registry.timeout),
        **files,
        **({"auth": auth} if auth else {}),
    }


def _agent_of(app: run.App, agent: run.Agent, rekeying: Mapping[str, run.Agent]) -> Tree:
    tree = _agent(agent, rekeying.get(agent.name))
    if agent.correlates:
        legs = [leg for leg in app.agents if leg.leg and leg.rekeys == agent.name]
        tree = {name: value for name, value in tree.items() if name not in ("from", "aggregate", "start")}
        tree |= {correlating.CORRELATE: correlating.written(agent, legs, _reading)}
    return tree


def _agent(agent: run.Agent, first: run.Agent | None) -> Tree:
    """The keys of an agent. `first` re-keys for it: the two are one agent of the file, with `repartition`."""
    source = first or agent
    rule = source.aggregation
    tree = _without_none(
        key={"field": key} if (key := source.key or (rule.key if rule is not None else "")) else None,
        repartition=first.to.topic if first is not None and first.to is not None else None,
        aggregate=None if agent.aggregation is None else _aggregate(agent.aggregation),
        emit=None if agent.aggregation is None or agent.aggregation.emit is None else _emit(agent.aggregation.emit),
        to=_to(agent),
        dead_letters=_dead_letters(agent),
        on_error=entries.written(run.OnError, agent.on_error),
        lookup={lookup.name: _lookup(lookup) for lookup in agent.lookups} or None,
    )
    tree |= entries.written(run.AgentSettings, agent) | _reading(replace(source, dedupe=agent.dedupe))
    return tree | (_handler(agent.handler) if agent.handler else {})


def _reading(agent: run.Agent) -> Tree:
    """The keys that decide which records are read, and how, of an agent or of a leg of a correlation."""
    sources = [
        _without_none(
            **({"topic": topic} if (pattern := pattern_of(topic)) is None else {"pattern": pattern}),
            dedupe="sluicegate" if topic in agent.receive else None,
            envelope="cloudevents" if topic in agent.events else "debezium" if topic in agent.changes else None,
        )
        for topic in agent.topics
    ]
    keys = _without_none(
        format=agent.format,
        let={definition.name: definition.expression for definition in agent.let} or None,
        where=agent.where or None,
        start=Native(agent.start),
        dedupe=None if agent.dedupe is None else _dedupe(agent.dedupe),
    )
    return {"from": sources} | keys | _schema(agent.schema)


def _dead_letters(agent: run.Agent) -> object:
    """The topic alone where the headers are the default, so that a problem names the key that is in the code."""
    usual = agent.dead_headers == "sluicegate"
    return agent.dead_letters if usual else {"topic": agent.dead_letters, "headers": agent.dead_headers}


def _lookup(lookup: run.Lookup) -> Tree:
    missing = {"wait": Native(lookup.wait)} if lookup.missing == "wait" else lookup.missing
    tree = _without_none(column=lookup.column or None, key=lookup.key, fields=list(lookup.fields), missing=missing)
    if lookup.kind == "topic":
        tree |= {"max_rows": lookup.max_rows, "max_table_bytes": Native(lookup.max_table_bytes)}
    return {lookup.kind: lookup.source, **tree, **({"lock": "share"} if lookup.lock else {})}


def _to(agent: run.Agent) -> object:
    if not agent.routes:
        return None if agent.to is None else _destination(agent, agent.to)
    drop = ["drop"] if agent.unrouted == "drop" else []
    return [*(_destination(agent, to) for to in agent.outputs), *drop]


def _destination(agent: run.Agent, to: run.Destination) -> Tree:
    """The keys of a destination. Outputs that are forwarded unchanged have the agent's format; the default of `format`
    is JSON."""
    form = None if agent.forwards_unchanged(to) and to.format == "json" else to.format
    tree = _without_none(topic=to.topic, format=form, where=to.where or None) | _schema(to.schema)
    if to.schema is not None and to.schema.subject:
        known = {text.replace("{topic}", to.topic): name for name, text in registry.SUBJECTS.items()}
        tree |= {"subject": known.get(to.schema.subject, to.schema.subject), "register": to.schema.register}
    tree |= _without_none(envelope=envelopes.written(to.envelope))
    if to.select:
        names = [field.name for field in to.select]
        computed = {field.name: field.expression or field.name for field in to.select}
        tree["select"] = computed if any(field.expression for field in to.select) else names
    return tree | ({"continue": True} if to.goes_on else {})


def _schema(avro: SchemaOptions | None) -> Tree:
    """The keys of a schema. `schema` has its text in place of its file."""
    if avro is None:
        return {}
    tree = _without_none(writer_schema=avro.writer_schema, schema_id=avro.schema_id, writer_schemas=avro.writers)
    tree |= {"framing": avro.framing} if avro.framing != "none" or avro.schema_id is not None else {}
    tree |= {"message": avro.message} if avro.message else {}
    tree |= {"validate": True} if avro.validate else {}
    schema = avro.schema or avro.pinned
    return tree | ({"schema": schema} if schema else {})


def _dedupe(dedupe: run.Deduplication) -> Tree:
    identity = "key" if dedupe.by == "key" else {str(dedupe.by): dedupe.name}
    return {"id": identity, **entries.written(run.DedupeSettings, dedupe)}


def _handler(handler: run.Handler) -> Tree:
    backoff = Native((handler.backoff_first, handler.backoff_most))
    return {
        "handler": list(handler.functions),
        **entries.written(run.HandlerSettings, handler),
        "retry": {"backoff": backoff, **entries.written(run.RetrySettings, handler)},
        "outage": list(handler.outages),
        **flow.written(handler),
    }


def _aggregate(rule: run.Aggregation) -> Tree:
    until = rule.until
    return _without_none(
        timeout=deadlines.written(rule),
        until={"field": until.field, "equals": until.equals} if isinstance(until, run.Until) else until,
        compute={reducer.name: written(reducer) for reducer in rule.compute},
        max_items=rule.max_items,
        **entries.written(run.GroupSettings, rule),
        window=None if rule.window is None else windows.written(rule.window),
    )


def _emit(emit: run.Emit) -> Tree:
    return entries.written(run.EmitSettings, emit)
