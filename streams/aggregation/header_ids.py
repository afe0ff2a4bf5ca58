"""Schema ids that a producer puts into a header, as confluent-kafka's `header_schema_id_serializer` does.

The id moves to the front of the value, where the other producers have it, so the rest of the engine knows one form.
"""

from collections.abc import Sequence

from sluicegate.streams.aggregation.record_view import RecordView
from sluicegate.streams.contracts.record import Record, headers

HEADER = "__value_schema_id"
LENGTHS = {0: 5, 1: 17}
"""By the first byte: 0 is followed by an id of four bytes, 1 by a UUID. Protobuf's message index may follow."""


def framed(records: Sequence[Record]) -> Sequence[Record]:
    """The records; if one of them has an id in a header, all of another class, which has it in front of the value."""
    ids = [_id(record) for record in records]
    return [_framed(*each) for each in zip(records, ids, strict=True)] if any(ids) else records


def _id(record: Record) -> bytes:
    """Empty without one. Of several headers the last one counts, as in Kafka's own clients."""
    content = next((value for name, value in reversed(headers(record)) if name == HEADER), None)
    return content if content and len(content) >= LENGTHS.get(content[0], len(content) + 1) else b""


def _framed(record: Record, id: bytes) -> Record:
    value = record.value()
    others = [header for header in headers(record) if header[0] != HEADER] if id else record.headers()
    return RecordView(record, None if value is None else id + value, others)
