"""The failure handling of all runners of handlers. `Policy` judges failed calls with a clock and a log. `Failures`
remembers them until a commit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.causes import Cause
from sluicegate.streams.errors import HandlerFailed, HandlerStopped
from sluicegate.streams.handlers.attempts import (
    CallFailure,
    DeadLetter,
    Decision,
    Park,
    Rejected,
    Split,
    Stop,
    Suspicion,
    TryAgain,
    decide,
    isolates,
)
from sluicegate.streams.handlers.outages import IsOutage, Outages
from sluicegate.streams.handlers.sending import NotSent
from sluicegate.streams.handlers.values import BadItems, Message, UnusedAnswer

LONGEST_OUTAGE_PAUSE = 30.0
PARKED = "parked"
"""The reason of an item that the store keeps for an operator."""


class ProcessEnded(Exception):
    """The process ended while the handler was running, as many times as the handler has attempts."""


class Failed(NamedTuple):
    """A failed call: its item and the cause."""

    identity: str
    where: str
    cause: Cause

    def parked(self, attempts: int) -> str:
        """The text that `parked ls` shows."""
        return f"{self.cause.placed(f'the handler raised {self.cause.text}')} (attempt {attempts})"


class GivenUp(NamedTuple):
    """The reason why an item is given up: the reason of its dead letter as a stable word, the error text, the place
    where it was raised, and the expression that failed."""

    reason: str
    error: str
    where: str = ""
    clause: str = ""


def why_given_up(failed: Failed) -> GivenUp:
    """The reason for an item that becomes a dead letter."""
    error = failed.cause.error
    if isinstance(error, NotSent):
        return GivenUp(error.reason, str(error), clause=error.clause)
    return GivenUp("handler-failed", f"the handler raised {failed.cause.text}", failed.cause.where)


class Policy:
    """Applies the agent's `retry` and `then` to the failed calls of one worker."""

    def __init__(self, handler: Handler, random: Callable[[], float], clock: Callable[[], float]) -> None:
        self.handler, self._random, self._clock = handler, random, clock
        self.outage: IsOutage = Outages(handler.outages)
        self._pauses = Backoff(1.0, LONGEST_OUTAGE_PAUSE, random)
        self._away_until = 0.0

    @property
    def away(self) -> float:
        """The seconds for which no handler is called, because a system that handlers need does not answer. 0: no
        outage."""
        return max(0.0, self._away_until - self._clock())

    @property
    def troubled(self) -> bool:
        """Whether there was an outage since the last call of `well`."""
        return bool(self._away_until)

    def well(self) -> None:
        """Note that a call succeeded: there is no outage."""
        self._pauses.reset()
        self._away_until = 0.0

    def breaker(self) -> None:
        """Raises HandlerFailed during an outage, so no handler is called."""
        if self.away:
            raise HandlerFailed("a system that the handler needs is away", self.away)

    def probes(self, error: Exception, attempt: int) -> bool:
        """Whether the messages of a group are tried alone after this number of failures. False if the error names the
        bad messages."""
        named = isinstance(error, BadItems | ProcessEnded | UnusedAnswer | NotSent)
        return isolates(attempt, self.handler) and not named and not self.outage(error)

    def judge(self, failed: Failed, attempt: int, failure: CallFailure, suspicion: Suspicion, log: Any) -> Decision:
        """Decide what follows a failure, and log it. The pause of a returned TryAgain is the exact pause. Raises
        HandlerStopped."""
        identity, where, cause = failed
        if self.outage(cause.error):
            failure = replace(failure, pause=self._pauses.delay())
        if isinstance(cause.error, UnusedAnswer):
            failure = replace(failure, final=True)
        if isinstance(cause.error, NotSent):
            failure = replace(failure, not_sent=True)
        decision = decide(attempt, failure, self.handler, suspicion)
        if isinstance(decision, Split):
            log.warning("handler.bad_items", where=where, id=identity, items=len(decision.bad))
            return decision
        if failure.not_sent:
            return decision
        if isinstance(decision, TryAgain) and not decision.failed:
            self._away_until = self._clock() + decision.pause
            pause = round(decision.pause, 3)
            log.warning("handler.outage", where=where, error=cause.shown, raised_at=cause.where, retry_in=pause)
            return decision
        log.warning(
            "handler.failed",
            where=where,
            id=identity,
            attempt=decision.attempts,
            of=self.handler.attempts,
            error=cause.shown,
            raised_at=cause.where,
        )
        log.debug("handler.traceback", exc_info=cause.error)
        if isinstance(decision, Park):
            log.error("handler.parked", where=where, id=identity, error=cause.shown, raised_at=cause.where)
        if isinstance(decision, Stop):
            text = cause.placed(f"{where}: the handler raised {cause.shown} {decision.attempts} times")
            raise HandlerStopped(f"{text} and `then` is stop; correct it, and restart")
        if isinstance(decision, TryAgain):
            return replace(decision, pause=decision.pause * (0.5 + self._random() / 2))
        return decision


class Failures:
    """The failed calls of one partition, or of one shared batch, by the ids of messages and groups. A commit, or the
    loss of the partition, removes them. They are in memory only, so a new process starts at zero."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.verdicts: dict[str, GivenUp] = {}
        self.bad: dict[str, dict[int, Rejected]] = {}  # the bad messages of a group, with the reason
        # by id: the messages of the successful call (extent), and its events
        self.done: dict[str, tuple[tuple[int, int], Sequence[Event]]] = {}
        self.apart: set[int] = set()  # offsets of messages that failed
        self.ended: Suspicion | None = None  # set for a shared batch that ended too many processes: it is not called

    def attempt(self, identity: str) -> int:
        return self.counts.get(identity, 0) + 1

    @property
    def remembers(self) -> bool:
        return bool(self.counts or self.verdicts or self.bad or self.done)

    def well(self, identities: Sequence[str]) -> None:
        """Remove these messages and groups: they were committed."""
        known: tuple[dict[str, Any], ...] = (self.counts, self.verdicts, self.bad, self.done)
        for memory in known:
            for identity in identities:
                memory.pop(identity, None)

    def set_apart(self, item: Message | Fire) -> None:
        """Handle this failed message alone from now on."""
        if isinstance(item, Message):
            self.apart.add(item.offset)

    def remember(self, failed: Failed, decision: Decision) -> None:
        """Keep the failure for the next call of the item, or for its dead letter."""
        identity = failed.identity
        if isinstance(decision, Split):
            self.bad.setdefault(identity, {}).update(decision.bad)
        elif decision.attempts:
            self.counts[identity] = decision.attempts
        if isinstance(decision, DeadLetter):
            self.verdicts[identity] = why_given_up(failed)
        elif isinstance(decision, Park):
            self.verdicts[identity] = GivenUp(PARKED, failed.parked(decision.attempts))

    def step(self, offset: int) -> int:
        """The number of records that one commit may take, so failed records are handled alone. 0: no bound."""
        following = self.next_apart(offset)
        if following is None:
            self.apart.clear()
            return 0
        return max(1, following - offset)

    def next_apart(self, offset: int) -> int | None:
        """The first offset, at or after this one, of a message that is handled alone."""
        return min((number for number in self.apart if number >= offset), default=None)
