"""The functions that the files of the pairs name. What a key tells in its name decides whether a call fails."""

from collections import Counter
from typing import Any

ALWAYS, THRICE, AWAY = "never", "fourth", "away"
"""In keys: each call fails, the first three calls fail, the first six have no connection."""
calls = Counter[str]()
"""How often the handler was called for each key since the begin of the play."""


def fail(key: object) -> None:
    """Raise if this call for the key is one that fails."""
    name = str(key)
    calls[name] += 1
    if ALWAYS in name or (THRICE in name and calls[name] < 4):
        raise ValueError(f"call {calls[name]} for {name}")
    if AWAY in name and calls[name] < 7:
        raise OSError(f"call {calls[name]} for {name}")


def enter(batch: Any, lookups: Any, send: Any) -> None:
    """Send the result on, with its row."""
    fail(batch.key)
    send({name: value for name, value in batch.value.items() if not name.endswith("_at")} | lookups)


def enter_in_session(batch: Any, lookups: Any, send: Any, session: Any) -> None:
    """Send as `enter` does, and write a row in the transaction of the store."""
    enter(batch, lookups, send)
    session.connection.exec_driver_sql("insert into entered values (?)", (str(batch.key),))


def take(message: Any, lookups: Any, send: Any) -> None:
    """Send the message on, with its row."""
    fail(message.key)
    value = message.value
    send({name: value.get(name) for name in ("id", "amount")} | lookups if isinstance(value, dict) else value)


def add(total: float, message: Any) -> float:
    """A reducer: the sum of the amounts."""
    return float((total or 0) + message["amount"])
