"""An agent whose records give their group a deadline, and take it away."""

from random import Random

from sluicegate.streams.agent import Agent, Aggregation, DataDeadline, Destination, Reducer

KIND = "deadlines"
WAITS = (0.2, 1.0, 3.0, 8.0)  # seconds


def agent(chance: Random) -> Agent:
    deadline = DataDeadline(after="wait", since=chance.choice(["first", "last"]), unit="s", cancel="off")
    compute = (Reducer("total", "sum", "n"),)
    rule = Aggregation(count=chance.choice([9, None]), deadline=deadline, compute=compute)
    return Agent("sums", ("in",), rule, Destination("out"), "dead")


def fields(chance: Random) -> dict[str, object]:
    """Of a record: three of five give a deadline, and a few take it away."""
    wait = {"wait": chance.choice(WAITS)} if chance.random() < 0.6 else {}
    return {**wait, "off": chance.random() < 0.1}
