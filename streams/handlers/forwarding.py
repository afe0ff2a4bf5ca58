"""An agent with neither `aggregate` nor `handler` forwards each record to the matching routes of `to`.

Value, key and headers are forwarded byte for byte, unless `select` or another format produces a new value, or a field a
new key. A value is decoded only if it is needed: for a clause, another format, or a schema that it must match.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sluicegate.schemas import Codec
from sluicegate.schemas.cloud_events import others
from sluicegate.schemas.codecs import json_text
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Destination
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.clauses import Fields, computed_fields
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.results import Route, clauses, route, taking
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.headers import passed_on
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Headers, Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import ProduceStopped
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import OVERHEAD, Message
from sluicegate.streams.outbox.rows import Target, target


class Forwarded(NamedTuple):
    """The outputs of a record, in the order of the routes. Each has an index in `Agent.outputs`, a topic and a
    value."""

    headers: Headers
    key: bytes | None
    outputs: Sequence[tuple[int, str, bytes | None]]


class Unsendable(Exception):
    """An output cannot be encoded, or is too large for the broker. `shown` is the text for logs, without the
    payload."""

    def __init__(self, reason: str, text: str, shown: str = "", where: str = "") -> None:
        super().__init__(text)
        self.reason, self.shown, self.where = reason, shown or text, where


Write = Callable[[Route, Any, Record], bytes | None]
"""Encodes the value of an output. The arguments are its route, the record as the clauses see it, and the record itself.
Raises ClauseFailed, Unsendable, and the errors of decoders."""


class Forwarding(RecordProcessor):
    """Evaluates the routes of each record in `read`. The record is sent to all matching routes, or it becomes one dead
    letter."""

    batches = False

    def __init__(self, agent: Agent, rule: Rule, reads: Codec, most: int) -> None:
        """A message may have at most `most` bytes. Raises ConfigurationError."""
        self._rule, self._most, self._drops = rule, most, agent.unrouted == "drop"
        outputs = [_with_expressions(to) for to in agent.outputs]
        by_field = agent.dedupe is not None and agent.dedupe.by == "field"  # an id in a field needs a valid value
        opaque = agent.passes_values and not by_field
        self._fields = Fields([clause for to in outputs for clause in clauses(to)], agent.let, reads, opaque=opaque)
        self._routes = [route(to, self._fields.function) for to in outputs]
        self._writes = [_write(agent, to, reads) for to in outputs]
        self._topics, self._events = [to.topic for to in outputs], bool(agent.events)
        chosen = len(outputs) > 1 or outputs[0].where or self._writes[0] or self._fields.decodes
        # The only topic, if it gets every record unchanged. A record then takes 1.2 us instead of 1.9.
        self._whole = None if chosen else self._topics[0]

    def decoded(self, rule: Rule, record: Record) -> object:
        if rule.where is not None:
            rule.where.takes(record, rule.where.value(record))
        if rule.key_of is not None:
            rule.key_of(rule.reader.read(record))
        return self._fields.read(record, self._fields.value(record))

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with their outputs as `value`, or refused records."""
        items: list[Item] = []
        largest = self._rule.max_record_bytes
        for record in records:
            try:
                if len(value := self._fields.value(record)) > largest:
                    raise OverflowError
                if self._whole is not None:
                    items.append(self._message(record, ((0, self._whole, record.value()),), len(value)))
                else:
                    items.append(self._routed(record, value, groups.outcomes))
            except Unsendable as error:
                if self._rule.on_error.produce == "stop":
                    place = f"{record.topic()}/{record.partition()}/{record.offset()}"
                    raise ProduceStopped(f"{place}: {error.shown}, and on_error.produce is stop") from error
                items.append(Refused(record, "produce", error.reason, str(error), where=error.where))
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: object, place: TopicPartition) -> list[Event]:
        events: list[Event] = []
        for item in items:
            if isinstance(item, Message):
                events += self._sent(item, identify(item.offset))
            else:
                events.append(item)
        return events

    def _routed(self, record: Record, value: bytes, outcomes: Counter[tuple[str, str]]) -> Message | Refused:
        """The record as a message with its outputs, or refused if no route matches. Raises ClauseFailed, Unsendable,
        and the errors of decoders."""
        seen = self._fields.read(record, value)
        outputs: list[tuple[int, str, bytes | None]] = []
        for number, destination in taking(self._routes, seen, outcomes):
            write = self._writes[number]
            outputs.append(
                (number, self._topics[number], record.value() if write is None else write(destination, seen, record))
            )
        if not outputs:
            unrouted = Refused(record, "expression", "unrouted", "no route of `to` takes it")
            return Message(Forwarded([], None, ()), record) if self._drops else unrouted
        return self._message(record, outputs, max(len(sent or b"") for _, _, sent in outputs))

    def _message(self, record: Record, outputs: Sequence[tuple[int, str, bytes | None]], longest: int) -> Message:
        """`longest` is the size of the longest value. Raises Unsendable, ClauseFailed, and the errors of decoders."""
        kept, key_of = passed_on(record), self._rule.key_of
        key = record.key() if key_of is None else key_of(self._rule.reader.read(record))
        size = longest + len(key or b"")
        if kept:
            size += sum(len(name) + len(content or b"") for name, content in kept)
        if size + OVERHEAD > self._most:
            text = f"{size} bytes are more than a message may have ({self._most - OVERHEAD})"
            raise Unsendable("too-large", text)
        return Message(Forwarded(kept, key, outputs), record)

    def _sent(self, message: Message, identity: str) -> list[Event]:
        """The outputs of a record, numbered in order. A value that was encoded anew is not the original event."""
        forwarded: Forwarded = message.value
        kept, own = forwarded.headers, others(forwarded.headers) if self._events else forwarded.headers
        return [
            Sent(identity, index, topic, forwarded.key, value, own if self._writes[output] else kept, None, output)
            for index, (output, topic, value) in enumerate(forwarded.outputs)
        ]


def _write(agent: Agent, to: Destination, reads: Codec) -> Write | None:
    """The function that encodes the value. None: the value is forwarded unchanged. A record without a value stays
    without one. Raises ConfigurationError."""
    if agent.forwards_unchanged(to):
        return None
    encode = partial(_encoded, target(to.topic, formats.writes(replace(agent, to=to))))
    if to.select:
        return lambda route, seen, record: encode("the selected fields", _selected(route, seen), record)
    text, decode = json_text(reads), reads.decode

    def written(route: Route, seen: Any, record: Record) -> bytes | None:
        value = record.value()
        if value is None or to.format == "json":
            return None if value is None else text(value)
        return encode("the record", decode(value), record)

    return written


def _selected(route: Route, seen: Any) -> dict[str, Any]:
    """The document of the selected names. A copy of a missing field is omitted. Raises ClauseFailed."""
    fields = computed_fields("select", route.select, seen)
    return {name: value for name, value in fields.items() if value is not None or name not in route.copies}


def _encoded(to: Target, what: str, document: Any, record: Record) -> bytes:
    """Encode the document. Raises Unsendable."""
    try:
        return to.encode(document)
    except Exception as error:
        raised = cause(error, record.key() or b"", record.value() or b"")
        why = f"{what} cannot be written as {to.format}"
        shown = raised.placed(f"{why} ({raised.shown})")
        raise Unsendable("unencodable", f"{why} ({raised.text})", shown, raised.where) from error


def _with_expressions(to: Destination) -> Destination:
    """The destination with an expression for each name that stands alone in `select`: the field of that name."""
    select = tuple(replace(field, expression=field.expression or field.name) for field in to.select)
    return replace(to, select=select)
