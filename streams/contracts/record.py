"""A consumed message as aggregation and engine read it."""

from dataclasses import dataclass
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


def headers(record: Record) -> Headers:
    """The headers. Empty if their names are not text: confluent_kafka cannot read such headers at all."""
    try:
        return record.headers() or []
    except (SystemError, UnicodeDecodeError):
        return []


class RecordContent:
    """A record that keeps its key, value and headers. Its kinds satisfy Record."""

    __slots__ = ()
    k: bytes | None
    v: bytes | None
    h: Headers | None

    def key(self) -> bytes | None:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> Headers | None:
        return self.h

    def error(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class KeptRecord(RecordContent):
    """A record from stored data, or a reconstructed one."""

    place: tuple[str, int, int]
    k: bytes | None
    v: bytes | None
    h: Headers
    at: tuple[int, int]

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.place[2]

    def timestamp(self) -> tuple[int, int]:
        return self.at

    def leader_epoch(self) -> None:
        return None
