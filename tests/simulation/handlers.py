"""What the agents of a simulation call. Whether a call fails is said by the message; how often it failed outlives
processes."""

from collections import Counter
from typing import Any

from sluicegate.streams.handlers.values import Batch, Message
from sluicegate.streams.testing.deaths import Death

DEADLY = -1  # the `at` of a message whose group ends the process
calls: Counter[int] = Counter()
"""By the `at` of the message."""


def reset() -> None:
    calls.clear()


def _fails(value: Any) -> None:
    at = value.get("at", -1)
    calls[at] += 1
    if calls[at] <= value.get("fail", 0):
        raise RuntimeError("as the message says")


def result(value: Any) -> dict[str, Any]:
    return {"doubled": value["n"] * 2, "at": value.get("at")}


def work(value: Any, send: Any) -> None:
    send(result(value))
    _fails(value)


def book(message: Message, session: Any, send: Any) -> None:
    """The books list every message, in order."""
    value, key = message.value, repr(message.raw_key)
    session.values[key] = [*session.values.get(key, []), value["at"]]
    send(result(value))
    _fails(value)


def total(batch: Batch, send: Any) -> None:
    send(
        {
            "sum": batch.value["total"],
            "count": batch.count,
            "reason": batch.reason,
            "opened_at": batch.value["opened_at"],
        }
    )


def deadly(batch: Batch, send: Any) -> None:
    """Ends the process for one group."""
    calls[DEADLY] += DEADLY in batch.value["all"]
    if DEADLY in batch.value["all"]:
        raise Death("the handler of a group")
    send(batch.value)


def alive(so_far: Any, message: Any) -> Any:
    """Ends the process where the message says so."""
    if isinstance(message, dict) and message.get("poison"):
        raise Death("poison")
    return (so_far or 0) + 1
