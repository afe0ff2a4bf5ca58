"""An agent with early results."""

from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Reducer

KIND = "early"
EVERY = (0.3, 1.0, 3.0)  # seconds


def agent(chance: Random, first: float) -> Agent:
    emit = chance.choice([Emit(every=chance.choice(EVERY)), Emit(count=chance.randint(2, 4)), Emit(on="change")])
    compute = (Reducer("total", "sum", "n"),)
    rule = Aggregation(
        count=chance.choice([5, 9, None]), since_first=first + (emit.every or first), compute=compute, emit=emit
    )
    return Agent("sums", ("in",), rule, Destination("out"), "dead")
