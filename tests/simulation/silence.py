"""An agent whose windows close by silence, over records that have the time at which they were written.

So no record is ever late: its window is over only when the time has passed it, and a record of it that was written in
time is in the log before that. What a worker does not hear, because its connection swallows all bytes, is no silence.
"""

from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer, Window

KIND = "silence"
SIZE = 400  # ms


def agent(chance: Random) -> Agent:
    window = Window(SIZE / 1000, idle=chance.choice([0.1, 0.3, 0.6]), at_most=None, max_ahead=1e9)
    return Agent(
        "sums", ("in",), Aggregation(window=window, compute=(Reducer("total", "sum", "n"),)), Destination("out"), "dead"
    )
