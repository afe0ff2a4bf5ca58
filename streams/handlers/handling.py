"""Calls the application's handlers, and decides what a failure means.

This module commits nothing. A batch is handled as a whole, or not at all: a failure that may be retried raises
HandlerFailed. A handler without a session that has succeeded is not called again in this process (`done`). A
handler with a session was rolled back, so it is called again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any

import structlog

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Handler
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.events import BadItem, Decided, Event, Fire, KeptItem, Refused, Sent, Unhandled
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.links import traceparent
from sluicegate.streams.aggregation.results import document
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.causes import Cause, cause
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import ExpressionStopped, HandlerFailed
from sluicegate.streams.handlers.attempts import (
    RAISED,
    UNSUSPECTED,
    CallFailure,
    DeadLetter,
    Decision,
    Park,
    Split,
    Suspicion,
    TryAgain,
    decide,
)
from sluicegate.streams.handlers.failures import PARKED, Failed, Failures, GivenUp, Policy
from sluicegate.streams.handlers.functions import functions
from sluicegate.streams.handlers.members import GroupMembers
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.sending import NotSent
from sluicegate.streams.handlers.types import decoder, misfit
from sluicegate.streams.handlers.values import (
    NO_ROWS,
    BadItems,
    Batch,
    CommitCalls,
    Context,
    IsCancelled,
    Message,
    OutputTarget,
    UnusedAnswer,
    no_rows,
    plain,
    raw_key,
)
from sluicegate.streams.outbox.rows import contents

Called = tuple[Message | Fire | None, CommitCalls, bool, Failures, Sequence[Message]]
"""The last call: its item, its CommitCalls, whether it was the first of its batch, and the failures so far. The item is
None for a function of `together`, which is called for the rows of these messages. It is a plain tuple, because a named
one costs 0.4 µs."""


class Handling(RecordProcessor):
    """The handlers of one agent in one worker."""

    def __init__(
        self,
        agent: Agent,
        handler: Handler,
        rule: Rule,
        codec: Codec,
        outputs: OutputTarget,
        policy: Policy,
        pool: Pool,
    ) -> None:
        self.session = self._gives = handler.session
        self._outputs, self._policy = outputs, policy
        self.parks = not handler.concurrency
        self.batches = agent.aggregation is not None
        # A commit may include only some of the messages, unless it also writes state of all messages read.
        self.parts = not self.batches and not handler.concurrency and agent.dedupe is None and not agent.receive
        self.members = GroupMembers(Rule(agent, codec), codec)
        self._failures: dict[TopicPartition, Failures] = {}
        self._current: Called
        compute = agent.aggregation.compute if agent.aggregation is not None else ()
        item = "batch" if self.batches else "message"
        callables = functions(handler.functions, item, handler.session, compute)
        self.pool = pool
        self.rows_of = no_rows
        self._functions, self.schedules = callables.calls, callables.schedules
        typed = callables.value_type is not Any and not self.batches
        self.typed = typed and (codec.text is not None or codec.name == "json")
        self.decode = decoder(callables.value_type, codec.text) if self.typed else codec.decode
        self._largest, self._stops = rule.max_record_bytes, rule.on_error.expression == "stop"
        self._log = structlog.get_logger().bind(agent=agent.name)

    def decoded(self, rule: Rule, record: Record) -> object:
        return rule.reader.read(record) if self.batches else self.decode(record.value())  # type: ignore[arg-type]

    def step(self, place: TopicPartition, offset: int) -> int:
        known = self._failures.get(place)
        return known.step(offset) if known is not None and known.apart else 0

    def failing(self, place: TopicPartition, offset: int) -> int | None:
        known = self._failures.get(place)
        return None if known is None or self._policy.away else known.next_apart(offset)

    def forget(self, place: TopicPartition) -> None:
        self._failures.pop(place, None)

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        items: list[Item] = []
        decode, largest = self.decode, self._largest
        for record in records:
            try:
                if len(value := record.value()) > largest:  # type: ignore[arg-type]
                    raise OverflowError
                items.append(Message(decode(value), record))  # type: ignore[arg-type]
            except Exception as error:
                refuse(groups, record, misfit(error) if self.typed else error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def unsealed(self, record: Record) -> Message:
        """Decode a message that the store kept."""
        return Message(self.decode(record.value() or b""), record)

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        """Handle all items of one partition, and return their events. Raises the errors of `Failures.judge`. With a
        session it raises the handler's own error: the store must see it first, and `failed` is called after that."""
        events: list[Event] = []
        handled: list[tuple[Message | Fire, Sequence[Event]]] = []
        if items:
            self._policy.breaker()
        failures = self._failures.setdefault(place, Failures())
        identity: Callable[[Message | Fire], str] = lambda item: identify(number_of(item))  # noqa: E731
        attempt: Callable[[Message | Fire], int] = lambda item: failures.attempt(identity(item))  # noqa: E731
        shared = session, self._outputs, identity, attempt, self._bound
        calls = CommitCalls(*shared, {}, rows_of=self.rows_of, gives=self._gives)
        parked: list[bytes | None] = []  # keys
        try:
            for item in items:
                if isinstance(item, Decided):
                    events.append(item)
                    continue
                if parked and raw_key(item) in parked:
                    events.append(KeptItem(item))
                    continue
                sent = self._handled(item, calls, item is items[0], failures)
                handled.append((item, sent))
                if sent:
                    events += sent
                    if isinstance(sent[-1], KeptItem) and (key := raw_key(item)) is not None:
                        parked.append(key)
        except HandlerFailed:
            failures.done.update((calls.identify(item), (extent(item), sent)) for item, sent in handled)
            raise
        for function, (rows, owners) in calls.gathered.items():
            self._current = None, calls, True, failures, owners
            if (answer := function(rows, session)) is not None:
                self._use(answer)
        return events

    def _handled(self, item: Message | Fire, calls: CommitCalls, first: bool, failures: Failures) -> Sequence[Event]:
        if failures.verdicts or failures.done or failures.bad:
            return self._known(item, calls, first, failures)
        self._current = item, calls, first, failures, ()
        try:
            return self._call(item, calls)
        except Exception as error:
            if calls.session is not None:
                raise
            self.failed(self.probed(error))
        return self._known(item, calls, True, failures)

    def _known(self, item: Message | Fire, calls: CommitCalls, first: bool, failures: Failures) -> Sequence[Event]:
        """As _handled, for an item that may have failed before: it was given up, was done already, or is a group
        without its bad messages."""
        identity = calls.identify(item)
        if identity in failures.done and failures.done[identity][0] == extent(item):
            return failures.done[identity][1]
        while True:
            letters, rest = self.remainder(item, identity, failures)
            if rest is None:
                return letters
            self._current = rest, calls, first, failures, ()
            try:
                return [*letters, *self._call(rest, calls)]
            except Exception as error:
                if calls.session is not None:
                    raise
                self.failed(self.probed(error))
                first = True

    def remainder(
        self, item: Message | Fire, identity: str, failures: Failures
    ) -> tuple[Sequence[Event], Message | Fire | None]:
        """The dead letters of earlier failures, and the part of the item that must still be called (None: nothing)."""
        letters: Sequence[Event] = ()
        rest: Message | Fire | None = item
        if isinstance(item, Fire) and identity in failures.bad:
            letters, rest = self.members.without(item, failures.bad[identity])
        if rest is None or identity not in failures.verdicts:
            return letters, rest
        return [*letters, given_up(rest, failures.verdicts[identity], failures.counts.get(identity, 1))], None

    def probed(self, error: Exception, apart: Callable[[Callable[[Any], object]], None] | None = None) -> Exception:
        """As `isolated`, for the last call. `apart` makes a call with a separate session, which is rolled back."""
        item, calls, _, failures, _ = self._current

        def alone(fire: Fire) -> None:
            if apart is None:
                self._call(fire, calls)
            else:
                apart(lambda session: self._call(fire, calls._replace(session=session)))

        return error if item is None else self._isolated(item, error, failures.attempt(calls.identify(item)), alone)

    def isolated(
        self,
        item: Message | Fire,
        error: Exception,
        identity: str,
        attempt: int,
        cancelled: IsCancelled,
        rows: Mapping[str, Any] = NO_ROWS,
    ) -> Exception:
        """As `_isolated`, for an error that `call` raised. Returns `error` if the messages cannot be tried one by
        one."""
        try:
            return self._isolated(item, error, attempt, lambda one: self.call(one, identity, attempt, cancelled, rows))
        except Exception:
            self._log.debug("handler.not_probed", id=identity)
            return error

    def _isolated(
        self, item: Message | Fire, error: Exception, attempt: int, alone: Callable[[Fire], object]
    ) -> Exception:
        """Find the messages that made a call fail. After `isolate_after` failures of a group each of its messages is
        tried alone. The outputs of these calls are dropped."""
        if not isinstance(item, Fire) or not self._policy.probes(error, attempt):
            return error
        return self.members.probe(item, error, alone, self._policy.outage)

    def judge(
        self,
        item: Message | Fire,
        identity: str,
        attempt: int,
        error: Exception,
        failure: CallFailure = RAISED,
        suspicion: Suspicion = UNSUSPECTED,
    ) -> tuple[Decision, Failed]:
        """Decide what follows the failure of this attempt. Raises HandlerStopped and ExpressionStopped."""
        if isinstance(item, Fire) and (bad := self.members.rejections(item, error)):
            failure = replace(failure, bad=bad)
        if isinstance(error, NotSent) and error.clause and self._stops:
            raise ExpressionStopped(
                f"{self.where(item)}: {error.clause} has no answer ({error}) for what the handler sent, and "
                "on_error.expression is stop; let it be dead-letter, or correct the expression, and restart"
            )
        failed = Failed(identity, self.where(item), caused(item, error))
        return self._policy.judge(failed, attempt, failure, suspicion, self._log), failed

    def failed(self, error: Exception, items: Sequence[Item] = ()) -> None:
        """Judge this error of the last call. An error of all `items` of a commit is judged as in `refused`. Returns if
        the item must be called again at once, or becomes a dead letter. Otherwise raises HandlerFailed or
        HandlerStopped."""
        item, calls, first, failures, owners = self._current
        if item is None:
            if not self._rows_apart(error, calls, failures, owners):
                self.refused(items, error)
            return
        identity = calls.identify(item)
        failure = CallFailure(behind=isinstance(item, Message) and not first, session=calls.session is not None)
        decision, failed = self.judge(item, identity, failures.attempt(identity), error, failure)
        failures.remember(failed, decision)
        if isinstance(decision, TryAgain) and not decision.same_run:
            failures.set_apart(item)
            text = "reports an outage ({})" if not decision.failed else "raised {} (attempt {} of {})"
            text = text.format(failed.cause.shown, decision.attempts, self._policy.handler.attempts)
            raise HandlerFailed(f"{failed.where}: the handler {text}", decision.pause)
        if isinstance(decision, DeadLetter | Park) and decision.apart and self.parts:
            failures.set_apart(item)
            raise HandlerFailed(f"{failed.where}: given up, and the messages before it are handled first", 0.0)

    def _rows_apart(self, error: Exception, calls: CommitCalls, failures: Failures, owners: Sequence[Message]) -> bool:
        """Whether the error names the bad rows of a `together` function. If so, the messages of these rows are given
        up."""
        if not isinstance(error, BadItems) or not error.reasons or not error.reasons.keys() <= set(range(len(owners))):
            return False
        for index, why in error.reasons.items():
            failures.verdicts[calls.identify(owners[index])] = GivenUp("bad-item", why)
        self._log.warning("handler.bad_items", where=self.where(owners[0]), items=len(error.reasons))
        return True

    def refused(self, items: Sequence[Item], error: Exception) -> None:
        """The transaction failed as a whole: retry it in halves, until the failing message is isolated."""
        called = [item for item in items if isinstance(item, Message | Fire)]
        if not called:
            raise error
        failure = CallFailure(0.0 if self._policy.outage(error) else None, items=len(called))
        if not isinstance(decide(1, failure, self._policy.handler), Split):
            _, calls, _, failures, _ = self._current
            self._current = called[0], calls, True, failures, ()
            self.failed(error)
            return
        middle = called[len(called) // 2]
        if isinstance(middle, Fire):
            raise error
        self._current[3].apart.add(middle.offset)
        raise HandlerFailed(
            f"{len(called)} messages failed together ({type(error).__name__}): they are tried again in two halves", 0.0
        ) from error

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        """Forget the failures of these committed items."""
        failures = self._failures.get(place)
        if items and failures is not None and (failures.remembers or self._policy.troubled):
            self._policy.well()
            failures.well([identify(number_of(item)) for item in items if isinstance(item, Message | Fire)])

    def counted(self, groups: Groups) -> None:
        self._outputs.outputs.counted(groups.outcomes)

    def call(
        self,
        item: Message | Fire,
        identity: str,
        attempt: int,
        cancelled: IsCancelled,
        rows: Mapping[str, Any] = NO_ROWS,
    ) -> Sequence[Event]:
        """Make one slow call, in its own thread. `rows` are the rows of lookups. Returns the events that the handler
        sent and scheduled. Raises the handler's errors."""
        shared = None, self._outputs, lambda _: identity, lambda _: attempt, self._bound
        return self._call(item, CommitCalls(*shared, {}, cancelled, lambda _: rows))

    def _call(self, item: Message | Fire, calls: CommitCalls) -> Sequence[Event]:
        subject = item if isinstance(item, Message) else Batch(item, plain(document(item)))
        context = Context(item, calls)
        try:
            for function in self._functions:
                if (answer := function(subject, context)) is not None:
                    self._use(answer)
        finally:
            context.ended = True
        if context.not_sent is not None:
            raise context.not_sent
        if not context.sent and not context.timers:
            return ()
        identity, trace = context.id, item.trace if isinstance(item, Fire) else traceparent(item.record)
        sent = [
            Sent(identity, index, topic, subject.raw_key if key is None else key, value, headers, trace, number)
            for index, (number, topic, key, value, headers) in enumerate(context.sent)
        ]
        return [*sent, *context.timers]

    def _use(self, answer: object) -> None:
        """Await the return value of a user function, if it can be awaited. Raises UnusedAnswer if the result is a
        value."""
        value = self.pool.wait(_awaited(answer)) if isawaitable(answer) else answer
        if value is not None:
            raise UnusedAnswer(value)

    def where(self, item: Message | Fire) -> str:
        if isinstance(item, Fire):
            return f"the group of records {item.first} to {item.last}"
        record = item.record
        return f"{record.topic()}/{record.partition()}/{record.offset()}"

    def _bound(self, item: Message | Fire) -> Any:
        return self._log.bind(where=self.where(item))


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer


def given_up(item: Message | Fire, why: GivenUp, attempts: int) -> Refused | Unhandled | KeptItem:
    """The event of an item whose handler failed for good: a dead letter, or it is parked."""
    if why.reason == PARKED:
        return KeptItem(item, why.error, attempts)
    if isinstance(item, Message):
        return Refused(item.record, "handler", why.reason, why.error, attempts, why.where, why.clause)
    return Unhandled(item, why.error, attempts, why.reason, why.where, clause=why.clause)


def caused(item: Message | Fire, error: Exception) -> Cause:
    """The cause of a handler's error for this message or group."""
    if isinstance(item, Fire):
        return cause(error, *contents(item))
    headers = [value for _, value in item.headers if value is not None]
    return cause(error, item.record.key() or b"", item.record.value() or b"", item.value, *headers)


def extent(item: Message | Fire) -> tuple[int, int]:
    """The last offset and the count of a group. After a new claim, a group with the same id may end with other
    messages."""
    return (item.last, item.count) if isinstance(item, Fire) else (0, 1)


def number_of(item: Message | Fire) -> GroupNumber:
    """The number from which the item's id is derived."""
    return item.record.offset() if isinstance(item, Message) else item.number


def decided(items: Sequence[Item], events: Sequence[Event]) -> list[Event]:
    """The events of a commit that are counted: fires, and refused items."""
    fires = (item for item in items if isinstance(item, Fire))
    return [*fires, *(event for event in events if isinstance(event, Refused | Unhandled | BadItem))]
