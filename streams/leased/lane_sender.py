"""Batches of lanes to the producer: in order, never past a failure, never blocking the loop.

The hot path of the dispatcher: what each row costs here counts, so rows are handed over, and their reports heard, many at a time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.contracts import Output, OutputTogether, Reports
from sluicegate.streams.engine.backoff import Backoff
from sluicegate.streams.engine.relay import CODE, GIVE_UP_AFTER, SPREAD
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.values import OutboxRow


class SenderOutput(Output, OutputTogether, Protocol):
    """What of a producer is used here."""


class Run:
    """Rows of one batch on their way, by number; satisfies sluicegate.streams.contracts.Reports. When it is `over`,
    reports change nothing."""

    def __init__(self, rows: Sequence[OutboxRow], sender: "Sender") -> None:
        self.rows = list(rows)
        self.over = False
        self.sent: list[int] = []  # numbers, as their reports came
        self.dead: dict[int, str] = {}  # with what the broker said
        self.denied: dict[int, str] = {}  # with what their topics said
        self._sender = sender
        self._next = self._ended = 0  # rows handed over, and those of them that nothing more is done for
        self._chunks: list[tuple[int, float]] = []  # first number of what was handed over together, and when

    @property
    def out(self) -> int:
        """Rows handed over, without a report that ends them."""
        return self._next - self._ended

    @property
    def unsent(self) -> int:
        return len(self.rows) - self._ended

    @property
    def waiting(self) -> Sequence[OutboxRow]:
        return self.rows[self._next :]

    def stop(self) -> None:
        """Nothing more is handed over."""
        del self.rows[self._next :]

    def handed(self, count: int, now: float) -> None:
        """So many of the waiting ones."""
        self._chunks.append((self.rows[self._next].number, now))
        self._next += count

    def again(self) -> None:
        """Everything without a report is to be sent again, lowest first, before anything newer."""
        ended = {*self.sent, *self.dead, *self.denied}
        self.rows = [row for row in self.rows if row.number not in ended]
        self._next = self._ended = 0
        self._chunks.clear()

    def delivered(self, numbers: Sequence[int]) -> None:
        if self.over:
            return
        if failpoints.armed:
            failpoints.hit("acked-not-recorded")
        self._ended += len(numbers)
        self.sent += numbers
        for since, count in self._times(numbers).items():
            self._sender.took(since, count)

    def _times(self, numbers: Sequence[int]) -> dict[float, int]:
        """How many of these were handed over when."""
        if len(self._chunks) == 1:
            return {self._chunks[0][1]: len(numbers)}
        times: dict[float, int] = {}
        for number in numbers:
            since = self._chunks[bisect_right(self._chunks, number, key=_first) - 1][1]
            times[since] = times.get(since, 0) + 1
        return times

    def refused(self, number: int, outcome: str, text: str) -> None:
        if self.over:
            return
        row = next(row for row in self.rows if row.number == number)
        if outcome == "failed":
            self._sender.failed(number, text)
            return
        self._ended += 1
        if outcome == "denied":
            self.denied[number] = text
            self.stop()  # nothing goes past it
        else:
            self.dead[number] = text
            self._sender.rejected(row, text)


def _first(chunk: tuple[int, float]) -> int:
    return chunk[0]


class Sender:
    """All runs of one process on its producer."""

    def __init__(self, output: SenderOutput, meter: Meter, backoff: Backoff) -> None:
        self._output, self._meter, self._backoff = output, meter, backoff
        self._log = structlog.get_logger()
        self._failed_at: float | None = None
        self._resume_at = 0.0
        self._now = 0.0
        self._gathering = False  # rows were handed over that wait for others
        self._took: dict[float, int] = {}  # successes of this turn, by the time of their hand-over

    def turn(self, runs: Sequence[Run], now: float, more: bool = False) -> int:
        """Serve reports, hand over what there is room for; returns how many rows are unreported. Never blocks. With `more` rows to come
        soon, these wait for them as long as linger.ms says: the broker's work is by the request, four times less a row so."""
        self._now = now
        outstanding = self._output.poll()
        if self._took:
            self._tally(now)
        if self._failed_at is not None:
            self._recover(runs, outstanding, self._failed_at)
        elif now >= self._resume_at:
            full = not all(self._hand(run) for run in runs)
            if self._gathering and (full or not more):
                self._gathering = False
                self._output.send_now()
        return outstanding

    def _hand(self, run: Run) -> bool:
        """False: the producer's queue is full; go on at the next turn."""
        waiting = run.waiting
        if not waiting:
            return True
        taken = self._output.produce_all(waiting, run)
        if taken:
            self._gathering = True
            run.handed(taken, self._now)
        if failpoints.armed:
            for _ in range(taken):
                failpoints.hit("produced-not-acked")
        return taken == len(waiting)

    def took(self, since: float, count: int) -> None:
        self._took[since] = self._took.get(since, 0) + count

    def failed(self, number: int, text: str) -> None:
        self._meter.count("dispatch_attempts", outcome="transient")
        if self._failed_at is None:
            self._failed_at = self._now
            self._log.warning("relay.failed", error=text, number=number)

    def rejected(self, row: OutboxRow, text: str) -> None:
        self._meter.count("dispatch_attempts", outcome="rejected")
        self._meter.count("dead_rows", reason=(CODE.search(text) or ["other"])[0])
        self._log.error("relay.row_dead", error=text, number=row.number, id=row.id, topic=row.topic)

    def _tally(self, now: float) -> None:
        self._backoff.reset()
        self._meter.count("dispatch_attempts", sum(self._took.values()), outcome="success")
        for since, times in self._took.items():
            self._meter.observe("dispatch_seconds", now - since, times)
        self._took.clear()

    def _recover(self, runs: Sequence[Run], outstanding: int, failed_at: float) -> None:
        """After a failed delivery: nothing is handed over until every report is in, then all runs begin anew."""
        if outstanding and self._now - failed_at < GIVE_UP_AFTER:
            return
        self._output.replace()
        for run in runs:
            run.again()
        self._failed_at, self._resume_at = None, self._now + self._backoff.delay()


def near(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    """Those within SPREAD of the first one's number, as far as receivers remember; the others go with a later batch."""
    return [row for row in rows if row.number < rows[0].number + SPREAD]


def one_by_one(output: Output, rows: Sequence[OutboxRow], reports: Reports) -> int:
    """`produce_all` of a producer that has no other way."""
    for taken, row in enumerate(rows):
        if not output.produce(row, partial(_reported, reports, row.number)):
            return taken
    return len(rows)


def _reported(reports: Reports, number: int, outcome: str, text: str) -> None:
    if outcome == "delivered":
        reports.delivered((number,))
    else:
        reports.refused(number, outcome, text)
