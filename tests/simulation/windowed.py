"""An agent with windows in event time, and the times of its records.

Neither silence nor `at_most` closes a window here, and late records wait for the end of their window. So the results
and the late records follow from the log alone.
"""

import json
from dataclasses import replace
from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer, Window

KIND = "windows"
SIZES = {"tumbling": 5_000, "session": 1_000, "hopping": 6_000}  # ms
EVERY = 2_000  # ms; of hopping windows
PER_STEP = 200  # ms of event time
KEEP, GATHER = (1.0, 5.0), 1e9  # s
BEHIND = (0, 300, 2_000, 9_000)  # ms that a record may be out of order


def agent(chance: Random) -> Agent:
    grace, kind = chance.choice([0.0, 1.0, 4.0]), chance.choice(list(SIZES))
    every = EVERY / 1000 if kind == "hopping" else 0.0
    window = Window(SIZES[kind] / 1000, 0.0, "t", "ms", grace, idle=None, max_ahead=1e9, kind=kind, every=every)
    if kind == "tumbling" and chance.random() < 0.5:
        window = replace(window, late="amend", keep=chance.choice(KEEP), gather=GATHER)
    rule = Aggregation(window=window, compute=(Reducer("total", "sum", "n"),))
    return Agent("sums", ("in",), rule, Destination("out"), "dead")


def timed(value: bytes | None, step: int, chance: Random) -> bytes:
    """The value of a record that is written at this step, with its time."""
    time = 20_000 + PER_STEP * step - chance.randint(0, chance.choice(BEHIND))
    return json.dumps(json.loads(value or b"{}") | {"t": time}).encode()
