"""Apps to drive."""

from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Reducer

TOTAL = (Reducer("total", "sum", "amount"),)


def sums(name: str = "sums", topics: tuple[str, ...] = ("in",), to: str = "out", **wanted: Any) -> Agent:
    about = {key: wanted.pop(key) for key in ("receive", "start", "format") if key in wanted}
    rule = {"count": 3, "since_first": 30.0, "compute": TOTAL} | wanted
    return Agent(name, topics, Aggregation(**rule), Destination(to), "dead", **about)


def an_app(*agents: Agent) -> App:
    return App("app", "memory://", agents or (sums(),))


def a_chain() -> App:
    """Sums of three, and the sum of two such sums."""
    pairs = sums(
        "pairs",
        ("out",),
        "pairs",
        count=2,
        since_first=60.0,
        compute=(Reducer("total", "sum", "total"),),
        receive=("out",),
    )
    return an_app(sums(), pairs)


def enter(value: Any, session: Any) -> None:
    """A handler with a table of its own."""
    session.connection.exec_driver_sql("insert into book values (?)", (value["amount"],))
