"""What a handler is called with."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from structlog.typing import FilteringBoundLogger

from schemas import json
from streams.aggregation.events import Fire
from streams.record import Headers, Record, headers

OVERHEAD = 1024  # what our own headers and framing may add to a message

Send = tuple[str, bytes | None, bytes | None, Headers]
"""Topic, key (None: that of the message or batch), value, headers."""


class Outage(Exception):
    """Raise it where a system that the handler needs is away: the message is tried again until it is back, and no attempt counts.
    ConnectionError and TimeoutError mean the same."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One consumed message; `value` is decoded by the agent's format, or as the type of the handler's `value` says."""

    value: Any
    record: Record

    @property
    def topic(self) -> str:
        return self.record.topic()

    @property
    def partition(self) -> int:
        return self.record.partition()

    @property
    def offset(self) -> int:
        return self.record.offset()

    @property
    def key(self) -> bytes | None:
        return self.record.key()

    @property
    def headers(self) -> Headers:
        return headers(self.record)

    @property
    def timestamp(self) -> float:
        """Seconds since 1970 as the record says, 0 when it does not."""
        kind, milliseconds = self.record.timestamp()
        return milliseconds / 1000 if kind else 0.0


class Batch(msgspec.Struct, frozen=True):
    """A completed group: `value` is its result document (docs: interface, result document) as plain Python values."""

    fire: Fire
    value: dict[str, Any]

    @property
    def key(self) -> bytes:
        return self.fire.key

    @property
    def count(self) -> int:
        return self.fire.count

    @property
    def reason(self) -> str:
        """count, timeout, until, limit or manual."""
        return self.fire.reason

    @property
    def headers(self) -> Headers:
        """None: the headers of its messages are not kept, except the first `traceparent`."""
        return [] if self.fire.trace is None else [("traceparent", self.fire.trace.encode("ascii", "replace"))]


class Outputs(NamedTuple):
    """Where a handler's outputs go: `to` is the agent's own topic, `encode` its format; `most` bytes fit into a message."""

    to: str | None
    encode: Callable[[Any], bytes]
    most: int


class Context:
    """One call. `id` is the same for the same message or batch whatever crashes: the key for effects outside the store.

    `attempt` counts from 1 (in this process). `session` is the store's transaction (None without `session: true`): see
    connectors.sessions. `log` is bound to the agent and to where the message or batch stands.
    """

    __slots__ = ("_log", "_outputs", "attempt", "id", "sent", "session")

    def __init__(
        self, identity: str, attempt: int, session: Any, outputs: Outputs, log: Callable[[], FilteringBoundLogger]
    ) -> None:
        self.id, self.attempt, self.session, self._outputs, self._log = identity, attempt, session, outputs, log
        self.sent: list[Send] = []

    @property
    def log(self) -> FilteringBoundLogger:
        return self._log()

    def send(
        self, value: Any, topic: str | None = None, key: bytes | str | None = None, headers: Iterable[tuple[str, bytes | str | None]] = ()
    ) -> None:
        """Send with the commit: nothing leaves before it is durable, nothing stays behind. `topic` None is the agent's `to`; `key` None
        the key of the message or batch; None and bytes go as they are, anything else in the format of `to` (other topics: JSON).

        Raises ValueError without a topic and for what is too large for a message, TypeError for what cannot be encoded."""
        to, encode, most = self._outputs
        if topic is None and to is None:
            raise ValueError("send() names no topic, and the agent has no `to`")
        if value is not None and not isinstance(value, bytes):
            value = encode(value) if topic in (None, to) else json.encode(value)
        packed = [(name, text.encode() if isinstance(text, str) else text) for name, text in headers]
        size = len(value or b"") + len(key or b"") + sum(len(name) + len(text or b"") for name, text in packed)
        if size + OVERHEAD > most:
            raise ValueError(f"send() of {size} bytes: a message may have {most - OVERHEAD}")
        self.sent.append((topic or to or "", key.encode() if isinstance(key, str) else key, value, packed))


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """A result document without what only its encoder understands."""
    return json.decode_any(json.encode(document))  # type: ignore[no-any-return]
