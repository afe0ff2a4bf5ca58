"""An agent with `where`, `having` and two routes, and the same in plain Python for the judge.

Groups that time out always pass `having` and the last route: the judge takes from an output when its group timed out.
"""

from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, Destination

WHERE = "n % 3 != 0"
HAVING = 'total > 60 || reason == "timeout"'
ROUTES = (
    Destination("mid", where="total % 2 == 0", goes_on=True),
    Destination("out", where='total > 120 || reason == "timeout"'),
)


def agent(rule: Aggregation) -> Agent:
    return Agent("sums", ("in",), rule, None, "dead", where=WHERE, having=HAVING, routes=ROUTES, unrouted="drop")


def where(of: Agent) -> Any:
    """For the oracle. Raises LookupError where the expression has no answer."""
    return (lambda document: document["n"] % 3 != 0) if of.where else None


def topics(of: Agent, document: dict[str, Any]) -> list[str]:
    """Where this result goes, in order."""
    if not of.routes:
        return [of.to.topic if of.to else ""]
    total, timed_out = document["total"], document["reason"] == "timeout"
    if total <= 60 and not timed_out:
        return []
    return ["mid"] * (total % 2 == 0) + ["out"] * (total > 120 or timed_out)
