"""Calling the application's handlers: what they send, and what a failure means.

Nothing here is committed: a batch is handled as a whole or, after a failure that may be tried again, not at all (HandlerFailed: the
one way back). What a handler without a session has done already is not called again in this process (`done`); with a session it
was rolled back and is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from schemas import Codec
from streams.agent import Agent, Handler
from streams.aggregation.accept import refuse
from streams.aggregation.events import Event, Fire, Refused, Sent, Unhandled
from streams.aggregation.groups import Groups, traceparent
from streams.aggregation.rule import Rule
from streams.engine.backoff import Backoff
from streams.engine.pool import Pool
from streams.engine.rows import document
from streams.errors import HandlerFailed, HandlerStopped, NotCommitted, PersistenceError, SystemNotReady
from streams.handlers.functions import decoder, functions
from streams.handlers.values import Batch, Calls, Context, Flag, Message, Outage, Outputs, plain
from streams.record import Record

OUTAGES = (Outage, PersistenceError, SystemNotReady, ConnectionError, TimeoutError)
LONGEST_OUTAGE_PAUSE = 30.0

Item = Message | Fire | Refused


class Policy:
    """What a failed call means by the agent's `retry` and `then`, for all calls of one worker."""

    def __init__(self, handler: Handler, random: Callable[[], float], clock: Callable[[], float]) -> None:
        self._handler, self._random, self._clock = handler, random, clock
        self._outage = Backoff(1.0, LONGEST_OUTAGE_PAUSE, random)
        self._away_until = 0.0

    @property
    def away(self) -> float:
        """Seconds in which nobody is called, since a system that handlers need does not answer; 0: none."""
        return max(0.0, self._away_until - self._clock())

    @property
    def troubled(self) -> bool:
        """Was there an outage since it was last `well`?"""
        return bool(self._away_until)

    def well(self) -> None:
        """A call went well: no outage."""
        self._outage.reset()
        self._away_until = 0.0

    def outage(self, error: Exception, where: str, log: Any) -> float:
        """An outage is no attempt; returns the pause in seconds."""
        delay = self._outage.delay()
        self._away_until = self._clock() + delay
        log.warning("handler.outage", where=where, error=type(error).__name__, retry_in=round(delay, 3))
        return delay

    def again(self, attempts: int, identity: str, error: Exception, where: str, log: Any) -> float | None:
        """The pause in seconds before the next attempt, None when there is none. Raises HandlerStopped."""
        handler, kind = self._handler, type(error).__name__
        log.warning("handler.failed", where=where, id=identity, attempt=attempts, of=handler.attempts, error=kind)
        log.debug("handler.traceback", exc_info=error)
        if attempts < handler.attempts:
            bound: float = min(handler.backoff_most, handler.backoff_first * 2 ** (attempts - 1))
            return bound * (0.5 + self._random() / 2)
        if handler.then == "stop":
            raise HandlerStopped(f"{where}: the handler raised {kind} {attempts} times and `then` is stop; correct it, and restart")
        return None


class Failures:
    """What one worker knows of failed calls; forgotten with a commit. In memory: a new process begins to count anew."""

    def __init__(self, attempts: int, policy: Policy) -> None:
        self._attempts, self.policy = attempts, policy
        self.counts: dict[str, int] = {}
        self.verdicts: dict[str, str] = {}  # dead: id -> the error in words
        self.done: dict[str, Sequence[Event]] = {}
        self.apart: dict[tuple[str, int], set[int]] = {}  # offsets of messages that failed

    def attempt(self, identity: str) -> int:
        return self.counts.get(identity, 0) + 1

    def breaker(self) -> None:
        """Raises HandlerFailed while a system that handlers need is away: nobody is called meanwhile."""
        if self.policy.away:
            raise HandlerFailed("a system that the handler needs is away", self.policy.away)

    @property
    def remembers(self) -> bool:
        return bool(self.counts or self.verdicts or self.done or self.policy.troubled)

    def well(self, identities: Sequence[str]) -> None:
        """These were committed."""
        self.policy.well()
        for identity in identities:
            self.counts.pop(identity, None)
            self.verdicts.pop(identity, None)
            self.done.pop(identity, None)

    def judge(self, identity: str, error: Exception, where: str, first: bool, log: Any) -> None:
        """Returns when the item is to be given up as a dead letter. Raises HandlerFailed and HandlerStopped. What is not the `first` of
        its batch is tried again at once, apart from the others."""
        kind = type(error).__name__
        if outage(error):
            raise HandlerFailed(f"{where}: the handler reports an outage ({kind})", self.policy.outage(error, where, log))
        attempts = self.counts[identity] = self.attempt(identity)
        delay = self.policy.again(attempts, identity, error, where, log)
        if delay is not None:
            raise HandlerFailed(f"{where}: the handler raised {kind} (attempt {attempts} of {self._attempts})", delay if first else 0.0)
        self.verdicts[identity] = f"the handler raised {kind}"

    def step(self, place: tuple[str, int], offset: int) -> int:
        """How many records may be taken before a commit: those that failed are handled apart. 0: as many as there are."""
        apart = self.apart.get(place)
        if not apart:
            return 0
        following = [each for each in apart if each >= offset]
        if not following:
            del self.apart[place]
            return 0
        return max(1, min(following) - offset)


class Handling:
    """The handlers of one agent in one worker."""

    def __init__(
        self, agent: Agent, handler: Handler, rule: Rule, codec: Codec, outputs: Outputs, failures: Failures, pool: Pool
    ) -> None:
        self.session, self.failures, self._outputs = handler.session, failures, outputs
        self.batches = agent.aggregation is not None
        self._current: tuple[Message | Fire | None, Calls, bool]  # None: the functions of `together`
        found = functions(handler.functions, "batch" if self.batches else "message", pool.wait, handler.session)
        self._functions = found.calls
        typed = found.value_type is not Any and not self.batches
        self.decode = decoder(found.value_type, codec.text) if typed and (codec.text or codec.name == "json") else codec.decode
        self._largest = rule.max_record_bytes
        self._log = structlog.get_logger().bind(agent=agent.name)

    def step(self, place: tuple[str, int], offset: int) -> int:
        """As Failures.step."""
        return self.failures.step(place, offset)

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records as messages, or as refused ones."""
        items: list[Item] = []
        decode, largest = self.decode, self._largest
        for record in records:
            try:
                if len(value := record.value()) > largest:  # type: ignore[arg-type]
                    raise OverflowError
                items.append(Message(decode(value), record))  # type: ignore[arg-type]
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def run(self, items: Sequence[Item], identify: Callable[[int], str], session: Any) -> list[Event]:
        """What all items come to. Raises what `Failures.judge` raises; with a session what the handler raised: the store must see it
        first, and `failed` follows."""
        events: list[Event] = []
        handled: list[tuple[Message | Fire, Sequence[Event]]] = []
        self.failures.breaker()
        calls = self._shared(identify, session)
        try:
            for item in items:
                if isinstance(item, Refused):
                    events.append(item)
                    continue
                sent = self._handled(item, calls, item is items[0])
                handled.append((item, sent))
                if sent:
                    events += sent
        except HandlerFailed:
            self.failures.done.update((calls.identify(item), sent) for item, sent in handled)
            raise
        if calls.gathered:
            self._current = None, calls, True
            for function, rows in calls.gathered.items():
                function(rows, session)
        return events

    def _shared(self, identify: Callable[[int], str], session: Any) -> Calls:
        identity: Callable[[Message | Fire], str] = lambda item: identify(number_of(item))  # noqa: E731
        return Calls(session, self._outputs, identity, lambda item: self.failures.attempt(identity(item)), self._bound, {})

    def _handled(self, item: Message | Fire, calls: Calls, first: bool) -> Sequence[Event]:
        failures = self.failures
        if failures.verdicts or failures.done:
            identity = calls.identify(item)
            if identity in failures.verdicts:
                return [self._given_up(item, identity)]
            if identity in failures.done:
                return failures.done[identity]
        self._current = item, calls, first
        try:
            return self._call(item, calls)
        except Exception as error:
            if calls.session is not None:
                raise
            self.failed(error)
        return [self._given_up(item, calls.identify(item))]

    def failed(self, error: Exception, items: Sequence[Item] = ()) -> None:
        """What was called last failed with this. As Failures.judge; what failed for all `items` of a commit is as `refused`."""
        item, calls, first = self._current
        if item is None:
            self.refused(items, error)
            return
        if isinstance(item, Message) and not first:
            record = item.record
            self.failures.apart.setdefault((record.topic(), record.partition()), set()).add(record.offset())
        self.failures.judge(calls.identify(item), error, self.where(item), first or not isinstance(item, Message), self._log)

    def refused(self, items: Sequence[Item], error: Exception) -> None:
        """The transaction failed as a whole: it is tried again in halves, down to the one that is the cause."""
        called = [item for item in items if not isinstance(item, Refused)]
        if not called:
            raise error
        if len(called) == 1 or outage(error):
            self._current = called[0], self._current[1], True
            self.failed(error)
            return
        middle = called[len(called) // 2]
        if isinstance(middle, Fire):
            raise error
        self.failures.apart.setdefault((middle.topic, middle.partition), set()).add(middle.offset)
        raise HandlerFailed(f"{len(called)} messages failed together ({type(error).__name__}): again in two halves", 0.0) from error

    def committed(self, items: Sequence[Item], identify: Callable[[int], str]) -> None:
        """Forget what failed before."""
        if self.failures.remembers:
            self.failures.well([identify(number_of(item)) for item in items if not isinstance(item, Refused)])

    def call(self, item: Message | Fire, identity: str, attempt: int, cancelled: Flag) -> Sequence[Sent]:
        """One slow call, in a thread of its own; what was sent. Raises what the handlers raise."""
        return self._call(item, Calls(None, self._outputs, lambda _: identity, lambda _: attempt, self._bound, {}, cancelled))

    def _call(self, item: Message | Fire, calls: Calls) -> Sequence[Sent]:
        subject = item if isinstance(item, Message) else Batch(item, plain(document(item)))
        context = Context(item, calls)
        for function in self._functions:
            function(subject, context)
        if not context.sent:
            return ()
        identity, trace = context.id, item.trace if isinstance(item, Fire) else traceparent(item.record)
        return [
            Sent(identity, index, topic, subject.key if key is None else key, value, headers, trace)
            for index, (topic, key, value, headers) in enumerate(context.sent)
        ]

    def _given_up(self, item: Message | Fire, identity: str) -> Refused | Unhandled:
        return given_up(item, self.failures.verdicts[identity], self.failures.counts.get(identity, 1))

    def where(self, item: Item) -> str:
        if isinstance(item, Fire):
            return f"the group of records {item.first} to {item.last}"
        record = item.record
        return f"{record.topic()}/{record.partition()}/{record.offset()}"

    def _bound(self, item: Message | Fire) -> Any:
        return self._log.bind(where=self.where(item))


def outage(error: Exception) -> bool:
    return isinstance(error, OUTAGES) and not isinstance(error, NotCommitted)


def given_up(item: Message | Fire, error: str, attempts: int) -> Refused | Unhandled:
    """The dead letter of what its handler failed for good."""
    if isinstance(item, Message):
        return Refused(item.record, "handler", "handler-failed", error, attempts)
    return Unhandled(item, error, attempts)


def number_of(item: Message | Fire) -> int:
    """The offset that its id is made of."""
    return item.record.offset() if isinstance(item, Message) else item.first


def decided(items: Sequence[Item], events: Sequence[Event]) -> list[Event]:
    """What is counted of a commit: fires, and what was refused."""
    return [*(item for item in items if isinstance(item, Fire)), *(event for event in events if isinstance(event, Refused | Unhandled))]
