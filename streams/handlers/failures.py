"""What a failed call means: an outage, another attempt, or the end of its message or group; and what is remembered of it until a commit."""

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.causes import Cause
from sluicegate.streams.errors import HandlerFailed, HandlerStopped, NotCommitted, PersistenceError, SystemNotReady
from sluicegate.streams.handlers.values import BadItems, Message, Outage

OUTAGES = (Outage, PersistenceError, SystemNotReady, ConnectionError, TimeoutError)
LONGEST_OUTAGE_PAUSE = 30.0


def outage(error: BaseException) -> bool:
    return isinstance(error, OUTAGES) and not isinstance(error, NotCommitted)


class Policy:
    """What a failed call means by the agent's `retry` and `then`, for all calls of one worker."""

    def __init__(self, handler: Handler, random: Callable[[], float], clock: Callable[[], float]) -> None:
        self._handler, self._random, self._clock = handler, random, clock
        self._outage = Backoff(1.0, LONGEST_OUTAGE_PAUSE, random)
        self._away_until = 0.0

    @property
    def attempts(self) -> int:
        """How often a call may fail."""
        return self._handler.attempts

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

    def breaker(self) -> None:
        """Raises HandlerFailed while a system that handlers need is away: nobody is called meanwhile."""
        if self.away:
            raise HandlerFailed("a system that the handler needs is away", self.away)

    def probes(self, error: Exception, attempts: int) -> bool:
        """Are the messages of a group tried alone, now that it failed so many times? Not where the error says whose it is."""
        return 0 < self._handler.isolate_after <= attempts and not isinstance(error, BadItems) and not outage(error)

    def outage(self, cause: Cause, where: str, log: Any) -> float:
        """An outage is no attempt; returns the pause in seconds."""
        delay = self._outage.delay()
        self._away_until = self._clock() + delay
        log.warning("handler.outage", where=where, error=cause.shown, raised_at=cause.where, retry_in=round(delay, 3))
        return delay

    def again(self, attempts: int, identity: str, cause: Cause, where: str, log: Any) -> float | None:
        """The pause in seconds before the next attempt, None when there is none. Raises HandlerStopped."""
        handler, said = self._handler, cause.shown
        log.warning(
            "handler.failed",
            where=where,
            id=identity,
            attempt=attempts,
            of=handler.attempts,
            error=said,
            raised_at=cause.where,
        )
        log.debug("handler.traceback", exc_info=cause.error)
        if attempts < handler.attempts:
            bound: float = min(handler.backoff_most, handler.backoff_first * 2 ** (attempts - 1))
            return bound * (0.5 + self._random() / 2)
        if handler.then == "stop":
            text = cause.placed(f"{where}: the handler raised {said} {attempts} times")
            raise HandlerStopped(f"{text} and `then` is stop; correct it, and restart")
        return None


class Failures:
    """What one worker knows of the failed calls of one partition, by the ids of messages and groups; forgotten with a commit, and with
    the partition. In memory: a new process begins to count anew."""

    def __init__(self, attempts: int, policy: Policy) -> None:
        self._attempts, self._policy = attempts, policy
        self.counts: dict[str, int] = {}
        self.verdicts: dict[str, tuple[str, str, str]] = {}  # dead: why, as a stable word and in words, and where it was raised
        self.bad: dict[str, dict[int, str]] = {}  # of a group: which of its messages are set apart, and why
        self.done: dict[str, tuple[tuple[int, int], Sequence[Event]]] = {}  # by id: of which messages (extent), and what it sent
        self.apart: set[int] = set()  # offsets of messages that failed

    def attempt(self, identity: str) -> int:
        return self.counts.get(identity, 0) + 1

    @property
    def remembers(self) -> bool:
        return bool(self.counts or self.verdicts or self.bad or self.done or self._policy.troubled)

    def well(self, identities: Sequence[str]) -> None:
        """These were committed."""
        self._policy.well()
        for identity in identities:
            self.counts.pop(identity, None)
            self.verdicts.pop(identity, None)
            self.bad.pop(identity, None)
            self.done.pop(identity, None)

    def set_apart(self, item: Message | Fire) -> None:
        """A message that failed is handled alone from now on."""
        if isinstance(item, Message):
            self.apart.add(item.offset)

    def judge(self, identity: str, cause: Cause, where: str, first: bool, log: Any) -> None:
        """Returns when the item is to be given up as a dead letter. Raises HandlerFailed and HandlerStopped. What is not the `first` of
        its batch is tried again at once, apart from the others."""
        if outage(cause.error):
            text = f"{where}: the handler reports an outage ({cause.shown})"
            raise HandlerFailed(text, self._policy.outage(cause, where, log))
        attempts = self.counts[identity] = self.attempt(identity)
        delay = self._policy.again(attempts, identity, cause, where, log)
        if delay is not None:
            text = f"{where}: the handler raised {cause.shown} (attempt {attempts} of {self._attempts})"
            raise HandlerFailed(text, delay if first else 0.0)
        self.verdicts[identity] = "handler-failed", f"the handler raised {cause.text}", cause.where

    def step(self, offset: int) -> int:
        """How many records may be taken before a commit: those that failed are handled apart. 0: as many as there are."""
        following = self.next_apart(offset)
        if following is None:
            self.apart.clear()
            return 0
        return max(1, following - offset)

    def next_apart(self, offset: int) -> int | None:
        """The first message from this offset on that is handled apart."""
        return min((each for each in self.apart if each >= offset), default=None)
