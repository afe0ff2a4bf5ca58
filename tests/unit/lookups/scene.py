"""What the tests of `lookup:` share: agents, rows, and what comes out."""

import json
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Lookup, Reducer
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header

CUSTOMER = Lookup("customer", "table", "customers", "customer_id", ("name", "tier"), "id")
TEAM = Lookup("team", "table", "teams", "key", ("site",), "id")
CUSTOMERS = {"c-1": {"name": "Ann", "tier": 1}, "c-2": {"name": "Bob", "tier": 2}, 7: {"name": "Eve", "tier": 3}}


def enriching(*lookups: Lookup, **more: Any) -> Agent:
    to = more.pop("to", Destination("out"))
    return Agent("enrich", ("in",), None, to, "dead", lookups=lookups or (CUSTOMER,), **more)


def summing(*lookups: Lookup, to: Destination | None = None, **more: Any) -> Agent:
    rule = {"count": 2, "compute": (Reducer("total", "sum", "amount"),)} | more.pop("rule", {})
    lookups = lookups or (TEAM,)
    routed = "routes" in more
    return Agent(
        "sums",
        ("in",),
        Aggregation(**rule),
        None if routed else to or Destination("out"),
        "dead",
        lookups=lookups,
        **more,
    )


def put(store: MemoryStore, table: str, rows: dict[Any, Any]) -> None:
    """Replace the rows of a table of the memory store."""
    with store.transaction() as session:
        session.values[table] = rows


def give(log: Log, *values: Any, key: bytes = b"k") -> None:
    for value in values:
        log.append("in", 0, key, value if isinstance(value, bytes) else json.dumps(value).encode())


def run(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock) -> Driver:
    return Driver(agent, store, log, clock).give(0).turns()


def out(log: Log, topic: str = "out") -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, topic)]


def letters(log: Log) -> list[tuple[str | None, ...]]:
    """Offset, stage and reason of each dead letter."""
    names = ("offset", "stage", "reason")
    return [tuple(header(message, f"sluicegate-dead-{name}") for name in names) for message in distinct(log, "dead")]
