"""What happens to a result: the fields that are sent to each topic, or a dead letter."""

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple

from tests.unit.oracle.groups import Result
from tests.unit.oracle.words import HAVING, SELECTED, NoAnswer, Row, asked

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Output(NamedTuple):
    """A message: on the dead-letter topic with the reason, and for a record with its offset."""

    topic: str
    key: str | None
    value: Any
    reason: str = ""
    offset: int = -1


def moment(milliseconds: int) -> str:
    at = EPOCH + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def document(result: Result) -> Row:
    """All fields but the times of the owner's clock."""
    made: Row = {"key": result.key, "count": len(result.records), "reason": result.reason}
    if result.window is not None:
        start, end, by, revision = result.window
        made["window"] = {"start": moment(start), "end": moment(end), "revision": revision}
        if by:
            made["window"]["closed_by"] = by
    return {**made, **result.values}


def outputs(agent: dict[str, Any], result: Result) -> list[Output]:
    """What is sent for a group that ended."""
    row = document(result)
    timed_out = agent["aggregate"].get("on_timeout", "fire") if result.reason == "timeout" else "fire"
    if timed_out == "discard":
        return []
    if timed_out == "dead-letter":
        return [Output("dead", result.key, encoded(row), "timeout")]
    if any(isinstance(value, float) and not isfinite(value) for value in result.values.values()):
        return [Output("dead", result.key, encoded(row), "overflow")]
    try:
        if "having" in agent and not HAVING[agent["having"]].answer(row):
            return []
        sent = routed(agent["to"], row, row)
    except NoAnswer:
        return [Output("dead", result.key, encoded(row), "expression-failed")]
    if not sent and agent["to"][-1] != "drop":
        return [Output("dead", result.key, encoded(row), "unrouted")]
    return [Output(topic, result.key, encoded(value)) for topic, value in sent]


def routed(to: Any, row: Row, whole: Any) -> list[tuple[str, Any]]:
    """The topics and values of the routes that take it. Raises NoAnswer."""
    sent: list[tuple[str, Any]] = []
    for route in to if isinstance(to, list) else [to]:
        if route == "drop" or ("where" in route and not asked(route["where"], row)):
            continue
        sent.append((route["topic"], selected(route["select"], row) if "select" in route else whole))
        if not route.get("continue"):
            break
    return sent


def selected(select: Any, row: Row) -> Row:
    """The chosen fields. A copy of what is missing is left out. Raises NoAnswer."""
    pairs = select.items() if isinstance(select, dict) else [(name, name) for name in select]
    made: Row = {}
    for name, written in pairs:
        if written in SELECTED:
            made[name] = SELECTED[written].answer(row)
            continue
        holder, _, last = written.rpartition(".")
        inside = row.get(holder) if holder else row
        if isinstance(inside, dict) and last in inside:
            made[name] = inside[last]
    return made


def encoded(value: Any) -> Any:
    """As JSON has it: there is no infinity."""
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {name: encoded(item) for name, item in value.items()}
    return [encoded(item) for item in value] if isinstance(value, list) else value
