"""An agent that correlates two legs by the times of their records, and the agents of its legs, which read one topic."""

import json
from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Correlation, Destination, Reducer, Window
from sluicegate.streams.windowers import CORRELATION

KIND = "legs"
LEGS = ("order", "payment")
COMPLETE = "has(group.order) && has(group.payment)"
EVER = 1e9  # seconds that the key of an ended group is remembered
IDLE = 12.0  # seconds
PER_STEP = 200  # ms of event time
BEHIND = (0, 300, 2_000)  # ms that a record may be out of order


def agents(chance: Random) -> tuple[Agent, ...]:
    after, since = chance.choice([1.0, 3.0, 8.0]), chance.choice(("first", "last"))
    times = Window(after, time="t", unit="ms", idle=IDLE, max_ahead=1e9, kind=CORRELATION)
    legs = tuple(
        Agent(
            leg,
            ("in",),
            Aggregation(key="k"),
            Destination("mid", "raw"),
            "dead",
            rekeys="sums",
            leg=leg,
            times=times,
            where=f'leg == "{leg}"',
        )
        for leg in LEGS
    )
    rule = Aggregation(
        until=COMPLETE,
        compute=(Reducer("order", "first", "order"), Reducer("payment", "last", "payment")),
        on_missing="ignore",
        window=Window(after, idle=None, kind=CORRELATION, origins=tuple(f"{leg}/in" for leg in LEGS)),
        correlation=Correlation(EVER, since=since),
    )
    return *legs, Agent("sums", ("mid",), rule, Destination("out"), "dead", receive=("mid",))


def leg(chance: Random, number: int, step: int) -> bytes:
    """A record of one leg. The records of a key are near each other in time."""
    results = {
        "leg": chance.choice(("order", "order", "payment")),
        "k": f"key-{step // 3 + chance.randrange(6)}",
        "n": number,
        "t": 20_000 + PER_STEP * step - chance.randint(0, chance.choice(BEHIND)),
    }
    return json.dumps(results, separators=(",", ":")).encode()
