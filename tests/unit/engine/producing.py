"""A producer that names its messages, and an agent that looks at the names."""

from typing import Any

import msgspec

from sluicegate.streams.agent import Agent, Deduplication
from tests.unit.engine.driver import Driver, Log
from tests.unit.engine.scene import an_agent

BY_HEADER = Deduplication("header", "message-id", horizon=3600.0)


def sums(dedupe: Deduplication | None = BY_HEADER, **wanted: Any) -> Agent:
    return an_agent(dedupe=dedupe, **wanted)


def write(
    log: Log,
    identity: str | bytes | None,
    amount: Any = 1,
    key: bytes = b"a",
    number: int = 0,
    value: bytes | None = None,
) -> None:
    """As a producer that names its messages."""
    name = identity.encode() if isinstance(identity, str) else identity
    body = msgspec.json.encode({"amount": amount}) if value is None else value
    log.append("in", number, key, body, [] if identity is None else [("message-id", name)])


def twice(log: Log, *identities: str, key: bytes = b"a") -> None:
    for name in identities:
        write(log, name, key=key)
        write(log, name, key=key)


def metrics(driver: Driver) -> dict[str, Any]:
    return {name: value for name, labels, value in driver.worker._parts.meter.snapshot() if not labels}
