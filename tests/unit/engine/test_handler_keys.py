"""A handler sees the key as text, and as bytes where it is not text; what it sends goes out under the same bytes."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler
from tests.unit.engine.driver import Driver, Log, ManualClock

seen: list[Any] = []


def note(message: Any, key: Any, raw_key: Any, send: Any) -> None:
    seen.append((message.key, message.raw_key, key, raw_key))
    send({"n": 1}, key=message.key)
    send({"n": 2})


def summed(batch: Any, send: Any) -> None:
    seen.append((batch.key, batch.raw_key, batch.key, batch.raw_key))
    send({"n": 1}, key=batch.key)
    send({"n": 2})


KEYS: list[tuple[bytes | None, Any]] = [("bób".encode(), "bób"), (b"", ""), (b"\xff\xfe", b"\xff\xfe")]


@pytest.mark.parametrize(
    ("function", "raw", "key"),
    [("note", None, None), *((function, *key) for function in ("note", "summed") for key in KEYS)],
)
def test_a_key_is_text_or_else_the_bytes(
    log: Log, store: MemoryStore, clock: ManualClock, function: str, raw: bytes | None, key: str | bytes | None
) -> None:
    seen.clear()
    log.append("in", 0, raw, b'{"n": 1}')
    aggregation = Aggregation(count=1) if function == "summed" else None
    handler = Handler((f"tests.unit.engine.test_handler_keys:{function}",))
    Driver(Agent("a", ("in",), aggregation, Destination("out"), "dead", handler=handler), store, log, clock).give(
        0
    ).turns()
    assert seen == [(key, raw, key, raw)]
    assert [message.k for message in log.topics["out"][0]] == [raw, raw]
