"""Calls handlers outside of the loop. Sealed items run in the pool. A failure is judged for its item and key."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any
from weakref import WeakSet

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import Decided, Event, Fire
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, GroupNumber
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.handlers.admission import CallAdmission, NotAdmitted
from sluicegate.streams.handlers.attempts import Park, Split, TryAgain, bounds
from sluicegate.streams.handlers.failures import Policy, why_given_up
from sluicegate.streams.handlers.handling import Handling, given_up
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import FailureVerdict, Parted, Sealed, SealedItem
from sluicegate.streams.journal.amending import appended


class Slow:
    """Runs the sealed items of all partitions of one worker."""

    def __init__(
        self, handler: Handler, handling: Handling, pool: Pool, policy: Policy, admission: CallAdmission | None = None
    ) -> None:
        self._handler, self._handling, self._pool, self._policy = handler, handling, pool, policy
        self._admission = admission or CallAdmission()
        self._stopped = False
        self._all: WeakSet[Sealed] = WeakSet()
        self._ours: dict[tuple[str, int], dict[GroupNumber, tuple[int, int]]] = {}  # by partition, as Sealed.ours
        self._log = structlog.get_logger()

    def sealed(self, place: tuple[str, int]) -> Sealed:
        """Create the empty container for the sealed items of one partition."""
        bound = bounds(self._handler.attempts)
        waiting = Sealed(place, bound, self._handling.unsealed, self._ours.setdefault(place, {}))
        self._all.add(waiting)
        return waiting

    def resumed(self, sealed: Sealed) -> None:
        """After a restore: do not count the last attempt of an item that began in this process. The loss of the claim
        interrupted it, not the end of a process. If another process began an attempt since then, the item stays a
        suspect."""
        for number, (began, _) in sealed.ours.items():
            again = sealed.by_number.get(number)
            if again is None or again.attempts < began:
                continue
            if again.attempts == began:
                sealed.suspects.discard(number)
            sealed.ours[number] = began, again.attempts
            again.attempts -= 1

    def stop(self) -> None:
        """Begin no more calls: the process is about to end."""
        self._stopped = True

    def work(self, sealed: Sealed, now: float) -> bool:
        """Whether there is work for a commit."""
        self._admission.turn(now)
        if sealed.changed:
            return True
        slots, suspects_only = self._room()
        return slots > 0 and bool(sealed.ready(now, suspects_only))

    def _room(self) -> tuple[int, bool]:
        """The number of calls that may begin, and whether only suspects may begin. During an outage no call may begin.
        After a process end, the items that were running then run alone, one after the other. So the item that ends its
        process again is identified, and no other item is blamed."""
        if self._stopped or self._policy.away:
            return 0, False
        here = [sealed for sealed in self._all if not sealed.cancelled.is_set()]
        if any(sealed.suspects for sealed in here):
            return 0 if any(sealed.running for sealed in here) else 1, True
        return self._pool.free(), False

    def decide(self, sealed: Sealed, items: Sequence[Item], identify: Identify, now: float) -> list[Event]:
        """Seal new items, judge the calls that ended, and select the calls that begin. Call `start` after the
        commit."""
        events: list[Event] = []
        for item in self._admission.accept(items, sealed.place):
            if isinstance(item, Decided):
                events.append(item)
            else:
                sealed.seal(item)
        judge = partial(self.judge, identify)
        events += sealed.decide(judge, now)
        slots, suspects_only = self._room()
        others = (
            item
            for other in self._all
            if other is not sealed and not other.cancelled.is_set()
            for item in other.ready(now, suspects_only)
        )
        ready = self._admission.order(sealed.ready(now, suspects_only), others, slots)
        first, ended = self.with_rows(sealed, now, ready[: max(0, slots)])
        events += [*ended, *sealed.begin(judge, now, self._admission.admit(first, now))]
        sealed.delay(ready, now)
        self._remember(sealed, ended=True)
        return events

    def with_rows(
        self, sealed: Sealed, now: float, ready: Sequence[SealedItem]
    ) -> tuple[Sequence[SealedItem], Sequence[Event]]:
        """The items with the rows that their calls need, and the events of items that end here."""
        return ready, ()

    def _remember(self, sealed: Sealed, ended: bool) -> None:
        """Note the attempts of this process: the active ones, and those that were given back and have not begun again.
        Attempts that `ended` are noted until the commit is durable."""
        ours, items = sealed.ours, sealed.by_number
        kept = {
            number: known
            for number, known in ours.items()
            if (items[number].attempts < known[1] if number in items else ended)
        }
        ours.clear()
        ours.update(kept | {number: (attempts, attempts) for number, attempts in sealed.active().items()})

    def start(self, sealed: Sealed, identify: Identify) -> None:
        """Run the items that were begun. Call it when their attempts are durable."""
        if failpoints.armed:
            _hit(sealed.logged)
        self._remember(sealed, ended=False)
        for item in sealed.begun():
            self._pool.submit(partial(self._job, sealed, item, identify(item.number)))

    def _job(self, sealed: Sealed, item: SealedItem, identity: str) -> None:
        """Run one call in a thread of the pool. Never raises."""
        if not self._admission.enter(item, sealed.cancelled):
            sealed.results.append((item, NotAdmitted()))
            return
        try:
            failpoints.hit("handler-running")
            outcome: Any = self._handling.call(item.item, identity, item.attempts, sealed.cancelled.is_set, item.rows)
            failpoints.hit("handler-done")
            self._policy.well()
        except Exception as error:
            attempt = identity, item.attempts, sealed.cancelled.is_set, item.rows
            outcome = self._handling.isolated(item.item, error, *attempt)
        self._admission.release(item)
        sealed.results.append((item, outcome))

    def judge(self, identify: Identify, item: SealedItem, error: Exception) -> FailureVerdict:
        """Decide what follows the failure of the item's last attempt. Raises HandlerStopped."""
        if isinstance(error, NotAdmitted):
            return TryAgain(item.attempts - 1, 0.0)
        decision, failed = self._handling.judge(item.item, identify(item.number), item.attempts, error)
        if isinstance(decision, TryAgain):
            return decision
        if isinstance(decision, Split):
            assert isinstance(item.item, Fire)
            return Parted(*self._handling.members.without(item.item, decision.bad))
        if isinstance(decision, Park):
            return Park(decision.attempts, failed.parked(decision.attempts))
        return Parted([given_up(item.item, why_given_up(failed), decision.attempts)], None)


def given_back(store: Store, claim: Claim, sealed: Sealed, halted: bool = False) -> Claim:
    """Uncount the attempts that a stop, or the loss of the partition, interrupts. This requires a valid claim.
    `halted`: also uncount the last attempt of items that failed for good, so a corrected handler is called. Returns the
    next claim."""
    last = sealed.bounds.most if halted else inf
    cut_off = {
        item.number: item.attempts - 1
        for item in sealed.by_number.values()
        if item.state == "running" or item.attempts >= last
    }
    if not cut_off:
        return claim
    try:
        after = appended(store, claim, sealed=Section({}, cut_off))
    except SluicegateError as error:
        topic, number = claim.partition.topic, claim.partition.number
        structlog.get_logger().debug("partition.attempts_count", topic=topic, partition=number, error=str(error))
        return claim
    for cut in cut_off:
        sealed.ours.pop(cut, None)
    return after


def _hit(logged: Section) -> None:
    if any(item is not None for item in logged.items.values()):
        failpoints.hit("sealed")
    if logged.attempts:
        failpoints.hit("attempt-marked")
    if any(item is None for item in logged.items.values()):
        failpoints.hit("complete-sent")
