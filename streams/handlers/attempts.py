"""Decides what follows a failed call of a handler, and how a suspect begins. Pure: it uses no clock and no store.

Three runners use it: handling.py (calls in the partition's commit), slow.py (sealed items, called outside of it) and
shared_fires.py (`scope: shared`). After a failed call a runner asks `decide`. The first line that is true counts:

    how the call failed                               decision
    ------------------------------------------------  ------------------------------------------------------------
    a system that the handler needs does not answer   TryAgain after the outage's pause; not counted
    the error names bad messages of the group         Split: they become dead letters, the rest is called; not counted
    several messages failed in one transaction        Split: each half has its own transaction; not counted
    no route takes what it sent, or an expression     DeadLetter: it would send the same again, and `to` is to be
      under `to` has no answer for it                   corrected; messages before it as below
    the function returned a value                     as if no attempt were left: it would return one again
    raised, attempts are left                         TryAgain after the back-off
      and messages before it in the batch went well     at once, apart from them; with one attempt left and no
                                                        transaction to roll back, in the same run of the batch
    raised, no attempt is left, `then: stop`          Stop
    raised, no attempt is left, `then: park`          Park
    raised, no attempt is left                        DeadLetter
      and a transaction holds messages before it        either one apart: they are committed first

Before a call, a runner asks `begins` about an item that may have ended a process:

    suspicion                                                         the item begins
    ----------------------------------------------------------------  -----------------------------------------------
    began alone, and ended its process `most` times                   never: `decide` counts its ends as attempts
    began alone before, or among others more than `company` times     alone, with no other item in progress
    anything else                                                     together with others
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.group_faults import DEATHS

COMPANY = 2  # a shared batch is a suspect after more leases among others than this
ALONE = 1_000  # one run alone, in the one number that a store keeps for a shared batch


class Suspicion(NamedTuple):
    """How often a process may have ended because of an item: while it ran `together` with other items, and while it ran
    `alone`."""

    together: int = 0
    alone: int = 0

    @property
    def stored(self) -> int:
        """Both counts as the one number in which a store counts leases; see `suspicion_of`."""
        return ALONE * self.alone + self.together

    def given_back(self, called: bool, given_up: bool, most: int) -> "Suspicion":
        """The counts after a live process releases the item. The current lease does not count. If a call has returned,
        earlier ones do not count either. An item that was given up and halted its agent gets one more call."""
        if given_up:
            return Suspicion(alone=most - 1)
        return Suspicion() if called else self._replace(together=self.together - 1)


UNSUSPECTED = Suspicion()


def suspicion_of(stored: int) -> Suspicion:
    """The two counts in a store's number. The store adds one with each lease. Each run alone is written as one
    thousand."""
    alone, together = divmod(stored, ALONE)
    return Suspicion(together, alone)


Begin = Literal["together", "alone", "never"]


class Bounds(NamedTuple):
    """The limits at which an item counts as the cause of process ends. `proven`: each run together with others also
    ended a process. Without it, such a run may be a lease that no worker received."""

    most: int = DEATHS
    company: int = 0
    proven: bool = False


def bounds(attempts: int, company: int = 0) -> Bounds:
    """The bounds for a handler with this number of attempts."""
    return Bounds(max(attempts, DEATHS), company)


def begins(suspicion: Suspicion, bounds: Bounds) -> Begin:
    """How the item may begin, by the second table of this module."""
    ends = suspicion.alone + (suspicion.together if bounds.proven else 0)
    if suspicion.alone and ends >= bounds.most:
        return "never"
    return "alone" if suspicion.alone or suspicion.together > bounds.company else "together"


BAD_ITEM = "bad-item"


class Rejected(NamedTuple):
    """The reason why a message leaves its group: the error text, and the reason of the dead letter as a stable word."""

    error: str
    reason: str = BAD_ITEM


RejectedMessages = Mapping[int, Rejected]
"""By the index of the message in its group."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The failure of a call. `pause` is set after an outage: no handler is called for that many seconds. `bad` are the
    messages that must leave their group. `items` is the number of items that failed in one transaction. `behind`:
    earlier messages of its batch succeeded. `session`: their transaction is rolled back. `final`: another call would
    fail the same way. `not_sent`: no output accepts the value that the handler sent."""

    pause: float | None = None
    bad: RejectedMessages = field(default_factory=dict)
    items: int = 1
    behind: bool = False
    session: bool = False
    final: bool = False
    not_sent: bool = False


RAISED = CallFailure()


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Try again; `attempts` were counted so far. `pause` is in seconds. After a `failed` attempt it is the longest
    pause, and the runner waits for a random part of it."""

    attempts: int
    pause: float
    failed: bool = True
    same_run: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The `bad` messages leave their group. Without bad messages, the items are called in two halves."""

    bad: RejectedMessages


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The item becomes a dead letter after this number of attempts. With `apart`, the items before it are committed
    first."""

    attempts: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Park:
    """Park the item after this number of attempts. It and the later items of its key wait for an operator. The runner
    adds the `error`. `apart` is as in DeadLetter."""

    attempts: int
    error: str = ""
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the agent after this number of attempts."""

    attempts: int


Decision = TryAgain | Split | DeadLetter | Park | Stop


def decide(attempt: int, failure: CallFailure, policy: Handler, suspicion: Suspicion = UNSUSPECTED) -> Decision:
    """Decide what follows the failure of this attempt (counted from 1), by the first table of this module."""
    if failure.pause is not None:
        return TryAgain(attempt - 1, failure.pause, failed=False)
    if failure.bad or failure.items > 1:
        return Split(failure.bad)
    apart = failure.behind and failure.session
    if failure.not_sent:
        return DeadLetter(attempt, apart)
    attempts = max(attempt, suspicion.alone)
    if attempts < policy.attempts and not failure.final:
        if failure.behind:
            return TryAgain(attempts, 0.0, same_run=attempts + 1 == policy.attempts and not failure.session)
        return TryAgain(attempts, min(policy.backoff_most, policy.backoff_first * 2 ** (attempts - 1)))
    if policy.then == "stop":
        return Stop(attempts)
    return Park(attempts, apart=apart) if policy.then == "park" else DeadLetter(attempts, apart)


def isolates(attempt: int, policy: Handler) -> bool:
    """Whether the messages of a group are tried one by one after this number of failures."""
    return 0 < policy.isolate_after <= attempt
