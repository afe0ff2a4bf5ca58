"""Converts records to the form in which the agent reads them.

A CloudEvent becomes the JSON document of its event (docs/cloudevents.md). A change event becomes its envelope
(docs/change-events.md). A schema id in a header, as confluent-kafka's `header_schema_id_serializer` writes it, moves to
the front of the value, where other producers write it. The rest of the engine knows only this form.
"""

from collections.abc import Sequence

from sluicegate.schemas import cloud_events
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.reader import RecordReader
from sluicegate.streams.aggregation.record_view import RecordView
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record, headers

HEADER = "__value_schema_id"
LENGTHS = {0: 5, 1: 17}
"""Length of a schema id by its first byte: 0 precedes an id of four bytes, 1 a UUID. Protobuf's message index may
follow."""


def as_read(groups: Groups, records: Sequence[Record]) -> Sequence[Record]:
    """Convert the records. An invalid event is refused with its bytes unchanged, and left out. The conversion is
    idempotent. Raises Halt."""
    if groups.rule.reader.header_ids:
        records = framed(records)
    topics, changes = groups.rule.reader.events, groups.rule.reader.changes
    if changes and records and records[0].topic() in changes:
        return _changes(groups, records)
    if not topics or not records or records[0].topic() not in topics:
        return records
    kept: list[Record] = []
    for record in records:
        try:
            kept.append(_event(groups.rule, record))
        except Exception as error:
            refuse(groups, record, error)
    return kept


def _changes(groups: Groups, records: Sequence[Record]) -> Sequence[Record]:
    """Convert change events. A tombstone is kept only where rows are stored: there it deletes a row. Elsewhere it
    repeats a change that came before it, and is skipped."""
    reader, kept = groups.rule.reader, list[Record]()
    for record in records:
        if record.value() is None and record.error() is None and not groups.rule.agent.keeps_rows:
            groups.skip(record)
            continue
        try:
            kept.append(_change(reader, record))
        except Exception as error:
            refuse(groups, record, error)
    return kept


def _change(reader: RecordReader, record: Record) -> Record:
    """Convert a change event to its envelope. Raises msgspec.DecodeError, and the errors of decoders."""
    value = record.value()
    if record.error() is not None or value is None or isinstance(record, ChangeView):
        return record
    envelope = reader.envelope(value)
    return record if envelope is value else ChangeView(record, envelope, record.headers())


class ChangeView(RecordView):
    """A change event reduced to its envelope."""

    __slots__ = ()


def one_as_read(rule: Rule, record: Record) -> Record:
    """Convert one record. Raises msgspec.DecodeError."""
    record = framed([record])[0] if rule.reader.header_ids else record
    if rule.reader.changes and record.topic() in rule.reader.changes:
        return _change(rule.reader, record)
    return _event(rule, record) if record.topic() in rule.reader.events else record


def _event(rule: Rule, record: Record) -> Record:
    if record.error() is not None:
        return record
    pairs, value = headers(record), record.value()
    document = cloud_events.document(value, pairs, rule.reader.codec.name)
    return record if document is value else RecordView(record, document, cloud_events.read_headers(pairs))


def framed(records: Sequence[Record]) -> Sequence[Record]:
    """Move schema ids from headers to the front of the values. If no record has one, the same records are returned;
    otherwise all records are of class RecordView."""
    ids = [_id(record) for record in records]
    return [_framed(*pair) for pair in zip(records, ids, strict=True)] if any(ids) else records


def _id(record: Record) -> bytes:
    """The schema id in the headers, empty for none. Of several headers the last one counts, as in Kafka's own
    clients."""
    content = next((value for name, value in reversed(headers(record)) if name == HEADER), None)
    return content if content and len(content) >= LENGTHS.get(content[0], len(content) + 1) else b""


def _framed(record: Record, id: bytes) -> Record:
    value = record.value()
    others = [header for header in headers(record) if header[0] != HEADER] if id else record.headers()
    return RecordView(record, None if value is None else id + value, others)
