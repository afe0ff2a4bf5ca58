"""A consumed message as aggregation and engine read it."""

from typing import Protocol

Header = tuple[str, bytes | None]
Headers = list[Header]


class Record(Protocol):
    """The methods of confluent_kafka.Message that the product reads, and no others."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def leader_epoch(self) -> int | None: ...
    def error(self) -> object | None: ...


def passed_on(record: Record) -> Headers:
    """The headers that go on with the record. Those of Sluicegate tell what the record itself was: an output of another
    agent, a dead letter, a record that was retried for one agent. The row of the new output has its own."""
    return [(name, value) for name, value in headers(record) if not name.startswith("sluicegate-")]


def headers(record: Record) -> Headers:
    """The headers; none when their names are no text: confluent_kafka cannot read such a record's headers at all."""
    try:
        return record.headers() or []
    except (SystemError, UnicodeDecodeError):
        return []
