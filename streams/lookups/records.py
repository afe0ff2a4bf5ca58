"""Forwards records with the rows of lookups.

The rows become fields of the record's value before it is routed. So expressions under `to` use them like any field of
the message.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas import Codec, codec
from sluicegate.schemas.codecs import as_json
from sluicegate.schemas.json import encode
from sluicegate.streams.agent import Agent, Lookup
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.clauses import MESSAGE, Clause, Fields, clause
from sluicegate.streams.aggregation.events import Event, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.failures import Failures
from sluicegate.streams.handlers.forwarding import Forwarding
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.lookups.rows import Keys, LookedUp, Lookups, WaitsForRows, as_key, says

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
OWN_KEY = "key"
"""The expression of `key` for the key of the message."""


class RecordKeys:
    """Reads the keys of the lookups from a record. Only the fields that they name are decoded."""

    def __init__(self, agent: Agent, codec: Codec) -> None:
        """Raises ConfigurationError."""
        clauses = [key_of_record(lookup) for lookup in agent.lookups]
        self._fields = Fields(clauses, agent.let, codec, opaque=not codec.fields)
        self._read = [self._fields.function(clause) for clause in clauses]
        self.value = self._fields.value

    def of(self, record: Record, value: bytes) -> Keys:
        """The keys of a record. Raises ClauseFailed, and the errors of decoders."""
        seen = self._fields.read(record, value)
        return tuple([as_key(read(seen)) for read in self._read])

    def check(self, record: Record) -> None:
        """Raises the errors of decoders if the keys of the record cannot be read."""
        self._fields.read(record, self.value(record))


def key_of_record(lookup: Lookup) -> Clause:
    """The clause of a key. A missing field is null. Raises ConfigurationError."""
    text = f"{MESSAGE}.key" if lookup.key == OWN_KEY else lookup.key
    return clause(f"lookup.{lookup.name}", f"default({text}, null)")


class EnrichedRecord:
    """A record with more fields in its value."""

    __slots__ = ("_value", "headers", "key", "leader_epoch", "offset", "original", "partition", "timestamp", "topic")

    def __init__(self, record: Record, value: bytes) -> None:
        self.original, self._value = record, value
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.key, self.headers, self.timestamp = record.key, record.headers, record.timestamp
        self.leader_epoch: Callable[[], int | None] = record.leader_epoch

    def value(self) -> bytes:
        return self._value

    def error(self) -> None:
        return None


class RowRequest(NamedTuple):
    """The keys of the rows of a record, and the record as JSON."""

    keys: Keys
    text: bytes


class LookingForwarding(RecordProcessor):
    """Forwards records in the transaction in which the rows were read. Records of another format than JSON are
    converted to JSON, and the rows are added to it."""

    batches = False
    session = True

    def __init__(
        self, agent: Agent, rule: Rule, reads: Codec, most: int, lookups: Lookups, clock: Callable[[], float]
    ) -> None:
        self._rule, self._with_rows, self._text = rule, rule, None
        if reads.name != "json":
            self._text, reads = as_json(reads), codec("json")
            agent = replace(agent, format=reads.name, schema=None)
            self._with_rows = Rule(agent, reads)
        self._forwarding, self._keys = Forwarding(agent, self._with_rows, reads, most), RecordKeys(agent, reads)
        self._lookups, self._waits = lookups, WaitsForRows(clock)
        self._failures: dict[TopicPartition, Failures] = {}
        self._names = [b'"%s"' % lookup.name.encode() for lookup in lookups.lookups]
        self._counted = Groups(self._with_rows)
        self.parts = agent.dedupe is None and not agent.receive

    def decoded(self, rule: Rule, record: Record) -> object:
        return self._row_request(record)

    def _row_request(self, record: Record) -> RowRequest:
        """Raises OverflowError, ClauseFailed, and the errors of decoders."""
        text = self._keys.value(record)
        if len(text) > self._rule.max_record_bytes:
            raise OverflowError
        if self._text is not None:
            text = self._text(text)
            record = EnrichedRecord(record, text)
        keys = self._keys.of(record, text)
        if _has_own(text, self._names):
            _members(text)
        return RowRequest(keys, text)

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with a RowRequest as their `value`, or refused records."""
        items: list[Item] = []
        for record in records:
            try:
                items.append(Message(self._row_request(record), record))
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        """Raises HandlerFailed while a record waits for its row, and LookupFailed."""
        looked_up = self._lookups.read(session, [item.value.keys for item in items if isinstance(item, Message)])
        routed: list[Item] = []
        enriched: list[EnrichedRecord] = []  # since the last refused record
        self._counted = groups = Groups(self._with_rows)
        text, names, refused = looked_up.text, self._names, self._refusal(looked_up, place)
        for item in items:
            other = refused(item) if isinstance(item, Message) else item
            if other is not None:
                routed += self._forwarding.read(groups, enriched)
                routed.append(other)
                enriched = []
            else:
                request: RowRequest = item.value  # type: ignore[union-attr]  # a message
                value = with_fields(request.text, text(request.keys), names)
                enriched.append(EnrichedRecord(item.record, value))  # type: ignore[union-attr]  # a message
        routed += self._forwarding.read(groups, enriched)
        return [_as_it_came(event) for event in self._forwarding.run(routed, identify, session, place)]

    def _refusal(self, looked_up: LookedUp, place: TopicPartition) -> Callable[[Message], Refused | None]:
        """A function that makes the dead letter of a message without a required row. It raises HandlerFailed if the
        message must wait."""
        if not looked_up.must_be_there:
            return lambda item: None
        failures = self._failures.setdefault(place, Failures())

        def refusal(item: Message) -> Refused | None:
            if (missing := looked_up.missing(item.value.keys)) is None:
                return None
            if missing.missing == "wait":
                self._waits.over(place, item, missing, failures)
            return Refused(item.record, "lookup", "lookup-missing", says(missing), looked_up=True)

        return refusal

    def counted(self, groups: Groups) -> None:
        groups.outcomes.update(self._counted.outcomes)
        for name, times in self._counted.counts.items():
            groups.counts[name] += times
        self._counted = Groups(self._with_rows)

    def step(self, place: TopicPartition, offset: int) -> int:
        known = self._failures.get(place)
        return known.step(offset) if known is not None and known.apart else 0

    def failing(self, place: TopicPartition, offset: int) -> int | None:
        known = self._failures.get(place)
        return None if known is None else known.next_apart(offset)

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        self._waits.committed(place, items)

    def forget(self, place: TopicPartition) -> None:
        self._failures.pop(place, None)
        self._waits.forget(place)


def _as_it_came(event: Event) -> Event:
    """The dead letter with the original record."""
    if isinstance(event, Refused) and isinstance(event.record, EnrichedRecord):
        return replace(event, record=event.record.original, looked_up=True)
    return event


def with_fields(value: bytes, members: bytes, names: Sequence[bytes]) -> bytes:
    """Append these members to a JSON object. They replace fields of the same names (as JSON writes them). A value that
    is not an object is returned unchanged."""
    inside = value if value[-1:] == b"}" else value.rstrip()
    if inside[-1:] != b"}":
        return value
    inside = inside[:-1]
    if _has_own(inside, names):
        kept = {own: member for own, member in _members(value).items() if encode(own) not in names}
        inside = encode(kept)[:-1]
    last = inside[-1:]
    if last.isspace():
        last = inside.rstrip()[-1:]
    return b"%b%b%b}" % (inside, b"" if last == b"{" else b",", members)


def _has_own(value: bytes, names: Sequence[bytes]) -> bool:
    """Whether the value may have fields of these names. An escape sequence may be part of a name."""
    return any(name in value for name in names) or b"\\u" in value
