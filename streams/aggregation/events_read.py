"""Records that are CloudEvents: the agent reads each one as the JSON document of its event (docs/cloudevents.md)."""

from collections.abc import Sequence

from sluicegate.schemas import cloud_events
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.header_ids import framed
from sluicegate.streams.aggregation.record_view import RecordView
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record, headers


def as_read(groups: Groups, records: Sequence[Record]) -> Sequence[Record]:
    """The records as the agent reads them. A record that is no event is refused with its bytes unchanged, and is left
    out. Records that were given by this function may be given again. Raises Halt."""
    if groups.rule.header_ids:
        records = framed(records)
    topics = groups.rule.events
    if not topics or not records or records[0].topic() not in topics:
        return records
    kept: list[Record] = []
    for record in records:
        try:
            kept.append(_event(groups.rule, record))
        except Exception as error:
            refuse(groups, record, error)
    return kept


def one_as_read(rule: Rule, record: Record) -> Record:
    """Raises msgspec.DecodeError."""
    record = framed([record])[0] if rule.header_ids else record
    return _event(rule, record) if record.topic() in rule.events else record


def _event(rule: Rule, record: Record) -> Record:
    if record.error() is not None:
        return record
    pairs, value = headers(record), record.value()
    document = cloud_events.document(value, pairs, rule.codec.name)
    return record if document is value else RecordView(record, document, cloud_events.read_headers(pairs))
