"""An agent as a JSON document with the keys of the file, without default values.

A mapping whose order counts (`let`, `compute`, `select`) is a list here. Expressions are in their canonical form,
durations are seconds, and a schema is the JSON of its file without documentation (`doc`).
"""

from collections.abc import Iterable
from typing import Any

from sluicegate.schemas.json import UNREADABLE, decode_any
from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams import formats
from sluicegate.streams.agent import (
    Agent,
    AgentSettings,
    Aggregation,
    Correlation,
    DataDeadline,
    DedupeSettings,
    Destination,
    EmitSettings,
    GroupSettings,
    Handler,
    HandlerSettings,
    Lookup,
    OnError,
    RateLimitSettings,
    RetrySettings,
    Selected,
    ThrottleSettings,
    Until,
    Window,
)
from sluicegate.streams.aggregation.selected_schema import selected_schema
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.words import normal
from sluicegate.streams.keys import keys_of
from sluicegate.streams.reducers import written
from sluicegate.streams.topic_names import pattern_of, plain
from sluicegate.streams.windowers import CORRELATION

AgentDocument = dict[str, Any]
_USUAL = Agent("", (), None, None, "")


def document(agent: Agent) -> AgentDocument:
    """All keys of the agent in the file. Raises ExpressionError."""
    rule = agent.aggregation
    keys = _of_table(AgentSettings, agent) | _besides_defaults(agent, _USUAL, ("format", "start"))
    keys["from"] = [_source(topic, agent) for topic in agent.topics]
    letters = {"topic": agent.dead_letters, "headers": agent.dead_headers}
    keys["dead_letters"] = agent.dead_letters if agent.dead_headers == "sluicegate" else letters
    if agent.let:
        keys["let"] = [{definition.name: _normal(definition.expression)} for definition in agent.let]
    if rule is not None:
        keys |= {"aggregate": _aggregate(rule), **({"key": rule.key} if rule.key else {})}
    if agent.key:
        keys["key"] = agent.key
    if agent.times is not None and agent.times.kind != CORRELATION:  # it re-keys for this window
        keys["aggregate"] = {**keys.get("aggregate", {}), "window": _window(agent.times)}
    if (correlate := _correlate(agent, rule)) is not None:
        keys["correlate"] = correlate
    if rule is not None and rule.emit is not None:
        keys["emit"] = _of_table(EmitSettings, rule.emit)
    if agent.outputs:
        keys["to"] = _to(agent)
    if agent.lookups:
        keys["lookup"] = {lookup.name: _lookup(lookup) for lookup in agent.lookups}
    if agent.dedupe is not None:
        identity = "key" if agent.dedupe.by == "key" else {str(agent.dedupe.by): agent.dedupe.name}
        keys["dedupe"] = {"id": identity, **_of_table(DedupeSettings, agent.dedupe)}
    if on_error := _of_table(OnError, agent.on_error):
        keys["on_error"] = on_error
    return keys | _options(agent.schema) | (_handler(agent.handler) if agent.handler else {})


def _source(topic: str, agent: Agent) -> object:
    more = {"dedupe": "sluicegate"} if topic in agent.receive else {}
    more |= {"envelope": "cloudevents"} if topic in agent.events else {}
    more |= {"envelope": "debezium"} if topic in agent.changes or (agent.over_table and not agent.rekeys) else {}
    if (pattern := pattern_of(topic)) is not None:
        return {"pattern": pattern, **more}
    return {"topic": topic, **more} if more else topic


def _aggregate(rule: Aggregation) -> AgentDocument:
    keys = _of_table(GroupSettings, rule)
    times = {"first": rule.since_first, "last": rule.since_last}
    timeout = {name: _number(time) for name, time in times.items() if time is not None} | _deadline(rule.deadline)
    keys |= {"timeout": timeout} if timeout else {}
    if isinstance(rule.until, Until):
        keys["until"] = {"field": rule.until.field, "equals": rule.until.equals}
    elif rule.until is not None:
        keys["until"] = _normal(rule.until)
    if rule.window is not None and rule.window.kind != CORRELATION:
        keys["window"] = _window(rule.window)
    if rule.compute:
        keys["compute"] = [{reducer.name: written(reducer)} for reducer in rule.compute]
    if rule.max_items != max(Aggregation().max_items, rule.count or 0):
        keys["max_items"] = rule.max_items
    return keys


def _deadline(deadline: DataDeadline | None) -> AgentDocument:
    if deadline is None:
        return {}
    keys: AgentDocument = {deadline.name: _normal(deadline.at or deadline.after)}
    keys |= _besides_defaults(deadline, DataDeadline(), ("since", "unit"))
    return keys | ({"cancel": _normal(deadline.cancel)} if deadline.cancel else {})


def _window(window: Window) -> AgentDocument:
    """`never` is written, because the default is another time."""
    keys: AgentDocument = {window.windower.word: _number(window.extent)} if window.extent else {}
    keys |= {name: value for name in ("zone", "week_starts", "last") if (value := getattr(window, name))}
    keys |= {name: _number(value) for name in ("every", "offset", "grace") if (value := getattr(window, name))}
    if window.time is not None:
        keys["time"] = {"field": window.time, "unit": window.unit}
    keys |= {"idle": _or_never(window.idle), "at_most": _or_never(window.at_most)}
    times = {"new": {"new": window.gather}, "amend": {"amend": window.keep, "every": window.gather}}.get(window.late)
    late = window.late if times is None else {name: _number(value) for name, value in times.items()}
    return keys | {"late": late, "max_ahead": _number(window.max_ahead)}


def _correlate(agent: Agent, rule: Aggregation | None) -> AgentDocument | None:
    """The key of a correlation, and of a leg's agent if event time ends the groups. With the worker's clock the
    aggregation has the timeout."""
    if (times := agent.times) is not None and times.kind == CORRELATION:
        time = "timestamp" if times.time is None else {"field": times.time, "unit": times.unit}
        limits = {"idle": _or_never(times.idle), "max_ahead": _number(times.max_ahead)}
        return {"legs": {"time": time}, "timeout": {"clock": "event", **limits}}
    if rule is None or rule.correlation is None:
        return None
    keys = _besides_defaults(rule.correlation, Correlation(), ("remember", "late", "max_keys"))
    timeout: AgentDocument = {} if rule.correlation.since == "first" else {"since": rule.correlation.since}
    if (window := rule.window) is not None:
        timeout |= {"clock": "event", "after": _number(window.size), "max_ahead": _number(window.max_ahead)}
        timeout |= {"idle": _or_never(window.idle), "at_most": _or_never(window.at_most)}
    return keys | ({"timeout": timeout} if timeout else {})


def _or_never(limit: float | None) -> object:
    return "never" if limit is None else _number(limit)


def _lookup(lookup: Lookup) -> AgentDocument:
    """The order of the fields counts: the output has the same order."""
    keys: AgentDocument = {lookup.kind: lookup.source, "key": _normal(lookup.key), "fields": [*lookup.fields]}
    keys |= {"column": lookup.column} if lookup.column else {}
    keys |= {"lock": "share"} if lookup.lock else {}
    if lookup.missing != "null":
        keys["missing"] = {"wait": _number(lookup.wait)} if lookup.missing == "wait" else lookup.missing
    return keys


def _to(agent: Agent) -> object:
    if agent.to is not None and not agent.routes:
        return _destination(agent.to, agent)
    drop = ["drop"] if agent.unrouted == "drop" else []
    return [*(_destination(output, agent) for output in agent.outputs), *drop]


def _destination(to: Destination, agent: Agent) -> AgentDocument:
    """A schema that follows from computed fields is not written, because those fields define it."""
    another = to.converts and agent.format != "json"  # the default of a forwarder is the format of the records
    default = agent.forwards_unchanged(to) or (to.format == "json" and not another)
    keys: AgentDocument = {"topic": to.topic} | ({} if default else {"format": to.format})
    keys |= {"where": _normal(to.where)} if to.where else {}
    keys |= {"select": [_selected(field) for field in to.select]} if to.select else {}
    keys |= {"continue": True} if to.goes_on else {}
    if event := to.envelope:
        source = {"source": event.source} if event.source else {}
        keys["envelope"] = {"cloudevents": event.mode, "type": event.type, **source}
    avro = _options(to.schema)
    if to.schema is not None and to.schema.subject:
        avro |= {} if to.schema.subject == f"{plain(to.topic)}-value" else {"subject": to.schema.subject}
        avro |= {"register": True} if to.schema.register else {}
    if to.schema is not None and to.schema.schema and to.schema.schema == _own_schema(agent, to):
        del avro["schema"]
    return keys | avro


def _selected(field: Selected) -> object:
    return {field.name: _normal(field.expression)} if field.expression else field.name


def _own_schema(agent: Agent, to: Destination) -> str | None:
    try:
        return selected_schema(agent, to) if to.select else formats.result_schema(agent)
    except ValueError:
        return None


def _options(avro: SchemaOptions | None) -> AgentDocument:
    if avro is None:
        return {}
    keys: AgentDocument = {} if avro.framing == "none" else {"framing": avro.framing}
    keys |= {"schema": _schema(avro.schema)} if avro.schema else {}
    keys |= {} if avro.writer_schema is None else {"writer_schema": _schema(avro.writer_schema)}
    keys |= {"schema": avro.pinned} if avro.pinned else {}
    keys |= {"message": avro.message} if avro.message else {}
    keys |= {"validate": True} if avro.validate else {}
    keys |= {} if avro.schema_id is None else {"schema_id": avro.schema_id}
    return keys | ({} if avro.writers is None else {"writer_schemas": avro.writers})


def _schema(text: str) -> Any:
    """The JSON of a schema. Text that is not JSON stays text; the checks of the file refuse it."""
    try:
        return _without_texts(decode_any(text.encode()))
    except (ValueError, *UNREADABLE):
        return text


def _without_texts(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: part if name == "default" else _without_texts(part) for name, part in schema.items() if name != "doc"
        }
    return [_without_texts(part) for part in schema] if isinstance(schema, list) else schema


def _handler(handler: Handler) -> AgentDocument:
    usual = Handler(handler.functions)
    keys: AgentDocument = {"handler": list(handler.functions)}
    keys |= _of_table(HandlerSettings, handler)
    keys |= {"outage": list(handler.outages)} if handler.outages else {}
    retry = _of_table(RetrySettings, handler)
    backoff = handler.backoff_first, handler.backoff_most
    if backoff != (usual.backoff_first, usual.backoff_most):
        retry["backoff"] = [_number(pause) for pause in backoff]
    for name, table, limit in (
        ("throttle", ThrottleSettings, handler.throttle),
        ("rate_limit", RateLimitSettings, handler.rate_limit),
    ):
        keys |= {} if limit is None else {name: _of_table(table, limit)}
    return keys | ({"retry": retry} if retry else {})


def _of_table(table: type, value: Any) -> AgentDocument:
    """The keys of the table whose values differ from the defaults."""
    return {
        key.name: _normal(setting) if key.entry.kind == "expression" else _number(setting)
        for key in keys_of(table)
        if (setting := getattr(value, key.name)) != key.default
    }


def _besides_defaults(value: Any, usual: Any, names: Iterable[str]) -> AgentDocument:
    """The attributes whose values differ from the defaults."""
    return {name: _number(setting) for name in names if (setting := getattr(value, name)) != getattr(usual, name)}


def _number(value: Any) -> Any:
    """30 and 30.0 are one number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _normal(text: str) -> str:
    return normal(parse(text))
