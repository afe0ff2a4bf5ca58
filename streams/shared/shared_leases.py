"""The sealed batches that one worker has leased from the shared buffer: it polls for them, renews their leases and
releases them.

A batch that is leased repeatedly, and is neither completed nor released, may end its processes. From then on it runs
alone, so the end of a process counts against this batch only. In the end it is given up. The store counts the leases; a
worker may not have received all of them. The store also counts the runs alone. Each of them is recorded before it
begins (streams/handlers/attempts.py).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import structlog

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import AggregatorBuffer
from sluicegate.streams.contracts.leased_values import Gate, SealedBatch
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import ConcurrencyError, SluicegateError
from sluicegate.streams.handlers.attempts import Begin, Bounds, Suspicion, begins, suspicion_of
from sluicegate.streams.handlers.failures import Failures
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared.shared_firing import Made

LOOK_EVERY = 0.25  # seconds between two polls for deadlines and ended leases
MOST = 1_000  # leased batches; at this limit intake waits
AT_A_TIME = 100  # batches per poll


class BatchInHand:
    """A batch that this worker has leased. `at` is the time of its next attempt, `renew_at` the time of the next
    renewal of its lease, both on the loop's clock. After a failure together with few others it is tried `alone`,
    because it may be the cause. `marked`: the store has recorded that it begins alone. `returned`: a call has returned,
    so it did not end the process. `faults` counts the errors of the engine at it, and `fault` is the last one."""

    __slots__ = (
        *("alone", "at", "batch", "begins", "cancelled", "failures", "fault", "faults"),
        *("made", "marked", "renew_at", "returned", "running", "since"),
    )

    def __init__(self, batch: SealedBatch, now: float, renew_at: float) -> None:
        self.batch, self.since, self.renew_at = batch, now, renew_at
        self.at: float = now
        self.running = self.cancelled = self.alone = self.marked = self.returned = False
        self.made: Made | None = None
        self.failures = Failures()
        self.faults, self.fault = 0, ""
        self.begins: Begin = "together"

    @property
    def suspicion(self) -> Suspicion:
        return suspicion_of(self.batch.attempts)


class SharedLeases:
    """The leases of one worker. `calls` runs short calls to the store. `on_loss` is called for a batch that another
    worker has. Without `bounds` no batch is suspected, because there is no handler that could end the process."""

    def __init__(
        self,
        name: str,
        gate: Gate,
        buffer: AggregatorBuffer,
        calls: BackgroundCalls,
        on_loss: Callable[[SealedBatch], object],
        bounds: Bounds | None,
        meter: Meter,
        clock: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        self.name, self._gate, self._buffer, self.calls = name, gate, buffer, calls
        self._on_loss, self._bounds, self._meter, self._clock, self._backoff = on_loss, bounds, meter, clock, backoff
        self._log = structlog.get_logger().bind(buffer=name)
        self._jobs: dict[str, BatchInHand] = {}
        self._look_at = 0.0
        self._looking = self._renewing = False
        self._careful = False  # whether the last poll found a suspect

    @property
    def full(self) -> bool:
        """Whether intake must pause."""
        return len(self._jobs) >= MOST or self.suspect() is not None

    @property
    def busy(self) -> bool:
        return any(job.running for job in self._jobs.values())

    def resting(self) -> list[BatchInHand]:
        """The leased batches that are not running."""
        return [job for job in self._jobs.values() if not job.running]

    def suspect(self) -> BatchInHand | None:
        """The next batch that must run alone."""
        if self._bounds is None:
            return None
        return next((job for job in self._jobs.values() if job.begins != "together" and not job.returned), None)

    def take(self, batches: Sequence[SealedBatch]) -> None:
        """Add batches that this worker has leased."""
        now = self._clock()
        for batch in batches:
            job = self._jobs[batch.token] = BatchInHand(batch, now, now + self._gate.lease.total_seconds() / 3)
            if self._bounds is not None:
                job.begins = begins(job.suspicion, self._bounds)

    def turn(self, now: float) -> None:
        """Renew leases, and poll for more batches."""
        self._renew(now)
        if not self._looking and now >= self._look_at and not self.full:
            self._looking, most = True, 1 if self._careful else AT_A_TIME
            self.calls.begin(
                partial(self._buffer.due, self.name, self._gate, most), partial(self._polled, most), self._poll_failed
            )

    def _polled(self, most: int, batches: Sequence[SealedBatch]) -> None:
        self._looking = False
        self._backoff.reset()
        self._look_at = self._clock() + (0.0 if len(batches) == most else LOOK_EVERY)
        self.take(batches)
        suspect = self.suspect()
        self._careful = suspect is not None
        if suspect is not None:
            times = suspect.suspicion.alone
            self._log.warning("shared.suspected", batch=suspect.batch.id, alone=times, text="it runs alone")

    def _poll_failed(self, error: SluicegateError) -> None:
        self._looking, self._look_at = False, self._clock() + self._backoff.delay()
        self._log.warning("shared.store_unavailable", error=str(error))

    def _renew(self, now: float) -> None:
        """Renew all leases in one call. With a thousand batches on a slow store, one call for each would lock the
        buffer for longer than a lease, and block other workers' polls for ended leases."""
        if self._renewing or all(job.renew_at > now for job in self._jobs.values()):
            return
        self._renewing, jobs = True, list(self._jobs.values())
        for job in jobs:
            job.renew_at = now + self._gate.lease.total_seconds() / 3
        renew = partial(self._buffer.renew_all, self.name, [job.batch.token for job in jobs], self._gate.lease)
        self.calls.begin(renew, partial(self._renewed, jobs), self._none_renewed)

    def _renewed(self, jobs: Sequence[BatchInHand], kept: Sequence[bool]) -> None:
        self._renewing = False
        for job, ours in zip(jobs, kept, strict=True):
            if not ours:
                self.drop(job)

    def _none_renewed(self, _: SluicegateError) -> None:
        """The store did not answer. The leases last for two more attempts."""
        self._renewing = False

    def mark(self, suspect: BatchInHand) -> None:
        """Record in the store that the batch begins alone."""
        times = Suspicion(alone=suspect.suspicion.alone + 1).stored
        mark = partial(self._buffer.renew, self.name, suspect.batch.token, self._gate.lease, times)
        self.calls.begin(mark, partial(self._marked, suspect), partial(self._not_marked, suspect))

    def _marked(self, suspect: BatchInHand, until: datetime) -> None:
        suspect.marked = True

    def _not_marked(self, suspect: BatchInHand, error: SluicegateError) -> None:
        suspect.at = self._clock() + self._backoff.delay()
        if isinstance(error, ConcurrencyError):
            self.drop(suspect)

    def complete(self, ends: Sequence[tuple[SealedBatch, Sequence[OutboxMessage]]]) -> Sequence[bool]:
        """Remove these batches and write their messages. Called in a thread. Returns for each whether it belonged to
        this worker."""
        return self._buffer.complete_all(self.name, ends) if ends else ()

    def end(self, job: BatchInHand) -> None:
        """Remove a completed batch."""
        self._jobs.pop(job.batch.token, None)

    def drop(self, job: BatchInHand) -> None:
        """Remove a batch that another worker has, or that is completed."""
        job.cancelled = True
        if self._jobs.pop(job.batch.token, None) is not None:
            self._meter.count("lease_lost")
            self._on_loss(job.batch)

    def give_back(self, jobs: Sequence[BatchInHand]) -> None:
        """Release these batches at once. Their current lease does not count. If a call has returned, earlier leases do
        not count either. A batch that was given up and halted its agent gets one more call."""
        most = (self._bounds or Bounds()).most
        for job in jobs:
            self._jobs.pop(job.batch.token)
            attempts = job.suspicion.given_back(job.returned, bool(job.failures.ended), most).stored
            self.calls.begin(
                partial(self._buffer.release, self.name, job.batch, attempts), lambda _: None, lambda _: None
            )

    def finish(self) -> None:
        """At the end of the process, release all batches, because none of them caused it."""
        self.give_back(list(self._jobs.values()))
        self.calls.finish()
