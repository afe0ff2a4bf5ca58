"""Sends the lanes of the outbox: claims a batch of a lane, sends it in order, marks it, and continues with the next
batch.

The next batch of a lane is claimed when the last one is marked, so a row that fails delays only its own lane.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal, Protocol

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Outbox as Settings
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.leased import LaneClaims, LaneEnding
from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.errors import ConcurrencyError, SluicegateError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.batch_size import BatchSize
from sluicegate.streams.outbox.lane_lease import LaneLease
from sluicegate.streams.outbox.lane_rows import LaneRows, Sendable
from sluicegate.streams.outbox.lane_run import LaneRun, near
from sluicegate.streams.outbox.sender import Sender

RENEW_AFTER, MARGIN = 0.3, 0.07  # parts of a lease: when it is renewed; how long before its end it is given up
UNORDERED = 4  # concurrent batches if there is no order
LONGEST_WAIT = 5.0  # for a lane whose first row waits for its back-off, in seconds

Phase = Literal["idle", "claiming", "sending", "marking"]


class Lanes(LaneClaims, LaneEnding, Protocol):
    """The methods of the outbox that this file uses."""


class HeldLane:
    """A lane that this process holds or tries to claim. `number` is -1 for rows without order. `until` is the end of
    its lease by the loop's clock, measured from before the call, which `began` then. `checked` is the time of the next
    claim."""

    def __init__(self, number: int, lease: LaneLease) -> None:
        self.number, self.lease = number, lease
        self.after = self.read = 0  # no row up to this number is ours; the number of rows that the last claim read
        self.phase: Phase = "idle"
        self.checked = self.began = self.until = self.renew_at = 0.0
        self.renewing = False
        self.run: LaneRun | None = None  # the batch that is being sent
        self.previous: LaneRun | None = None  # the batch before it
        self.batch: LaneBatch | None = None
        self.last = self.size = 0  # number of the run's last row; size of the claimed batch
        self.failed: Sequence[Outcome] = ()
        self.unmarked: Sequence[Outcome] = ()  # outcomes to mark again: it is unknown whether the last call succeeded
        self.away = ""  # the error if the store or the broker did not answer

    def leased(self, began: float, seconds: float) -> None:
        """A call that began at `began` has leased the lane for `seconds`."""
        self.began, self.until, self.renew_at = began, began + seconds, began + RENEW_AFTER * seconds


class LaneRelay:
    """All lanes of one process, or their rows for one of several clusters. `time` returns seconds since 1970. `lease`
    returns the lease of this process on a lane."""

    def __init__(
        self,
        outbox: Lanes,
        settings: Settings,
        rows: LaneRows,
        sender: Sender,
        calls: BackgroundCalls,
        meter: Meter,
        backoff: Backoff,
        time: Callable[[], float],
        lease: Callable[[int], LaneLease],
        mine: Callable[[LaneRow], bool] | None = None,
    ) -> None:
        """`mine` selects the rows to send; None: all."""
        self._mine = mine
        self._outbox, self._settings, self._rows, self._sender, self._calls = outbox, settings, rows, sender, calls
        self._meter, self._backoff, self._time, self._lease = meter, backoff, time, lease
        self._log = structlog.get_logger()
        self._now, self.closing, self._size = 0.0, False, BatchSize()
        self.lanes: list[HeldLane] = []

    @property
    def busy(self) -> bool:
        return any(lane.phase != "idle" for lane in self.lanes)

    @property
    def away(self) -> str:
        """The error if the store or the broker did not answer; empty otherwise."""
        return next((lane.away for lane in self.lanes if lane.away), "")

    @property
    def sending(self) -> bool:
        return any(lane.run is not None and lane.run.unsent for lane in self.lanes)

    def send(self, now: float) -> None:
        """Handle reports, and hand over rows while there is room."""
        runs = [run for lane in self.lanes if (run := lane.run or lane.previous) is not None]
        self._sender.turn(runs, now, more=any(lane.phase == "claiming" for lane in self.lanes))

    def resize(self, numbers: Sequence[int]) -> None:
        """Follow the number of lanes in the store. It changes only when no row is pending."""
        wanted = [-1] * UNORDERED if self._settings.order == "none" else list(numbers)
        if [lane.number for lane in self.lanes] != wanted and not self.busy:
            known = {lane.number: lane for lane in self.lanes if lane.number >= 0}
            self.lanes = [known.get(number) or HeldLane(number, self._lease(number)) for number in wanted]

    def claim_all(self, now: float) -> None:
        """Claim every idle lane, because rows are pending."""
        self._now = now
        for lane in self.lanes:
            if lane.phase == "idle" and now >= lane.checked and not self.closing:
                self._claim(lane)

    def expire(self, now: float) -> None:
        """Before `send`: give up lanes whose lease could not be renewed."""
        self._now = now
        for lane in self.lanes:
            if (
                lane.run is not None
                and lane.number >= 0
                and lane.run.unsent
                and now >= lane.until - MARGIN * (lane.until - lane.began)
            ):
                self._lose(lane, "its lease could not be renewed in time")

    def turn(self, now: float) -> None:
        """After `send`: renew leases and mark batches."""
        self._now = now
        for lane in self.lanes:
            if lane.run is not None:
                self._follow(lane, lane.run)
            elif lane.unmarked and now >= lane.checked and lane.batch is not None:
                self._send_marks(lane, lane.batch, lane.unmarked)

    def _follow(self, lane: HeldLane, run: LaneRun) -> None:
        if not run.unsent or (self.closing and not run.out):
            self._mark(lane, run)
        elif lane.number < 0 and self._now >= lane.renew_at:
            # rows without order are not renewed: those that are left are claimed again, before the lease ends and
            # another process sends them too
            run.stop()
        elif lane.number >= 0 and self._now >= lane.renew_at and not lane.renewing:
            lane.renewing, seconds = True, lane.lease.seconds
            call = partial(self._outbox.claim, lane.number, lane.lease.token, 1, lane.last, timedelta(seconds=seconds))
            self._calls.begin(
                call, partial(self._renewed, lane, run, self._now, seconds), partial(self._not_renewed, lane)
            )

    # -- taking a lane -------------------------------------------------------------------------------------------------

    def _claim(self, lane: HeldLane) -> None:
        lane.phase, lane.size = "claiming", self._size.rows
        seconds = lane.lease.seconds
        self._calls.begin(
            partial(self._fetched, lane, timedelta(seconds=seconds)),
            partial(self._claimed, lane, self._now, seconds),
            partial(self._unclaimed, lane),
        )

    def _fetched(self, lane: HeldLane, lease: timedelta) -> Sendable | None:
        """Called in a thread. Claim a batch and convert its rows for the producer."""
        if lane.number < 0:
            return self._rows.unordered(self._outbox.claim_any(lane.size, lease))
        batch = self._outbox.claim(lane.number, lane.lease.token, lane.size, lane.after, lease)
        lane.read = len(batch.rows) if batch is not None else 0
        if self._mine is not None and batch is not None:
            batch = self._own(lane, batch, self._mine, lease)
        if batch is None:
            return None
        if failpoints.armed and batch.rows:
            failpoints.hit("lane-claimed")
        return self._rows.ordered(batch)

    def _own(
        self, lane: HeldLane, batch: LaneBatch, mine: Callable[[LaneRow], bool], lease: timedelta
    ) -> LaneBatch | None:
        """The rows of this relay in the batch, or in the batches after it, because other rows may wait for their
        cluster."""
        while not (own := list(filter(mine, batch.rows))) and batch.rows:
            lane.after = batch.rows[-1].number
            if lane.read < lane.size:
                break
            following = self._outbox.claim(lane.number, lane.lease.token, lane.size, lane.after, lease)
            if following is None:
                return None
            batch, lane.read = following, len(following.rows)
        return batch._replace(rows=own)

    def _claimed(self, lane: HeldLane, began: float, seconds: float, sendable: Sendable | None) -> None:
        lane.phase, lane.away = "idle", ""
        if sendable is None:
            return
        batch = sendable.batch
        lane.batch = batch
        lane.leased(began, seconds)
        self._size.seen(batch.rows)
        if sendable.away:
            lane.away, lane.checked = sendable.away, self._now + self._backoff.delay()
        if batch.blocked_until is not None and not batch.rows:
            lane.checked = self._now + min(max(batch.blocked_until.timestamp() - self._time(), 0.05), LONGEST_WAIT)
        # `release` releases the lane: its next holder sends the rows
        if self.closing or not (sendable.rows or sendable.failed):
            return
        failpoints.hit("lane-numbered")
        rows = near(sendable.rows)
        lane.phase, lane.failed = "sending", sendable.failed if len(rows) == len(sendable.rows) else ()
        lane.run, lane.previous = LaneRun(rows, lane.previous), None
        lane.last = rows[-1].number if rows else 0

    def _unclaimed(self, lane: HeldLane, error: SluicegateError) -> None:
        lane.phase = "idle"
        self._unavailable(lane, error)

    def _unavailable(self, lane: HeldLane, error: SluicegateError) -> None:
        lane.checked = self._now + self._backoff.delay()
        if not self.away:
            self._log.warning("outbox.store_unavailable", error=str(error))
        lane.away = str(error)

    # -- keeping it ----------------------------------------------------------------------------------------------------

    def _renewed(self, lane: HeldLane, run: LaneRun, began: float, seconds: float, batch: LaneBatch | None) -> None:
        lane.renewing = False
        if batch is not None:
            lane.away = ""
            lane.leased(began, seconds)
        elif lane.run is run:
            self._lose(lane, "another has it")

    def _not_renewed(self, lane: HeldLane, error: SluicegateError) -> None:
        """Note the error. The renewal is retried until the lease is almost over."""
        lane.renewing = False
        lane.renew_at = self._now + self._backoff.delay()
        lane.away = str(error)

    def _lose(self, lane: HeldLane, why: str) -> None:
        """Give up the lane. Its next holder sends the rows without marks, with the same ids and numbers, so rows in
        flight arrive twice. If this process is the next holder, it does not send rows again that it handed over
        before."""
        self._meter.count("lease_lost")
        lane.lease.lost()
        self._log.warning("outbox.lane_lost", lane=lane.number, reason=why)
        self._forget(lane)
        lane.batch, lane.after = None, 0

    def _forget(self, lane: HeldLane) -> None:
        lane.phase, lane.failed, lane.unmarked = "idle", (), ()
        self._leave(lane)

    def _leave(self, lane: HeldLane) -> None:
        if lane.run is not None:
            lane.run.leave()
            lane.run, lane.previous = None, lane.run if lane.number >= 0 else None

    # -- marking -------------------------------------------------------------------------------------------------------

    def _mark(self, lane: HeldLane, run: LaneRun) -> None:
        batch = lane.batch
        outcomes = run.outcomes(batch, lane.failed) if batch else ()
        if outcomes is None and batch is not None and self._mine is not None:
            # None would be all rows from the first to the last, of other clusters, too
            outcomes = [Outcome(row.id, "dispatched") for row in batch.rows]
        self._leave(lane)
        if batch is None or outcomes == []:
            self._forget(lane)
            return
        failpoints.hit("lane-sent")
        self._send_marks(lane, batch, outcomes)

    def _send_marks(self, lane: HeldLane, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        lane.phase, lane.unmarked = "marking", ()
        call = partial(self._outbox.mark, batch, outcomes)
        self._calls.begin(
            call, lambda _: self._marked(lane, batch, outcomes), partial(self._unmarked, lane, batch, outcomes)
        )

    def _marked(self, lane: HeldLane, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        failpoints.hit("lane-marked")
        lane.away = ""
        lane.lease.kept(self._now - lane.began)
        if lane.previous is not None:
            lane.previous.recorded_all()
            if not lane.previous.remembers:
                lane.previous = None
        self._backoff.reset()
        failed = [outcome for outcome in outcomes or () if outcome.kind == "failed"]
        attempts = {row.id: row.attempts for row in batch.rows} if failed else {}
        for outcome in failed:
            self._count_failed(outcome, attempts[outcome.id] + 1)
        full = lane.read == lane.size or (outcomes is not None and len(outcomes) < len(batch.rows))
        self._forget(lane)
        if full and not failed and not self.closing and self._now >= lane.checked:
            self._claim(lane)

    def _count_failed(self, outcome: Outcome, attempts: int) -> None:
        last = attempts >= self._settings.attempts
        self._meter.count("dispatch_attempts", outcome="poison" if last else "transient")
        if last:
            self._meter.count("dead_rows", reason="poison")
            self._log.error("outbox.row_dead", id=outcome.id, attempts=attempts, error=outcome.error)
        else:
            self._log.warning("outbox.row_failed", id=outcome.id, attempts=attempts, error=outcome.error)

    def _unmarked(
        self, lane: HeldLane, batch: LaneBatch, outcomes: Sequence[Outcome] | None, error: SluicegateError
    ) -> None:
        """It is unknown whether the call succeeded: mark again until it succeeds or another process has the lane."""
        if isinstance(error, ConcurrencyError):
            self._lose(lane, str(error))
        else:
            self._unavailable(lane, error)
            lane.unmarked = [Outcome(row.id, "dispatched") for row in batch.rows] if outcomes is None else outcomes

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Claim and hand over no more rows. Rows in flight are awaited and marked."""
        self.closing = True
        for lane in self.lanes:
            if lane.run is not None:
                lane.run.stop()

    def release(self) -> None:
        """Release all lanes, so other processes can claim them at once."""
        for lane in self.lanes:
            if lane.batch is not None and lane.phase == "idle" and self._now < lane.until:
                self._calls.begin(partial(self._outbox.release, lane.batch), _ignored, _ignored)
            lane.batch = None


def _ignored(result: object) -> None:
    """Does nothing with the result."""
