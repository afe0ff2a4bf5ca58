"""Schema ids that a producer puts into a header, as confluent-kafka's `header_schema_id_serializer` does.

The id moves to the front of the value, where the other producers have it, so the rest of the engine knows one form.
"""

from collections.abc import Sequence

from sluicegate.streams.contracts.record import Headers, Record, headers

HEADER = "__value_schema_id"
LENGTHS = {0: 5, 1: 17}
"""By the first byte: 0 is followed by an id of four bytes, 1 by a UUID. Protobuf's message index may follow."""


def framed(records: Sequence[Record]) -> Sequence[Record]:
    """The records; if one of them has an id in a header, all of another class, which has it in front of the value."""
    ids = [_id(record) for record in records]
    return [FramedRecord(*each) for each in zip(records, ids, strict=True)] if any(ids) else records


def _id(record: Record) -> bytes:
    """Empty without one. Of several headers the last one counts, as in Kafka's own clients."""
    found = next((value for name, value in reversed(headers(record)) if name == HEADER), None)
    return found if found and len(found) >= LENGTHS.get(found[0], len(found) + 1) else b""


class FramedRecord:
    """A record with its schema id in front of its value."""

    __slots__ = ("_id", "_record")

    def __init__(self, record: Record, id: bytes) -> None:
        self._record, self._id = record, id

    def topic(self) -> str:
        return self._record.topic()

    def partition(self) -> int:
        return self._record.partition()

    def offset(self) -> int:
        return self._record.offset()

    def key(self) -> bytes | None:
        return self._record.key()

    def value(self) -> bytes | None:
        value = self._record.value()
        return None if value is None else self._id + value

    def headers(self) -> Headers | None:
        found = self._record.headers()
        return [each for each in found if each[0] != HEADER] if self._id and found else found

    def timestamp(self) -> tuple[int, int]:
        return self._record.timestamp()

    def leader_epoch(self) -> int | None:
        return self._record.leader_epoch()

    def error(self) -> object | None:
        return self._record.error()
