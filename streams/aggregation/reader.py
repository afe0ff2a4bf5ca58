"""Reads the records of an agent: decodes the fields that the rule needs, and checks what later readers need."""

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
    """`decode(bytes)` returns the fields that the rule needs, or raises; `unchecked` is the JSON decoder in it.
    `chains` and `getters` read a field from the decoded object, by path. `message` decodes a whole message. `valid`
    raises for a value that no reader can use. `lets` adds the computed fields that the rule names. `kept` makes the
    stored text of a collected record; None: the record itself is stored. `events` are the topics with CloudEvents,
    `changes` the topics with change events; `envelope` extracts the envelope from a value. `header_ids`: schema ids may
    be in headers. `inline`: the compiled loop may read the first field, a number, directly. `keeps`: field values are
    stored unchanged, or a handler gets them. `traced`: the `traceparent` of each record is noted for the span of its
    group."""

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
        "lets",
        "message",
        "stored_text",
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
        self._parse = _readable_later(want.of_last, want.getters, agent)
        self.getters = dict(zip((field.path for field in fields), want.getters, strict=True))
        self.chains = dict(zip(self.getters, want.chains, strict=True))
        self.inline = bool(want.attributes) and want.attributes[0] == "f0"
        self.stored_text = _stored_text(codec, want)

    def read(self, record: Record) -> Any:
        """Decode the value with the computed fields that the rule names. Raises ClauseFailed, and the errors of
        decoders."""
        value: Any = record.value()
        return self.decode(value) if self.lets is None else self._parse(self.lets.added(record, value))


def _envelope(agent: Agent) -> Callable[[bytes], bytes]:
    """A function that extracts the envelope of a change event. An agent that stores rows reads it as JSON. Raises
    ValueError for an unknown format."""
    if not agent.keeps_rows:
        return change_events.document if agent.format == "json" else lambda value: value
    text = json_text(formats.of_records(agent))
    return lambda value: change_events.document(text(value))


def _fields(aggregation: Aggregation) -> list[Field]:
    """The fields to decode, numbers first: the hot loop reads the first one directly."""
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
    """The decoder of the fields. A record of another format is converted to JSON first, so its values can be stored,
    compared and written as JSON values."""
    read = _readable_later(want.of_last if want.getters else well_formed, want.getters, agent)
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
    """`decode` with an additional check: it raises if a later reader could not read the record. The check covers the
    whole message if a group stores it or a user reducer gets it; otherwise it covers the fields that a group stores or
    a handler gets. Fields that nothing reads are not decoded."""
    if _reads_whole(agent):
        return document if decode is well_formed else _checked(decode, document)
    if not _keeps(agent):
        return decode
    return bounded(decode) if agent.aggregation is None else _of_shallow_fields(decode, getters)


def _of_shallow_fields(
    decode: Callable[[bytes], Any], getters: Sequence[Callable[[Any], Any]]
) -> Callable[[bytes], Any]:
    """`decode`, which refuses documents of more than DEEPEST levels if one of the fields is a list or an object."""

    def read(value: bytes) -> Any:
        decoded = decode(value)
        if any(type(get(decoded)) in (dict, list) for get in getters):
            shallow(value)
        return decoded

    return read


def _keeps(agent: Agent) -> bool:
    compute = agent.aggregation.compute if agent.aggregation else ()
    return any(kind_of(reducer).keeps_values for reducer in compute) or agent.handler is not None


def _reads_whole(agent: Agent) -> bool:
    """Whether something reads whole messages after intake."""
    compute = agent.aggregation.compute if agent.aggregation else ()
    return any(map(reads_messages, compute))


def _checked(decode: Callable[[bytes], Any], check: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """`decode`, preceded by the check."""

    def read(value: bytes) -> Any:
        check(value)
        return decode(value)

    return read


def _passed(text: bytes, check: Callable[[bytes], Any]) -> bytes:
    """Return the text after the check."""
    check(text)
    return text


def _stored_text(codec: Codec, want: FieldDecoder) -> Callable[[Any, bytes], bytes] | None:
    """A function that makes the stored text of a collected record; None: the record itself is stored. If no field is
    read, `_decoder` has already made the text."""
    text = codec.text
    if text is None:
        return None
    return (lambda record, value: _passed(text(value), document)) if want.getters else (lambda record, value: record)
