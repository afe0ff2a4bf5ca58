"""What a user brings: a codec, and reducers."""

import json
from typing import Any


class _Backwards:
    """JSON written from right to left."""

    def decode(self, value: bytes) -> Any:
        return json.loads(value[::-1])

    def encode(self, document: Any) -> bytes:
        return json.dumps(document).encode()[::-1]


backwards = _Backwards()


def widest(total: Any, message: Any) -> Any:
    """The shortest and the longest text seen so far."""
    low, high = total or [99, 0]
    length = len(str(message.get("s"))) if isinstance(message, dict) else 0
    return [min(low, length), max(high, length)]


def texts(total: Any, message: Any) -> Any:
    return [*(total or []), str(message.get("s"))[:3]]


def refuses_odd(total: Any, message: Any) -> Any:
    if message["n"] % 2:
        raise ValueError("odd")
    return (total or 0) + message["n"]


called: list[int] = []


def appends_and_refuses_odd(total: Any, message: Any) -> Any:
    """Changes the accumulator that it got, also before it raises."""
    called.append(message["n"])
    total = [] if total is None else total
    total.append(message["n"])
    if message["n"] % 2:
        raise ValueError("odd")
    return total


def grows(total: Any, message: Any) -> Any:
    return (total or "") + "x" * message["n"]
