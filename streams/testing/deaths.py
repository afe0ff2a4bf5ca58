"""The places at which a process can die, and dying there without a process: by an exception that nothing in the engine
catches."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

import msgspec

from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport, Producer, Store
from sluicegate.streams.contracts.values import Changes, Claim, OutboxRow, Partition
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SluicegateError
from sluicegate.streams.testing.log import LogProducer, ManualClock, one_by_one

DeathKind = Literal["kill", "lost"]

ENGINE = (
    "after-poll",
    "after-decode",
    "before-commit",
    "commit-sent",
    "after-commit",
    "after-claim",
    "in-restore",
    "after-restore",
    "produced-not-acked",
    "acked-not-recorded",
    "expire-selected",
    "expire-committed",
)
"""The engine's failpoints on every way of a record."""
HANDLERS = ("sealed", "attempt-marked", "handler-running", "handler-done", "complete-sent")
"""Its failpoints around slow handlers."""
AROUND = ("claim-asked", "claim-answered", "commit-asked", "commit-answered", "row-offered", "report-arrived")
"""Before and after each claim and commit, before the hand-over of a row, before its report."""
DISPATCHER = ("timeout-claimed", "timeout-emitted", "lane-claimed", "lane-numbered", "lane-sent", "lane-marked")
"""Where timeouts that are due become messages, and where messages are sent."""
SHARED = ("shared-inserted", "shared-sealed", "shared-completed")
"""Where records of `scope: shared` are in the buffer, a batch is about to be fired, and completed."""
TRANSACTIONS = ("txn-produced", "txn-committed")
"""Of `delivery: transactional`: a transaction is open with all its rows, has ended."""
PLACES = (*ENGINE, *HANDLERS, *AROUND, *DISPATCHER, *SHARED, *TRANSACTIONS)
REPLIES = ("claim-asked", "claim-answered", "commit-asked", "commit-answered", "commit-sent")
"""Where the store can fail to answer: `asked` before it did anything, the others after."""
SAME = frozenset({"after-claim", "commit-sent", "after-commit", "expire-committed"})
"""Failpoints beside a place of AROUND, with nothing between: not counted."""


class Death(BaseException):
    """As kill -9: nothing is tidied up, and the workers are not turned again."""


class Deaths:
    """Counts the places that are reached (`reached`, by name); at number `at` (from 1), and where `plan` says, the
    process dies, or the store fails to answer. `done` names the places where that happened."""

    def __init__(self, at: int | None = None, kind: DeathKind = "kill") -> None:
        self._at, self._kind = at, kind
        self.planned: dict[str, DeathKind] = {}
        self.reached: list[str] = []
        self.done: list[str] = []
        self._hurry = False

    def plan(self, name: str, kind: DeathKind) -> None:
        """When `name` is reached next. Raises ConfigurationError."""
        known: dict[str, tuple[str, ...]] = {"kill": PLACES, "lost": REPLIES}
        if kind not in known:
            raise ConfigurationError(f"there is no kind {kind!r} of crash; there are {' and '.join(known)}")
        if name not in known[kind]:
            raise ConfigurationError(
                f"there is no place {name!r} for a crash of kind {kind}; there are {', '.join(known[kind])}"
            )
        self.planned[name] = kind

    def reach(self, name: str) -> None:
        """The engine is at this place."""
        kind = self.planned.pop(name, None)
        if name not in SAME:
            self.reached.append(name)
            if len(self.reached) == self._at:
                kind = self._kind
        if kind is None:
            return
        self.done.append(name)
        if kind == "lost":
            self._hurry = True
            raise PersistenceError(f"the store does not answer at {name}: by the test")
        raise Death(name)

    def jitter(self) -> float:
        """For Backoff: least, and once after the test lost a reply no wait at all, so that the clock need not be moved
        for it."""
        hurry, self._hurry = self._hurry, False
        return -1.0 if hurry else 0.0


class MortalStore:
    """A store around whose claims and commits a process can die; its time is the test's clock. `writes` counts them."""

    def __init__(self, store: Store, deaths: Deaths, clock: ManualClock) -> None:
        self._store, self._deaths, self._clock = store, deaths, clock
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        self._deaths.reach("claim-asked")
        claim = self._store.claim(partition, token, member)
        self.writes += 1
        self._deaths.reach("claim-answered")
        return self._timed(claim)

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        self._deaths.reach("commit-asked")
        after = self._store.commit(claim, changes)
        self.writes += 1
        self._deaths.reach("commit-answered")
        return self._timed(after)

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        self._deaths.reach("commit-asked")
        after = self._store.commit_with(claim, work)
        self.writes += 1
        self._deaths.reach("commit-answered")
        return self._timed(after)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        """One after the other: so a process can die between them."""
        results: list[Claim | SluicegateError] = []
        for claim, changes in commits:
            try:
                results.append(self.commit(claim, changes))
            except SluicegateError as error:
                results.append(error)
        return results

    def _timed(self, claim: Claim) -> Claim:
        return msgspec.structs.replace(claim, store_time=self._clock.time())


class MortalProducer:
    """A producer around whose rows and reports a process can die."""

    def __init__(self, producer: LogProducer, deaths: Deaths) -> None:
        self._producer, self._deaths = producer, deaths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        self._deaths.reach("row-offered")
        return self._producer.produce(row, partial(self._told, report))

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return one_by_one(self.produce, rows, reports)

    def _told(self, report: DeliveryReport, outcome: str, text: str) -> None:
        self._deaths.reach("report-arrived")
        report(outcome, text)


def mortal_store(store: Store, deaths: Deaths, clock: ManualClock) -> tuple[Store, MortalStore]:
    """The same object twice: as a Store, which mypy cannot see through `__getattr__`, and as what it is."""
    made = MortalStore(store, deaths, clock)
    return cast(Store, made), made


def mortal_producer(producer: LogProducer, deaths: Deaths) -> Producer:
    return cast(Producer, MortalProducer(producer, deaths))
