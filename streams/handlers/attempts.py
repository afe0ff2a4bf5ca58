"""What follows a failed call of a handler, and which items may end the process. Pure: without a clock or a store.

Three runners use it: handling.py (calls in the partition's commit), slow.py (sealed items, called outside of it) and
shared_fires.py (`scope: shared`). After a failed call a runner asks `decide`; the first line that is true counts:

    how the call failed                               decision
    ------------------------------------------------  ------------------------------------------------------------
    a system that the handler needs is away           TryAgain after the outage's pause; not counted
    the error names bad messages of the group         Split: they become dead letters, the rest is called; not counted
    several messages failed in one transaction        Split: each half has its own transaction; not counted
    raised, attempts are left                         TryAgain after the back-off
      and messages before it in the batch went well     at once, apart from them; with one attempt left and no
                                                        transaction to roll back, in the same run of the batch
    raised, no attempt is left, `then: stop`          Stop
    raised, no attempt is left, `then: park`          Park (only with `concurrency`)
    raised, no attempt is left                        DeadLetter
      and a transaction holds messages before it        apart: they are committed first

Before a call a runner asks `begins` for an item that a process may have ended with:

    suspicion                                                         the item begins
    ----------------------------------------------------------------  -----------------------------------------------
    began alone, and ended its process `most` times                   never: `decide` counts its ends as attempts
    began alone before, or among others more than `company` times     alone, with nothing else in hand
    anything else                                                     together with others
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sluicegate.streams.agent import Handler

DEATHS = 3  # ends of a process, at least, before an item is held to be the cause
COMPANY = 2  # hand-outs of a shared batch among others before it is suspected
ALONE = 1_000  # in the one number that a store keeps of a shared batch: one time alone


class Suspicion(NamedTuple):
    """How often a process may have ended because of an item: in hand `together` with others, and `alone`."""

    together: int = 0
    alone: int = 0

    @property
    def stored(self) -> int:
        """As the one number that stores count hand-outs in; see `suspicion_of`."""
        return ALONE * self.alone + self.together

    def given_back(self, called: bool, given_up: bool, most: int) -> "Suspicion":
        """What counts when a live process gives the item back: not this hand-out, and nothing once a call came back. An
        item that was given up and halted its agent is called once more."""
        if given_up:
            return Suspicion(alone=most - 1)
        return Suspicion() if called else self._replace(together=self.together - 1)


UNSUSPECTED = Suspicion()


def suspicion_of(stored: int) -> Suspicion:
    """Stores add one to the number with each hand-out. The times that an item began alone are written as thousands."""
    alone, together = divmod(stored, ALONE)
    return Suspicion(together, alone)


Begin = Literal["together", "alone", "never"]


class Bounds(NamedTuple):
    """`proven`: each time together ended a process, too; otherwise it may be a hand-out that was not received."""

    most: int = DEATHS
    company: int = 0
    proven: bool = False


def bounds(attempts: int, company: int = 0) -> Bounds:
    """Of a handler that may fail so often."""
    return Bounds(max(attempts, DEATHS), company)


def begins(suspicion: Suspicion, bounds: Bounds) -> Begin:
    """How the item may begin; see the table."""
    ends = suspicion.alone + (suspicion.together if bounds.proven else 0)
    if suspicion.alone and ends >= bounds.most:
        return "never"
    return "alone" if suspicion.alone or suspicion.together > bounds.company else "together"


@dataclass(frozen=True, slots=True)
class CallFailure:
    """How a call failed. `pause`: an outage, and nothing is called for so many seconds; `bad`: messages of the group by
    index, and why; `items`: so many failed in one transaction. `behind`: messages before it in its batch went well;
    `session`: their transaction is rolled back."""

    pause: float | None = None
    bad: Mapping[int, str] = field(default_factory=dict)
    items: int = 1
    behind: bool = False
    session: bool = False


RAISED = CallFailure()


@dataclass(frozen=True, slots=True)
class TryAgain:
    """`attempts` were counted so far. `pause` is in seconds; after a `failed` attempt it is the longest one, and the
    runner waits a random part of it."""

    attempts: int
    pause: float
    failed: bool = True
    same_run: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The `bad` messages leave their group; without any, the items are called in two halves."""

    bad: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """After so many attempts. `apart`: what comes before it is committed first."""

    attempts: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Park:
    """After so many attempts it waits for a person, and its key with it. The runner adds the `error`."""

    attempts: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """After so many attempts the agent stops."""

    attempts: int


Decision = TryAgain | Split | DeadLetter | Park | Stop


def decide(attempt: int, failure: CallFailure, policy: Handler, suspicion: Suspicion = UNSUSPECTED) -> Decision:
    """What follows the failure of this attempt (from 1); see the table."""
    if failure.pause is not None:
        return TryAgain(attempt - 1, failure.pause, failed=False)
    if failure.bad or failure.items > 1:
        return Split(failure.bad)
    attempts = max(attempt, suspicion.alone)
    if attempts < policy.attempts:
        if failure.behind:
            return TryAgain(attempts, 0.0, same_run=attempts + 1 == policy.attempts and not failure.session)
        return TryAgain(attempts, min(policy.backoff_most, policy.backoff_first * 2 ** (attempts - 1)))
    if policy.then == "stop":
        return Stop(attempts)
    if policy.then == "park" and policy.concurrency:
        return Park(attempts)
    return DeadLetter(attempts, failure.behind and failure.session)


def isolates(attempt: int, policy: Handler) -> bool:
    """Are the messages of a group tried one by one, now that it failed so many times?"""
    return 0 < policy.isolate_after <= attempt
