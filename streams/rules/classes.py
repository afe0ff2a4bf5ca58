"""The class of each key of the file: what a change of the key means for open groups."""

from sluicegate.streams.agent import (
    AgentSettings,
    DedupeSettings,
    EmitSettings,
    GroupSettings,
    HandlerSettings,
    OnError,
    RateLimitSettings,
    RetrySettings,
    ThrottleSettings,
)
from sluicegate.streams.keys import (
    CLASSES,
    COMPUTED,
    DUPLICATES,
    END,
    FILE,
    INPUT,
    OUTPUT,
    TAKEN,
    TOPICS,
    ChangeClass,
    keys_of,
)
from sluicegate.streams.windowers import WINDOWERS


def _of_table(table: type, place: str = "") -> dict[str, ChangeClass]:
    return {f"{place}{name}": entry.change for name, entry, *_ in keys_of(table)}


_AGGREGATE = {
    **_of_table(GroupSettings),
    "max_items": END,
    **dict.fromkeys((f"timeout.{key}" for key in ("after", "since", "at", "unit", "cancel", "first", "last")), END),
    **dict.fromkeys(("debounce", "debounce.period", "debounce.at_most"), END),
    **dict.fromkeys(("timeout", "until", "until.field", "until.equals"), END),
    **dict.fromkeys((f"window.{key}" for key in ("grace", "idle", "at_most", "late", "max_ahead")), END),
    **dict.fromkeys((f"window.late.{key}" for key in ("new", "amend", "every")), END),
    **dict.fromkeys(("window", "window.offset", "window.zone", "window.week_starts", "window.last"), INPUT),
    **{f"window.{key.name}": INPUT for entry in WINDOWERS.values() for key in entry.keys},
    **dict.fromkeys(("window.time", "window.time.field", "window.time.unit"), INPUT),
    **dict.fromkeys(("compute", "compute.kind", "compute.field", "compute.function", "compute.option"), COMPUTED),
}
_LEG_TOPICS = ("legs.from.topic", "legs.from.pattern", "legs.from.cluster")
_LEGS = ("through", "legs", "legs.key", "legs.keep", "legs.where", "legs.on_null", "legs.from", *_LEG_TOPICS)
_READ = ("format", "schema", "writer_schema", "writer_schemas", "framing", "schema_id", "message", "validate")
_LEG_TIMES = ("legs.time", "legs.time.field", "legs.time.unit", "timeout.clock")
_CORRELATED = ("complete", "timeout", "remember", "late", "max_keys", "max_groups")
_TIMEOUTS = ("after", "since", "idle", "at_most", "max_ahead")
_WRITTEN = ("format", "schema", "framing", "schema_id", "subject", "register", "message", "validate")
_EVENT = ("envelope", "envelope.cloudevents", "envelope.type", "envelope.source")
_TO = ("topic", "cluster", "where", "select", "continue", *_EVENT, *_WRITTEN)
_LOOKUP = (
    "table",
    "collection",
    "hash",
    "topic",
    "column",
    "key",
    "fields",
    "missing",
    "missing.then",
    "missing.wait",
    "lock",
)
_ID = ("dedupe", "dedupe.id", "dedupe.id.header", "dedupe.id.field")
_HANDLED = ("handler", "outage", "retry", "retry.backoff", "throttle", "rate_limit")
OF_AN_AGENT = {
    **_of_table(AgentSettings),
    **_of_table(HandlerSettings),
    **_of_table(RetrySettings, "retry."),
    **_of_table(DedupeSettings, "dedupe."),
    **_of_table(OnError, "on_error."),
    **_of_table(EmitSettings, "emit."),
    **_of_table(ThrottleSettings, "throttle."),
    **_of_table(RateLimitSettings, "rate_limit."),
    "emit": OUTPUT,
    **dict.fromkeys(("from", "from.topic", "from.pattern", "from.cluster"), TOPICS),
    **dict.fromkeys(("format", "schema", "writer_schema", "framing", "schema_id", "message"), INPUT),
    "from.envelope": INPUT,
    "repartition": INPUT,
    **dict.fromkeys(("correlate", *(f"correlate.{name}" for name in (*_LEGS, *_LEG_TIMES))), INPUT),
    **dict.fromkeys((f"correlate.legs.{name}" for name in (*_READ, "from.envelope")), INPUT),
    **dict.fromkeys((f"correlate.legs.{name}" for name in _ID), DUPLICATES),
    **_of_table(DedupeSettings, "correlate.legs.dedupe."),
    **dict.fromkeys((f"correlate.legs.{name}" for name in ("from.dedupe", "fields", "start")), FILE),
    "correlate.legs.let": TAKEN,
    **dict.fromkeys((f"correlate.timeout.{name}" for name in _TIMEOUTS), END),
    **dict.fromkeys((f"correlate.{name}" for name in _CORRELATED), END),
    "correlate.hot_groups": FILE,
    "aggregate": INPUT,
    **{f"aggregate.{name}": change for name, change in _AGGREGATE.items()},
    **dict.fromkeys(("key", "key.field"), COMPUTED),
    **dict.fromkeys(("let", "validate"), TAKEN),
    **dict.fromkeys(("to", *(f"to.{name}" for name in _TO)), OUTPUT),
    **dict.fromkeys(("lookup.max_rows", "lookup.max_table_bytes"), FILE),
    **dict.fromkeys(("lookup", *(f"lookup.{name}" for name in _LOOKUP)), OUTPUT),
    **dict.fromkeys(_ID, DUPLICATES),
    **dict.fromkeys((*_HANDLED, "from.dedupe", "writer_schemas", "fields", "start", "on_error"), FILE),
    **dict.fromkeys(("dead_letters", "dead_letters.topic", "dead_letters.headers"), FILE),
}
"""The classes by the keys of an agent. Nested keys have a dot; names that the file chooses are left out."""


def severity(kind: ChangeClass) -> int:
    """A lower number is more severe."""
    return CLASSES.index(kind)
