"""What a handler is called with."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, overload
from uuid import UUID

import msgspec
from structlog.typing import FilteringBoundLogger

from sluicegate.schemas import json
from sluicegate.streams.aggregation.events import Cancelled, Fire, Scheduled
from sluicegate.streams.contracts.ids import named_timeout_id, timeout_id
from sluicegate.streams.contracts.record import Headers, Record, headers

OVERHEAD = 1024  # what our own headers and framing may add to a message
LAST_TIME = 253_000_000_000.0  # seconds since 1970: in the year 9987
FARTHEST = 100 * 366 * 24 * 3600.0  # seconds: a hundred years

SentMessage = tuple[str, bytes | None, bytes | None, Headers]
"""Topic, key (None: that of the message or batch), value, headers."""


IsCancelled = Callable[[], bool]


def never() -> bool:
    """Of what cannot be cancelled."""
    return False


class Outage(Exception):
    """Raise it where a system that the handler needs is away: the message is tried again until it is back, and no
    attempt counts. ConnectionError and TimeoutError mean the same."""


class BadItems(Exception):
    """Raise it for a completed group (or in a function of `together`) some of whose messages (rows) cannot be used:
    `reasons` says why, by their index in the list. They become dead letters, and the function is called again at once
    without them. A group must keep its messages: `compute: {NAME: collect}`, of which the index is meant."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} bad items")
        self.reasons = {index: str(why) for index, why in reasons.items()}


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
    def key(self) -> str | bytes | None:
        """As text; a key that is not UTF-8 as it is. None when the record has none."""
        return text_or_bytes(self.record.key())

    @property
    def raw_key(self) -> bytes | None:
        """The bytes of the key, whatever they are."""
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
    def key(self) -> str | bytes:
        """As Message.key; what is no text as a field is canonical JSON."""
        return text_or_bytes(self.fire.key)

    @property
    def raw_key(self) -> bytes:
        """The bytes of the key, whatever they are."""
        return self.fire.key

    @property
    def count(self) -> int:
        return self.fire.count

    @property
    def reason(self) -> str:
        """count, timeout, until, limit, manual or count-lowered."""
        return self.fire.reason

    @property
    def headers(self) -> Headers:
        """None: the headers of its messages are not kept, except the first `traceparent`."""
        return [] if self.fire.trace is None else [("traceparent", self.fire.trace.encode("ascii", "replace"))]


class TimeoutReturn(NamedTuple):
    """Where a handler's timeouts go unless it says otherwise: to the first input topic of its own agent, in that one's
    format."""

    app: str
    agent: str
    topic: str
    encode: Callable[[Any], bytes]


class OutputTarget(NamedTuple):
    """Where a handler's outputs go: `to` is the agent's own topic, `encode` its format; `most` bytes fit into a
    message."""

    to: str | None
    encode: Callable[[Any], bytes]
    most: int
    back: TimeoutReturn


class CommitCalls(NamedTuple):
    """What the calls for one commit share. The three functions are asked about a message or a completed group.
    `gathered` are the rows of `together` and whose they are, by the function that they are for."""

    session: Any
    outputs: OutputTarget
    identify: Callable[[Any], str]
    attempt: Callable[[Any], int]
    log: Callable[[Any], FilteringBoundLogger]
    gathered: dict[Callable[[list[Any], Any], object], tuple[list[Any], list[Any]]]
    cancelled: IsCancelled = never


class Context:
    """One call. `id` is the same for the same message or batch whatever crashes: the key for effects outside the store.

    `attempt` counts from 1 (in this process). `session` is the store's transaction (None without `session: true`): see
    sluicegate.connectors.sessions. `log` is bound to the agent and to where the message or batch stands.
    """

    __slots__ = ("_calls", "_item", "sent", "timers")

    def __init__(self, item: Any, calls: CommitCalls) -> None:
        self._item, self._calls = item, calls
        self.sent: list[SentMessage] = []
        self.timers: Sequence[Scheduled | Cancelled] = ()

    @property
    def id(self) -> str:
        return self._calls.identify(self._item)  # 1 µs, so only for who asks

    @property
    def attempt(self) -> int:
        return self._calls.attempt(self._item)

    @property
    def session(self) -> Any:
        return self._calls.session

    @property
    def cancelled(self) -> bool:
        """Another worker has the partition now: what this call comes to is void, it may end at once. Only where
        `concurrency` > 0."""
        return self._calls.cancelled()

    @property
    def log(self) -> FilteringBoundLogger:
        return self._calls.log(self._item)

    def together(self, function: Callable[[list[Any], Any], object], row: Any) -> None:
        """Have `function(rows, session)` called once before the commit, with the rows of all its messages in their
        order: many rows are written in the time of a few. What it raises is nobody's error: the messages are tried
        again in halves.

        Raises ValueError without a session, and for completed groups."""
        if self.session is None or isinstance(self._item, Fire):
            raise ValueError("together() is for handlers of messages with session: true")
        rows, owners = self._calls.gathered.setdefault(function, ([], []))
        rows.append(row)
        owners.append(self._item)

    def send(
        self,
        value: Any,
        topic: str | None = None,
        key: bytes | str | None = None,
        headers: Iterable[tuple[str, bytes | str | None]] = (),
    ) -> None:
        """Send with the commit: nothing leaves before it is durable, nothing stays behind. `topic` None is the agent's
        `to`; `key` None the key of the message or batch; None and bytes go as they are, anything else in the format of
        `to` (other topics: JSON).

        Raises ValueError without a topic and for what is too large for a message, TypeError for what cannot be
        encoded."""
        to, encode, most, _ = self._calls.outputs
        if topic is None and to is None:
            raise ValueError("send() names no topic, and the agent has no `to`")
        encode = encode if topic in (None, to) else json.encode
        self.sent.append((topic or to or "", *_encoded("send", topic, value, key, headers, encode, most)))

    def schedule(
        self,
        value: Any,
        *,
        after: float | timedelta | None = None,
        at: datetime | None = None,
        topic: str | None = None,
        key: bytes | str | None = None,
        name: str | None = None,
        headers: Iterable[tuple[str, bytes | str | None]] = (),
    ) -> UUID:
        """Send later, `after` seconds from the commit on or `at` a time: it is scheduled with the commit, and comes
        with the header `sluicegate-timeout-id`. `topic` None: the agent's first input topic, in its format, so the
        agent gets it as a message; `key` as in `send`. Of a `name` there is one at a time in the app: while it waits,
        another of that name changes nothing.

        Returns its id, for `cancel`. Raises ValueError for no time or two of them, a time without zone, and what is too
        large."""
        back, most = self._calls.outputs.back, self._calls.outputs.most
        delay = after.total_seconds() if isinstance(after, timedelta) else after
        if (delay is None) == (at is None) or (delay is not None and not 0 <= delay < FARTHEST):
            raise ValueError("schedule() needs `after`, a time from 0 on, or `at`, and not both")
        if at is not None and (
            not isinstance(at, datetime) or at.tzinfo is None or not 0 <= at.timestamp() < LAST_TIME
        ):
            raise ValueError("schedule(): `at` is a datetime with a time zone, from 1970 on")
        encode = back.encode if topic in (None, back.topic) else json.encode
        given, value, packed = _encoded("schedule", topic, value, key, headers, encode, most)
        chosen = raw_key(self._item) if given is None else given
        identity = timeout_id(self.id, len(self.timers)) if name is None else named_timeout_id(back.app, name)
        made = Scheduled(
            identity, topic or back.topic, at, delay or 0.0, chosen, value, packed, f"{back.app}/{back.agent}"
        )
        self.timers = (*self.timers, made)
        return identity

    def cancel(self, timeout: UUID | str) -> None:
        """With the commit: the timeout of this id, or of this name, is not sent, unless it is due and under way
        already."""
        identity = timeout if isinstance(timeout, UUID) else named_timeout_id(self._calls.outputs.back.app, timeout)
        self.timers = (*self.timers, Cancelled(identity))


def _encoded(
    call: str,
    topic: Any,
    value: Any,
    key: bytes | str | None,
    headers: Iterable[tuple[str, bytes | str | None]],
    encode: Callable[[Any], bytes],
    most: int,
) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers. Raises ValueError for a bad topic, and when they are too large for a message."""
    if topic is not None and not (isinstance(topic, str) and re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic)):
        raise ValueError(f"{call}(): the topic is none that Kafka takes: 1 to 249 of A-Z a-z 0-9 . _ -")
    if value is not None and not isinstance(value, bytes):
        value = encode(value)
    size, packed = len(value or b"") + len(key or b""), []
    for name, text in headers:
        packed.append((name, text.encode() if isinstance(text, str) else text))
        size += len(name) + len(text or b"")
    if size + OVERHEAD > most:
        raise ValueError(f"{call}() of {size} bytes: a message may have {most - OVERHEAD}")
    return key.encode() if isinstance(key, str) else key, value, packed


def raw_key(item: Message | Fire) -> bytes | None:
    """The bytes of the key of a message or a completed group."""
    return item.key if isinstance(item, Fire) else item.raw_key


@overload
def text_or_bytes(key: bytes) -> str | bytes: ...
@overload
def text_or_bytes(key: None) -> None: ...
def text_or_bytes(key: bytes | None) -> str | bytes | None:
    """A key as handlers see it: values of JSON where that is possible."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return key


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """A result document without what only its encoder understands."""
    return json.decode_any(json.encode(document))  # type: ignore[no-any-return]
