"""The places at which a process can die in a test. It dies by an exception that the engine does not catch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport, Store
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
"""The failpoints that every record passes."""
HANDLERS = ("sealed", "attempt-marked", "handler-running", "handler-done", "complete-sent")
"""The failpoints around slow handlers."""
AROUND = ("claim-asked", "claim-answered", "commit-asked", "commit-answered", "row-offered", "report-arrived")
"""Before and after each claim and commit, before the hand-over of a row, before its report."""
DISPATCHER = ("timeout-claimed", "timeout-emitted", "lane-claimed", "lane-numbered", "lane-sent", "lane-marked")
"""In the dispatcher: due timeouts become messages, and messages are sent."""
SHARED = ("shared-inserted", "shared-sealed", "shared-completed")
"""With `scope: shared`: records are in the buffer, a batch is about to fire, a batch is completed."""
TRANSACTIONS = ("txn-produced", "txn-committed")
"""With `delivery: transactional`: a transaction is open with all its rows, a transaction has ended."""
SWITCHES = ("switch-decided", "switch-sent", "earlier-decided", "earlier-committed")
"""Before and after the commit with which a partition changes to a deployed version of its rule, and each commit while
groups of an earlier version are open."""
PLACES = (*ENGINE, *HANDLERS, *AROUND, *DISPATCHER, *SHARED, *TRANSACTIONS, *SWITCHES)
REPLIES = ("claim-asked", "claim-answered", "commit-asked", "commit-answered", "commit-sent")
"""The places at which the store can fail to answer: at `asked` before it did anything, else afterwards."""
SAME = frozenset({"after-claim", "commit-sent", "after-commit", "expire-committed", *SWITCHES})
"""Failpoints right beside a place of AROUND. They are not counted."""
KINDS: dict[str, tuple[str, ...]] = {"kill": PLACES, "lost": REPLIES}


class Death(BaseException):
    """The death of the process as with kill -9: nothing is cleaned up, and its workers do not continue."""


class Deaths:
    """Counts the places that the engine reaches. At place number `at` (from 1) and at the planned places the process
    dies, or the store fails to answer. `reached` lists all places, `done` the places at which a failure happened."""

    def __init__(self, at: int | None = None, kind: DeathKind = "kill") -> None:
        self._at, self._kind = at, kind
        self.planned: dict[str, DeathKind] = {}
        self.reached: list[str] = []
        self.done: list[str] = []
        self._hurry = False

    def plan(self, name: str, kind: DeathKind) -> None:
        """Fail when the place `name` is reached next. Raises ConfigurationError for an unknown place or kind."""
        if kind not in KINDS:
            raise ConfigurationError(f"there is no kind {kind!r} of crash; there are {' and '.join(KINDS)}")
        if name not in KINDS[kind]:
            raise ConfigurationError(
                f"there is no place {name!r} for a crash of kind {kind}; there are {', '.join(KINDS[kind])}"
            )
        self.planned[name] = kind

    def reach(self, name: str) -> None:
        """Counts the place, and fails there if that is planned."""
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
        """The random part of a backoff. After a lost reply it is negative, so that nothing waits and the clock can
        stand still."""
        hurry, self._hurry = self._hurry, False
        return -1.0 if hurry else 0.0


class MortalStore:
    """A store whose claims and commits can fail. Its time is the clock of the test. `writes` counts the claims and
    commits that were done."""

    def __init__(self, store: Store, deaths: Deaths, clock: ManualClock) -> None:
        self._store, self._deaths, self._clock = store, deaths, clock
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        return self._written("claim", lambda: self._store.claim(partition, token, member))

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        return self._written("commit", lambda: self._store.commit(claim, changes))

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        return self._written("commit", lambda: self._store.commit_with(claim, work))

    def _written(self, what: str, write: Callable[[], Claim]) -> Claim:
        self._deaths.reach(f"{what}-asked")
        claim = write()
        self.writes += 1
        self._deaths.reach(f"{what}-answered")
        return msgspec.structs.replace(claim, store_time=self._clock.time())

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        """Commit one partition after the other, so that a process can die between two commits."""
        results: list[Claim | SluicegateError] = []
        for claim, changes in commits:
            try:
                results.append(self.commit(claim, changes))
            except SluicegateError as error:
                results.append(error)
        return results


class MortalProducer:
    """A producer that lets a process die at its rows and reports."""

    def __init__(self, producer: LogProducer, deaths: Deaths) -> None:
        self._producer, self._deaths = producer, deaths

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        self._deaths.reach("row-offered")
        return self._producer.produce(row, partial(self._report, report))

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return one_by_one(self.produce, rows, reports)

    def _report(self, report: DeliveryReport, outcome: str, text: str) -> None:
        self._deaths.reach("report-arrived")
        report(outcome, text)
