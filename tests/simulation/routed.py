"""An agent with `where`, `having` and two routes, one that forwards, and both in plain Python for the judge.

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


FORWARDED = (Destination("mid", where="n % 2 == 0", goes_on=True), Destination("out", where="n > 40"))


def forwarder() -> Agent:
    return Agent("sums", ("in",), None, None, "dead", where=WHERE, routes=FORWARDED)


def forwarded(document: Any) -> list[str] | str:
    """Where this record goes, in order, or why it is a dead letter."""
    if not isinstance(document, dict):
        return "undecodable"
    if "n" not in document:
        return "expression-failed"
    if document["n"] % 3 == 0:
        return []
    return ["mid"] * (document["n"] % 2 == 0) + ["out"] * (document["n"] > 40) or "unrouted"


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
