"""Entries, and what a test asks of them."""

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from sluicegate.streams.contracts.leased_values import Entry, Gate
from sluicegate.streams.contracts.messages import OutboxMessage

HOUR = timedelta(hours=1)


def entry(number: int, **fields: Any) -> Entry:
    """The entry of this number; fields may be named."""
    standard = {"correlation_id": f"c{number}", "type": "json", "data": json.dumps({"n": number}).encode()}
    return Entry(f"m{number}", **{**standard, **fields})


def entries(*numbers: int, **fields: Any) -> list[Entry]:
    return [entry(number, **fields) for number in numbers]


def keys(results: Iterable[Entry]) -> list[str]:
    return [result.idempotency_key for result in results]


def all_keys(buffer: Any, name: str) -> list[str]:
    """Of every row, decodable or not."""
    return keys(buffer.iter_raw(name))


def message(topic: str, id: str = "") -> OutboxMessage:
    return OutboxMessage(topic, key=b"k", value=b"v", headers=[("h", b"x"), ("h", None)], id=id)


def sent(store: Any, topic: str) -> list[str]:
    """The ids of the messages of this topic in the outbox."""
    return sorted(stored.message.id for stored in store.outbox.find(topic=topic))


def of(count: int | None = None, **times: Any) -> Gate:
    return Gate(count, **times)


def at_once(call: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """What `call` returns for each, on as many threads."""
    waiting = list(arguments)
    with ThreadPoolExecutor(len(waiting)) as pool:
        return list(pool.map(call, waiting))


def numbers(results: Sequence[Entry]) -> list[int]:
    """Of decoded entries."""
    return [result.value["n"] for result in results]
