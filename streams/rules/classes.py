"""The class of each key of the file: what a change of the key means for open groups."""

from typing import NamedTuple

FINISH, CONVERT, REWIND, FLUSH, DROP = "finish", "convert", "rewind", "flush", "drop"
POLICIES = (FINISH, CONVERT, REWIND, FLUSH, DROP)
"""What may become of an open group: it ends under its own rule; it goes on under the new rule; it ends without a
result, and its records are read again; it fires as it is; it is forgotten."""
ENDS = (FLUSH, DROP)
"""The policies that do not ask what the group was filled with."""


class ChangeClass(NamedTuple):
    """`text` is the explanation for users. `policies` are those under which an open group can stay correct."""

    text: str
    policies: tuple[str, ...]


ELSEWHERE = ChangeClass("app or store", ())
TOPICS = ChangeClass("topics or agents", ())
INPUT = ChangeClass("how the input is read", ENDS)
COMPUTED = ChangeClass("key or compute", (FINISH, REWIND, *ENDS))
REVISION = ChangeClass("revision", (CONVERT, REWIND, *ENDS))
KEPT = ChangeClass("compute, from what groups hold", POLICIES)
DUPLICATES = ChangeClass("duplicates", POLICIES)
OUTPUT = ChangeClass("what is sent", POLICIES)
TAKEN = ChangeClass("which records count", POLICIES)
END = ChangeClass("end of a group", POLICIES)
FILE = ChangeClass("the file", POLICIES)
CLASSES = (ELSEWHERE, TOPICS, INPUT, COMPUTED, REVISION, KEPT, DUPLICATES, OUTPUT, TAKEN, END, FILE)
"""Those that demand most of a person come first. A change of the class FILE is no change of the rule: it holds from the
restart on."""

_AGGREGATE = {
    **dict.fromkeys(("count", "on_timeout", "on_missing", "on_null", "on_full"), END),
    **dict.fromkeys(("max_items", "max_bytes", "max_groups", "max_buffered_bytes"), END),
    **dict.fromkeys((f"timeout.{each}" for each in ("after", "since", "first", "last")), END),
    **dict.fromkeys(("timeout", "until", "until.field", "until.equals"), END),
    **dict.fromkeys((f"window.{each}" for each in ("grace", "idle", "at_most", "late", "max_ahead")), END),
    **dict.fromkeys((f"window.late.{each}" for each in ("new", "amend", "every")), END),
    **dict.fromkeys(("window", "window.tumbling", "window.session", "window.hopping"), INPUT),
    **dict.fromkeys(("window.every", "window.offset"), INPUT),
    **dict.fromkeys(("window.time", "window.time.field", "window.time.unit"), INPUT),
    **dict.fromkeys(("compute", "compute.kind", "compute.field", "compute.function"), COMPUTED),
}
_LEGS = ("through", "legs", "legs.from", "legs.key", "legs.keep", "legs.where", "legs.on_null")
_READ = ("format", "schema", "writer_schema", "writer_schemas", "framing", "schema_id", "message", "validate")
_LEG_TIMES = ("legs.time", "legs.time.field", "legs.time.unit", "timeout.clock")
_TIMEOUTS = ("after", "since", "idle", "at_most", "max_ahead")
_WRITTEN = ("format", "schema", "framing", "schema_id", "subject", "register", "message", "validate")
_EVENT = ("envelope", "envelope.cloudevents", "envelope.type", "envelope.source")
_TO = ("topic", "where", "select", "continue", *_EVENT, *_WRITTEN)
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
_HANDLED = ("handler", "session", "concurrency", "then", "outage", "retry", "retry.attempts", "retry.backoff")
OF_AN_AGENT = {
    **dict.fromkeys(("from", "from.topic"), TOPICS),
    **dict.fromkeys(("format", "schema", "writer_schema", "framing", "schema_id", "message"), INPUT),
    "from.envelope": INPUT,
    **dict.fromkeys(("scope", "repartition"), INPUT),
    **dict.fromkeys(("correlate", *(f"correlate.{name}" for name in (*_LEGS, *_LEG_TIMES))), INPUT),
    **dict.fromkeys((f"correlate.legs.{name}" for name in _READ), INPUT),
    **dict.fromkeys((f"correlate.timeout.{name}" for name in _TIMEOUTS), END),
    **dict.fromkeys((f"correlate.{name}" for name in ("complete", "timeout", "remember", "late", "max_keys")), END),
    "aggregate": INPUT,
    **{f"aggregate.{name}": found for name, found in _AGGREGATE.items()},
    **dict.fromkeys(("key", "key.field"), COMPUTED),
    "revision": REVISION,
    **dict.fromkeys(("where", "let", "validate"), TAKEN),
    **dict.fromkeys(("having", "to", *(f"to.{name}" for name in _TO)), OUTPUT),
    **dict.fromkeys(("lookup.max_rows", "lookup.max_table_bytes"), FILE),
    **dict.fromkeys(("lookup", *(f"lookup.{name}" for name in _LOOKUP)), OUTPUT),
    **dict.fromkeys(("dedupe", "dedupe.id", "dedupe.id.header", "dedupe.id.field"), DUPLICATES),
    **dict.fromkeys(("dedupe.horizon", "dedupe.on_missing", "dedupe.max_ids"), DUPLICATES),
    **dict.fromkeys((*_HANDLED, "retry.isolate_after", "from.dedupe", "writer_schemas"), FILE),
    **dict.fromkeys(("dead_letters", "dead_letters.topic", "dead_letters.headers"), FILE),
    **dict.fromkeys(("fields", "start", "max_record_bytes", "delivery", "on_error", "on_change", "history"), FILE),
    **dict.fromkeys((f"on_error.{stage}" for stage in ("decode", "produce", "expression")), FILE),
}
"""By the keys of an agent, nested ones with a dot, without the names that the file chooses itself."""
_SYSTEMS = ("kafka", "schema_registry", "accept_level", "auto_migrate", "allow_plaintext", "start_timeout")
OF_THE_FILE = {
    **dict.fromkeys(("app", "store"), ELSEWHERE),
    "agents": TOPICS,
    **dict.fromkeys((*_SYSTEMS, "http", "outbox", "timeouts", "dead_letters", "tests"), FILE),
}


def severity(found: ChangeClass) -> int:
    """A lower number is more severe."""
    return CLASSES.index(found)
