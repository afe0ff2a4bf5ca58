"""The functions that the files of the pairs name. They are called by replays of the pairs only."""

from typing import Any


def enter(batch: Any, send: Any) -> None:
    """Send how many messages the group has."""
    send({"count": batch.count})


def enter_in_session(batch: Any, send: Any, session: Any) -> None:
    """Send as `enter` does, in the transaction of the store."""
    send({"count": batch.count})


def take(message: Any, send: Any) -> None:
    """Send the message on."""
    send({"id": message.value["id"]})


def add(total: float, message: Any) -> float:
    """A reducer: the sum of the amounts."""
    return float((total or 0) + message["amount"])
