"""How records of an agent are read: which fields are decoded, and what later readers of the record need."""

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.schemas import Codec, change_events
from sluicegate.schemas.codecs import as_json, json_text
from sluicegate.schemas.json import Field, FieldDecoder, bounded, decode_any, document, shallow, wanted, well_formed
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Until
from sluicegate.streams.aggregation.clauses import Lets, needed
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reducers import ENTRIES, NUMBERS, kind_of, reads_messages
from sluicegate.streams.topic_names import TopicNames


class RecordReader:
    """`decode(bytes)` gives the fields of a record that the rule needs, or raises; `unchecked` is what it decodes JSON
    with. `chains` and `getters` find the fields in what was decoded, by path. `message` decodes a whole message, and
    `valid` fails for a value that no reader can use. `lets` adds the computed fields that the rule names. `kept` is the
    text that is kept of a record that is collected; None: the record itself. `events` are the topics whose records are
    CloudEvents, `changes` those whose records are change events: `envelope` makes the envelope by itself of a value.
    `header_ids`: ids of schemas may be in headers. `inline`: the first field is a number that the compiled loop may
    read by itself. `keeps`: values of fields are kept as they are, or a handler gets them. `traced`: the `traceparent`
    of each record is noted for the span of its group."""

    __slots__ = (
        "_parse",
        "chains",
        "changes",
        "codec",
        "decode",
        "envelope",
        "events",
        "getters",
        "header_ids",
        "inline",
        "keeps",
        "kept",
        "lets",
        "message",
        "traced",
        "unchecked",
        "valid",
    )

    def __init__(self, agent: Agent, aggregation: Aggregation, codec: Codec) -> None:
        """Raises ConfigurationError."""
        self.codec, self.message, self.keeps = codec, codec.decode, _keeps(agent)
        self.valid = decode_any if codec.name == "json" else codec.decode
        self.traced = False
        self.header_ids = agent.schema is not None and bool(agent.schema.registry)
        window = aggregation.window
        rekeyed = window is not None and window.origins  # the values are documents of events, and there are time marks
        self.events = TopicNames(() if rekeyed else agent.events)
        self.changes, self.envelope = TopicNames(agent.changes), _envelope(agent)
        fields, lets = _fields(aggregation), needed(agent)
        roots = {field.path.partition(".")[0] for field in fields}
        if not roots <= lets and not codec.fields:
            alone = " and ".join(entry.name for entry in ENTRIES if entry.alone)
            raise ConfigurationError(f"format {agent.format} has no fields: only {alone} can be computed")
        try:
            want = wanted(fields)
        except ValueError as error:
            raise ConfigurationError(f"aggregate: {error}") from error
        self.decode: Callable[[bytes], Any] = _decoder(codec, want, fields, agent)
        self.lets = Lets(agent.let, lets, codec, roots) if lets else None
        self.unchecked = want.decode if codec.name == "json" and want.getters else None
        self._parse = _readable_later(want.decode, want.getters, agent)
        self.getters = dict(zip((field.path for field in fields), want.getters, strict=True))
        self.chains = dict(zip(self.getters, want.chains, strict=True))
        self.inline = bool(want.attributes) and want.attributes[0] == "f0"
        self.kept = _kept(codec, want)

    def read(self, record: Record) -> Any:
        """What `decode` gives of its value, with the computed fields that the rule names. Raises ClauseFailed, and what
        decoders raise."""
        value: Any = record.value()
        return self.decode(value) if self.lets is None else self._parse(self.lets.added(record, value))


def _envelope(agent: Agent) -> Callable[[bytes], bytes]:
    """Raises ValueError for a format that does not exist. An agent that keeps rows reads them as JSON."""
    if not agent.keeps_rows:
        return change_events.document if agent.format == "json" else lambda value: value
    text = json_text(formats.of_records(agent))
    return lambda value: change_events.document(text(value))


def _fields(aggregation: Aggregation) -> list[Field]:
    """The wanted fields, numbers first: the hot loop has a short way to the first of them."""
    fields: dict[str, Field] = {}
    lenient = aggregation.on_missing == "ignore"
    for reducer in sorted(aggregation.compute, key=lambda r: kind_of(r).slots is not NUMBERS):
        if reducer.field is not None:
            known = fields.get(reducer.field, Field(reducer.field, required=not lenient))
            is_number = kind_of(reducer).takes == "number" and not lenient
            fields[reducer.field] = known._replace(kind="number") if is_number else known
    if aggregation.key:
        fields[aggregation.key] = fields.get(aggregation.key, Field(aggregation.key))._replace(required=True)
    if aggregation.window is not None and (time := aggregation.window.time) is not None and time not in fields:
        fields[time] = Field(time, required=False)
    if isinstance(aggregation.until, Until) and aggregation.until.field not in fields:
        fields[aggregation.until.field] = Field(aggregation.until.field, required=False)
    return list(fields.values())


def _decoder(codec: Codec, want: FieldDecoder, fields: Sequence[Field], agent: Agent) -> Callable[[bytes], Any]:
    """A record of another format goes through JSON, so that whatever it holds can be kept, compared and written as JSON
    can."""
    read = _readable_later(want.decode if want.getters else well_formed, want.getters, agent)
    if codec.name == "json":
        return read
    if not codec.fields:
        return codec.decode
    if not fields:
        whole = as_json(codec, None if _reads_whole(agent) else ())
        return lambda value: _passed(whole(value), read)
    text = as_json(codec, {field.path.partition(".")[0] for field in fields})
    return lambda value: read(text(value))


def _readable_later(
    decode: Callable[[bytes], Any], getters: Sequence[Callable[[Any], Any]], agent: Agent
) -> Callable[[bytes], Any]:
    """`decode`, which also raises for what a later reader of the record could not read: of the whole message, where a
    group keeps it or a reducer of the user's gets it, and else of the fields that a group keeps or a handler gets.
    Fields that nothing reads are not decoded."""
    if _reads_whole(agent):
        return document if decode is well_formed else _checked(decode, document)
    if not _keeps(agent):
        return decode
    return bounded(decode) if agent.aggregation is None else _of_shallow_fields(decode, getters)


def _of_shallow_fields(
    decode: Callable[[bytes], Any], getters: Sequence[Callable[[Any], Any]]
) -> Callable[[bytes], Any]:
    """`decode`, for documents of up to DEEPEST levels, unless the fields are no lists or objects."""

    def read(value: bytes) -> Any:
        decoded = decode(value)
        if any(type(get(decoded)) in (dict, list) for get in getters):
            shallow(value)
        return decoded

    return read


def _keeps(agent: Agent) -> bool:
    compute = agent.aggregation.compute if agent.aggregation else ()
    return any(kind_of(each).keeps_values for each in compute) or agent.handler is not None


def _reads_whole(agent: Agent) -> bool:
    """Whether something reads whole messages after intake."""
    compute = agent.aggregation.compute if agent.aggregation else ()
    return any(map(reads_messages, compute))


def _checked(decode: Callable[[bytes], Any], check: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """`decode`, for what passes the check."""

    def read(value: bytes) -> Any:
        check(value)
        return decode(value)

    return read


def _passed(text: bytes, check: Callable[[bytes], Any]) -> bytes:
    """The text, if it passes the check."""
    check(text)
    return text


def _kept(codec: Codec, want: FieldDecoder) -> Callable[[Any, bytes], bytes] | None:
    """What is kept of a record that is collected, None: the record itself. Where no field is wanted `_decoder` has made
    the text."""
    text = codec.text
    if text is None:
        return None
    return (lambda record, value: _passed(text(value), document)) if want.getters else (lambda record, value: record)
