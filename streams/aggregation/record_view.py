"""A record with a replaced value and headers: the form in which the agent reads a producer's record."""

from sluicegate.streams.contracts.record import Headers, Record


class RecordView:
    """Delegates all other attributes to the record."""

    __slots__ = ("_headers", "_record", "_value")

    def __init__(self, record: Record, value: bytes | None, headers: Headers | None) -> None:
        self._record, self._value, self._headers = record, value, headers

    def topic(self) -> str:
        return self._record.topic()

    def partition(self) -> int:
        return self._record.partition()

    def offset(self) -> int:
        return self._record.offset()

    def key(self) -> bytes | None:
        return self._record.key()

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._record.timestamp()

    def leader_epoch(self) -> int | None:
        return self._record.leader_epoch()

    def error(self) -> object | None:
        return self._record.error()
