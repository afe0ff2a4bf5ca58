"""The values that a handler receives, and the errors that it may raise."""

import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, overload
from uuid import UUID

import msgspec
from structlog.typing import FilteringBoundLogger

from sluicegate.schemas import json
from sluicegate.streams.aggregation.events import Cancelled, Fire, Scheduled
from sluicegate.streams.contracts.headers import OWN
from sluicegate.streams.contracts.ids import named_timeout_id, timeout_id
from sluicegate.streams.contracts.record import Headers, Record, headers
from sluicegate.streams.handlers.sending import HandlerOutputs, NotSent

OVERHEAD = 1024  # bytes that our own headers and the framing may add to a message
LAST_TIME = 253_000_000_000.0  # seconds since 1970: in the year 9987
TOPIC = r"[A-Za-z0-9._-]{1,249}(@[A-Za-z0-9._-]{1,64})?"
NEEDS_SESSION = "`together` needs session: true"
NOT_OF_GROUPS = (
    "`together` collects rows of messages, not of groups; write the groups to a topic, and insert its messages in "
    "another agent"
)
FARTHEST = 100 * 366 * 24 * 3600.0  # seconds: a hundred years

SentMessage = tuple[int, str, bytes | None, bytes | None, Headers]
"""Index in `Agent.outputs` (-1: another topic), topic, key (None: the key of the message or batch), value, headers."""


HeadersToSend = Iterable[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]
"""Pairs, or a mapping where each name comes once."""


IsCancelled = Callable[[], bool]


def never() -> bool:
    """The cancellation check for calls that cannot be cancelled."""
    return False


class Outage(Exception):
    """Raise it when a system that the handler needs is away. The message is tried again until the system is back, and
    no attempt counts. ConnectionError and TimeoutError mean the same."""


class BadItems(Exception):
    """Raise it when some messages of a completed group, or some rows of a `together` function, cannot be used.
    `reasons` gives the reason by index in the list. These messages become dead letters, and the function is called
    again at once without them. A group must keep its messages with `compute: {NAME: collect}`; the index is the one in
    that list."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(f"{len(reasons)} bad items")
        self.reasons = {index: str(why) for index, why in reasons.items()}


class Misfits(BadItems):
    """These messages of a completed group do not fit the type of the parameter. `words` are the reasons of the dead
    letters as stable words."""

    def __init__(self, reasons: Mapping[int, str], words: Mapping[int, str]) -> None:
        super().__init__(reasons)
        self.words = words


class UnusedAnswer(TypeError):
    """A user function returned a value. It would do so again, so the call is not retried."""

    def __init__(self, value: object) -> None:
        kind = type(value).__name__
        if isinstance(value, Generator | AsyncGenerator):
            super().__init__(f"returned a {kind}, of which nothing ran; call send(VALUE) in place of yield")
        else:
            super().__init__(f"returned a value of type {kind}, and what it returns goes nowhere; call send(VALUE)")


class CallEnded(RuntimeError):
    """`send`, `schedule`, `cancel` or `together` was called after the handler had returned."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One consumed message. `value` is decoded by the agent's format, or into the type of the handler's `value`
    parameter."""

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
        """The key as text. A key that is not UTF-8 stays bytes. None when the record has no key."""
        return text_or_bytes(self.record.key())

    @property
    def raw_key(self) -> bytes | None:
        """The bytes of the key."""
        return self.record.key()

    @property
    def headers(self) -> Headers:
        return headers(self.record)

    @property
    def timestamp(self) -> float:
        """The record's time in seconds since 1970; 0 when it has none."""
        kind, milliseconds = self.record.timestamp()
        return milliseconds / 1000 if kind else 0.0


class Batch(msgspec.Struct, frozen=True):
    """A completed group. `value` is its result document as plain Python values (docs/clauses.md)."""

    fire: Fire
    value: dict[str, Any]

    @property
    def key(self) -> str | bytes:
        """As Message.key. A field that is not text is given as canonical JSON."""
        return text_or_bytes(self.fire.key)

    @property
    def raw_key(self) -> bytes:
        """The bytes of the key."""
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
        """None: a group does not keep the headers of its messages, except the first `traceparent`."""
        return [] if self.fire.trace is None else [("traceparent", self.fire.trace.encode("ascii", "replace"))]


class TimeoutReturn(NamedTuple):
    """The default destination of a handler's timeouts: the first input topic of its own agent, in the format of that
    topic. `topic` is empty for an agent that reads its topics by patterns."""

    app: str
    agent: str
    topic: str
    encode: Callable[[Any], bytes]


class OutputTarget(NamedTuple):
    """The destinations of a handler's outputs. A message may have at most `most` bytes."""

    outputs: HandlerOutputs
    most: int
    back: TimeoutReturn


NO_ROWS: Mapping[str, Any] = MappingProxyType({})
"""For an agent without lookups."""


def no_rows(item: Any) -> Mapping[str, Any]:
    return NO_ROWS


class CommitCalls(NamedTuple):
    """The data that all calls for one commit share. The three functions take a message or a completed group. `gathered`
    has, for each function of `together`, its rows and the messages that added them. `gives`: handlers get the session;
    otherwise only lookups use it."""

    session: Any
    outputs: OutputTarget
    identify: Callable[[Any], str]
    attempt: Callable[[Any], int]
    log: Callable[[Any], FilteringBoundLogger]
    gathered: dict[Callable[[list[Any], Any], object], tuple[list[Any], list[Any]]]
    cancelled: IsCancelled = never
    rows_of: Callable[[Any], Mapping[str, Any]] = no_rows
    replay: bool = False
    gives: bool = True


class Context:
    """The context of one call. `id` is the same for the same message or batch after every crash: use it as the key for
    effects outside of the store. `attempt` counts from 1 (in this process). `session` is the store's transaction (None
    without `session: true`); see sluicegate.connectors.sessions. `log` is bound to the agent and to the position of the
    message or batch."""

    __slots__ = ("_calls", "_item", "ended", "not_sent", "sent", "timers")

    def __init__(self, item: Any, calls: CommitCalls) -> None:
        self._item, self._calls, self.ended = item, calls, False
        self.sent: list[SentMessage] = []
        self.not_sent: NotSent | None = None  # the reason why no message of this call is sent
        self.timers: Sequence[Scheduled | Cancelled] = ()

    @property
    def id(self) -> str:
        return self._calls.identify(self._item)  # takes 1 µs, so it is computed on demand

    @property
    def attempt(self) -> int:
        return self._calls.attempt(self._item)

    @property
    def session(self) -> Any:
        return self._calls.session if self._calls.gives else None

    @property
    def lookups(self) -> Mapping[str, Any]:
        """The rows that were looked up, by the names of the lookups: the fields of each, None without a row."""
        return self._calls.rows_of(self._item)

    @property
    def cancelled(self) -> bool:
        """Whether another worker owns the partition now. Then the results of this call are dropped, and it may end at
        once. Only with `concurrency` > 0."""
        return self._calls.cancelled()

    @property
    def replay(self) -> bool:
        """Whether `sluicegate replay --call-handlers` makes this call. Then a handler must have no effect but what it
        sends."""
        return self._calls.replay

    @property
    def log(self) -> FilteringBoundLogger:
        return self._calls.log(self._item)

    def together(self, function: Callable[[list[Any], Any], object], row: Any) -> None:
        """Have `function(rows, session)` called once before the commit, with the rows of all messages in their order.
        Writing many rows at once takes the time of a few. An error of the function belongs to no single message: the
        messages are tried again in halves.

        Raises ValueError without a session, and for completed groups.
        """
        self._running("together")
        if self.session is None or isinstance(self._item, Fire):
            raise ValueError(NOT_OF_GROUPS if isinstance(self._item, Fire) else NEEDS_SESSION)
        rows, owners = self._calls.gathered.setdefault(function, ([], []))
        rows.append(row)
        owners.append(self._item)

    def send(
        self, value: Any, topic: str | None = None, key: bytes | str | None = None, headers: HeadersToSend = ()
    ) -> None:
        """Send a message with the commit: it is sent only if the commit succeeds. `topic` None is the agent's `to`: its
        routes and `select` see the fields of `value`. `key` None is the key of the message or batch. A value of None or
        bytes is sent unchanged; any other value is encoded in the format of `to` (for other topics: JSON).

        Raises ValueError without a topic and for a message that is too large, TypeError for a value that cannot be
        encoded.
        """
        if self.ended:
            self._running("send")
        outputs, most, _ = self._calls.outputs
        if topic is None and outputs.whole is not None:
            to, encode = outputs.whole
            self.sent.append((0, to, *_encoded("send", topic, value, key, headers, encode, most)))
            return
        if topic is None and not outputs.topics:
            raise ValueError("send() names no topic, and the agent has no `to`")
        try:
            chosen = outputs.route(value) if topic is None else [outputs.to_topic(topic, value)]
        except NotSent as error:
            self.not_sent = self.not_sent or error
            return
        headers = headers if isinstance(headers, Mapping) else list(headers)
        for number, to, content, encode in chosen:
            self.sent.append((number, to, *_encoded("send", topic, content, key, headers, encode, most)))

    def schedule(
        self,
        value: Any,
        *,
        after: float | timedelta | None = None,
        at: datetime | None = None,
        topic: str | None = None,
        key: bytes | str | None = None,
        name: str | None = None,
        headers: HeadersToSend = (),
    ) -> UUID:
        """Send a message later: `after` seconds from the commit, or `at` a time. The commit schedules it. It has the
        header `sluicegate-timeout-id`. `topic` None is the agent's first input topic, in its format, so the agent
        receives it as a message. `key` is as in `send`. In one app a `name` is used by one timeout at a time: while it
        waits, another one with that name changes nothing.

        Returns its id, for `cancel`. Raises ValueError if not exactly one time is given, for a time without a zone, and
        for a message that is too large.
        """
        self._running("schedule")
        back, most = self._calls.outputs.back, self._calls.outputs.most
        delay = after.total_seconds() if isinstance(after, timedelta) else after
        if (delay is None) == (at is None) or (delay is not None and not 0 <= delay < FARTHEST):
            raise ValueError("schedule() needs `after`, a time from 0 on, or `at`, and not both")
        if at is not None and (
            not isinstance(at, datetime) or at.tzinfo is None or not 0 <= at.timestamp() < LAST_TIME
        ):
            raise ValueError("schedule(): `at` is a datetime with a time zone, from 1970 on")
        if not (topic or back.topic):
            raise ValueError("schedule() needs `topic`: the agent reads its topics by a pattern, and none is the first")
        topic = None if topic is None else self._calls.outputs.outputs.place(topic)
        encode = back.encode if topic in (None, back.topic) else json.encode
        target, value, packed = _encoded("schedule", topic, value, key, headers, encode, most)
        chosen = raw_key(self._item) if target is None else target
        identity = timeout_id(self.id, len(self.timers)) if name is None else named_timeout_id(back.app, name)
        scheduled = Scheduled(
            identity, topic or back.topic, at, delay or 0.0, chosen, value, packed, f"{back.app}/{back.agent}"
        )
        self.timers = (*self.timers, scheduled)
        return identity

    def cancel(self, timeout: UUID | str) -> None:
        """Cancel the timeout of this id or this name with the commit. A timeout that is due may be under way already,
        and then it is sent."""
        self._running("cancel")
        identity = timeout if isinstance(timeout, UUID) else named_timeout_id(self._calls.outputs.back.app, timeout)
        self.timers = (*self.timers, Cancelled(identity))

    def _running(self, call: str) -> None:
        """Raises CallEnded after the end of the handler's call, and logs it: a thread or a task may hide the error."""
        if self.ended:
            what = f"{call}() came after the handler had returned, so it has no effect"
            self.log.error("handler.call_ended", call=call, error=what)
            raise CallEnded(f"{what}; join the thread, or await the task, before the handler returns")


def _encoded(
    call: str,
    topic: Any,
    value: Any,
    key: bytes | str | None,
    headers: HeadersToSend,
    encode: Callable[[Any], bytes],
    most: int,
) -> tuple[bytes | None, bytes | None, Headers]:
    """Encode key, value and headers. Raises ValueError for an invalid topic, and if they are too large for a
    message."""
    if topic is not None and not (isinstance(topic, str) and len(topic) <= 249 and re.fullmatch(TOPIC, topic)):
        raise ValueError(f"{call}(): Kafka allows no such topic name: write 1 to 249 of A-Z a-z 0-9 . _ -")
    if value is not None and not isinstance(value, bytes):
        value = encode(value)
    size, packed = len(value or b"") + len(key or b""), []
    for name, text in headers.items() if isinstance(headers, Mapping) else headers:
        if name.startswith(OWN):  # it describes the message that the handler received
            continue
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
    """The key as handlers receive it: values of JSON where possible."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return key


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """A result document without values that only its encoder knows."""
    return json.decode_any(json.encode(document))  # type: ignore[no-any-return]
