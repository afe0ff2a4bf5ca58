"""Values and stores to test the leased contracts on Redis with."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.leased_values import Entry, Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.options import LeasedOptions


def made(url: str, options: LeasedOptions | None = None) -> Any:
    store = open_store(url, options=options)
    store.migrate()
    return store


def entries(count: int, group: str = "g", begin: int = 0) -> list[Entry]:
    return [Entry(f"key-{number}", f"c-{number}", "t", b"data", group=group) for number in range(begin, begin + count)]


def timeouts(count: int, ago: float = 1.0) -> list[Timeout]:
    due = datetime.now(UTC) - timedelta(seconds=ago)
    return [Timeout(uuid4(), "topic", due + timedelta(microseconds=number), b"k", b"v") for number in range(count)]


def messages(count: int, key: bytes | None = b"k") -> list[OutboxMessage]:
    return [OutboxMessage("topic", key, b"%d" % number, id=f"m-{number}") for number in range(count)]


def dump(client: Any) -> dict[bytes, bytes]:
    """Everything that is stored."""
    return {key: client.dump(key) for key in client.keys("*")}
