"""An agent that correlates two legs, and their records, as the agents of the legs write them."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, Correlation, Destination, Reducer

KIND = "correlated"
COMPLETE = "has(group.order) && has(group.payment)"
LEGS = (Reducer("order", "first", "order"), Reducer("payment", "last", "payment"))
KEYS = 110
EVER = 1e9  # seconds that the key of an ended group is remembered


def agent(first: float) -> Agent:
    rule = Aggregation(
        until=COMPLETE, since_first=first, compute=LEGS, on_missing="ignore", correlation=Correlation(EVER)
    )
    return Agent("sums", ("in",), rule, Destination("out"), "dead")


def complete(document: Any, group: Mapping[str, Any]) -> bool:
    """What COMPLETE means."""
    return "order" in group and "payment" in group


def leg(chance: Random, number: int) -> tuple[bytes, bytes]:
    """A key, and a record of one leg. A few legs are null."""
    name = chance.choice(("order", "order", "payment"))
    return b"key-%d" % chance.randrange(KEYS), json.dumps({name: number if number % 17 else None}).encode()
