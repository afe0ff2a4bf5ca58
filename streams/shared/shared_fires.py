"""The second half of `scope: shared`: fires and completes sealed batches, and takes over batches whose lease ended.

A lease only says which worker tries. One compare-and-set completes a batch: it removes the rows and writes the
messages.

A batch that is leased again and again, and is neither completed nor released, may be the one that ends its processes.
From then on it runs alone, so that the end of a process counts against this batch only. In the end it is given up. The
store counts the leases; a worker may not have received all of them. The store also counts the runs alone, each of which
is written before it begins (streams/handlers/attempts.py).
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.group_faults import DEATHS, fault
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import AggregatorBuffer
from sluicegate.streams.contracts.leased_values import Gate, SealedBatch
from sluicegate.streams.errors import ConcurrencyError, EngineFault, Halt, HandlerFailed, SluicegateError
from sluicegate.streams.handlers.attempts import (
    COMPANY,
    UNSUSPECTED,
    Begin,
    Bounds,
    Split,
    Suspicion,
    TryAgain,
    begins,
    bounds,
    suspicion_of,
)
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.handlers.failures import Failures, Policy
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.observe.counting import count_answers, count_events
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared.shared_firing import HandlerError, Made, SharedFiring

BatchOutcome = Made | HandlerError | HandlerFailed | EngineFault | None
"""What became of a batch. HandlerFailed: a group waits for its row. None: another worker has it, or it is
completed."""
LOOK_EVERY = 0.25  # seconds between two looks for deadlines and for ended leases
MOST = 1_000  # leased batches; at this limit intake waits
AT_A_TIME = 100  # batches per look, and per completion
FEW = 8  # if at most this number of batches fail together, each is tried alone
# Completions of many batches that run at once, each in a thread. Batches that become ready meanwhile make the next
# completion larger, so a slow store has fewer completions.
UNDER_WAY = 2


class BatchInHand:
    """A batch that this worker has leased. `at` is the time of its next attempt and `renew_at` the time at which its
    lease is renewed, both on the loop's clock. After a failure with few others it is tried `alone`, because it may be
    the cause. `marked`: the store has recorded that it begins alone. `returned`: a call has returned, so it did not end
    the process. `faults`: how often the engine failed at it, and `fault` is its last error."""

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


class SharedFires:
    """The leased batches of one worker. The loop calls `take` and `turn`. `calls` runs short calls to the store; a call
    in `work` may take as long as a handler. `time` returns seconds since 1970."""

    def __init__(
        self,
        name: str,
        gate: Gate,
        buffer: AggregatorBuffer,
        firing: SharedFiring,
        handling: Handling | None,
        policy: Policy | None,
        calls: BackgroundCalls,
        work: BackgroundCalls,
        meter: Meter,
        clock: Callable[[], float],
        time: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        self._name = name
        self._gate = gate
        self._buffer = buffer
        self._firing = firing
        self._handling = handling
        self._policy = policy
        self._calls = calls
        self._work = work
        self._meter = meter
        self._clock = clock
        self._time = time
        self._backoff = backoff
        self._log = structlog.get_logger().bind(buffer=name)
        self._jobs: dict[str, BatchInHand] = {}
        self._look_at = 0.0
        self._looking = self._renewing = self._stopped = False
        self._careful = False  # whether the last look found a suspect
        self._bounds = Bounds() if policy is None else bounds(policy.handler.attempts, COMPANY)
        # batches per completion: fewer after a failure, because the store's load may have caused it
        self._together = AT_A_TIME
        self.halt: Halt | None = None

    @property
    def full(self) -> bool:
        """Whether intake must pause."""
        return len(self._jobs) >= MOST or self._suspect() is not None

    @property
    def busy(self) -> bool:
        return any(job.running for job in self._jobs.values())

    def take(self, batches: Sequence[SealedBatch]) -> None:
        """Fire these batches, which this worker has leased."""
        now = self._clock()
        for batch in batches:
            job = self._jobs[batch.token] = BatchInHand(batch, now, now + self._gate.lease.total_seconds() / 3)
            if self._policy is not None:
                job.begins = begins(job.suspicion, self._bounds)

    def turn(self, now: float) -> None:
        """One round: process the results of calls, begin batches, renew leases, and look for more batches."""
        self._calls.turn()
        self._work.turn()
        if self._stopped or self.halt is not None:
            return
        if not (self._policy and self._policy.away):
            self._begin(self._ready(now))
        self._renew(now)
        if not self._looking and now >= self._look_at and not self.full:
            self._looking, most = True, 1 if self._careful else AT_A_TIME
            self._calls.begin(
                partial(self._buffer.due, self._name, self._gate, most), partial(self._found, most), self._not_found
            )

    def _renew(self, now: float) -> None:
        """Renew all leases in one call. One call for each would keep the buffer locked for longer than a lease, with a
        thousand batches on a slow store, and the looks for others' leases would wait behind them."""
        if self._renewing or all(job.renew_at > now for job in self._jobs.values()):
            return
        self._renewing, jobs = True, list(self._jobs.values())
        for job in jobs:
            job.renew_at = now + self._gate.lease.total_seconds() / 3
        renew = partial(self._buffer.renew_all, self._name, [job.batch.token for job in jobs], self._gate.lease)
        self._calls.begin(renew, partial(self._renewed, jobs), self._none_renewed)

    def _renewed(self, jobs: Sequence[BatchInHand], kept: Sequence[bool]) -> None:
        self._renewing = False
        for job, ours in zip(jobs, kept, strict=True):
            if not ours:
                self._drop(job)

    def _none_renewed(self, _: SluicegateError) -> None:
        """The store did not answer: the leases last for two more tries."""
        self._renewing = False

    def _suspect(self) -> BatchInHand | None:
        """The next batch that must run alone."""
        if self._policy is None:
            return None
        return next((job for job in self._jobs.values() if job.begins != "together" and not job.returned), None)

    def _ready(self, now: float) -> Sequence[BatchInHand]:
        """The batches that may begin. A suspect may begin when no other batch is leased and nothing runs."""
        suspect = self._suspect()
        if suspect is None:
            return [job for job in self._resting() if job.at <= now]
        self._give_back([job for job in self._resting() if job is not suspect])
        if self._work.running or self._calls.running or suspect.at > now:
            return []
        suspect.failures.ended = suspect.suspicion if suspect.begins == "never" else None
        if suspect.failures.ended or suspect.marked:
            return [suspect]
        times = Suspicion(alone=suspect.suspicion.alone + 1).stored
        mark = partial(self._buffer.renew, self._name, suspect.batch.token, self._gate.lease, times)
        self._calls.begin(mark, partial(self._marked, suspect), partial(self._not_marked, suspect))
        return []

    def _marked(self, suspect: BatchInHand, until: datetime) -> None:
        suspect.marked = True

    def _not_marked(self, suspect: BatchInHand, error: SluicegateError) -> None:
        suspect.at = self._clock() + self._backoff.delay()
        self._not_renewed(suspect, error)

    def _resting(self) -> list[BatchInHand]:
        """The leased batches that do not run."""
        return [job for job in self._jobs.values() if not job.running]

    def _give_back(self, jobs: Sequence[BatchInHand]) -> None:
        """Release these batches at once. Their current lease does not count; if a call has returned, no earlier one
        counts either. A batch that was given up and halted its agent is called once more."""
        for job in jobs:
            self._jobs.pop(job.batch.token)
            attempts = job.suspicion.given_back(job.returned, bool(job.failures.ended), self._bounds.most).stored
            self._calls.begin(
                partial(self._buffer.release, self._name, job.batch, attempts), lambda _: None, lambda _: None
            )

    def _begin(self, jobs: Sequence[BatchInHand]) -> None:
        """Begin these batches. A batch with a handler runs by itself, because the handler may be slow."""
        alone = [job for job in jobs if job.alone or self._handling is not None]
        together = [job for job in jobs if not job.alone and self._handling is None]
        size, free = self._together, max(0, UNDER_WAY - self._work.running)
        parts = [[job] for job in alone] + [
            together[at : at + size] for at in range(0, min(len(together), free * size), size)
        ]
        for some in parts:
            for job in some:
                job.running = True
            self._work.begin(partial(self._fire, some), partial(self._ended, some), partial(self._failed, some))

    def _found(self, most: int, batches: Sequence[SealedBatch]) -> None:
        self._looking = False
        self._backoff.reset()
        self._look_at = self._clock() + (0.0 if len(batches) == most else LOOK_EVERY)
        self.take(batches)
        suspect = self._suspect()
        self._careful = suspect is not None
        if suspect is not None:
            times = suspect.suspicion.alone
            self._log.warning("shared.suspected", batch=suspect.batch.id, alone=times, text="it runs alone")

    def _not_found(self, error: SluicegateError) -> None:
        self._looking, self._look_at = False, self._clock() + self._backoff.delay()
        self._log.warning("shared.store_unavailable", error=str(error))

    def _not_renewed(self, job: BatchInHand, error: SluicegateError) -> None:
        if isinstance(error, ConcurrencyError):
            self._drop(job)

    def _drop(self, job: BatchInHand) -> None:
        """Drop the batch: another worker has it, or it is completed."""
        job.cancelled = True
        if self._jobs.pop(job.batch.token, None) is not None:
            self._meter.count("lease_lost")
            self._firing.left(job.batch)

    def _fire(self, jobs: Sequence[BatchInHand]) -> list[BatchOutcome]:
        """Runs in a thread."""
        outcomes = [job.made or self._made(job) for job in jobs]
        ends = [(job.batch, made.messages) for job, made in zip(jobs, outcomes, strict=True) if isinstance(made, Made)]
        with engine_faults():
            done = self._buffer.complete_all(self._name, ends) if ends else ()
        if failpoints.armed and any(done):
            failpoints.hit("shared-completed")
        ours = iter(done)
        return [made if not isinstance(made, Made) or next(ours) else None for made in outcomes]

    def _made(self, job: BatchInHand) -> BatchOutcome:
        if failpoints.armed:
            failpoints.hit("shared-sealed")
        try:
            if job.faults >= DEATHS:
                job.made = self._firing.given_up(job.batch, job.fault)
            else:
                job.made = self._firing.made(job.batch, self._time(), job.failures, lambda: job.cancelled)
        except (HandlerError, HandlerFailed, EngineFault) as error:
            return error
        except (SluicegateError, failpoints.Failpoint):
            raise
        except Exception as error:
            return fault(error)
        return job.made

    def _ended(self, jobs: Sequence[BatchInHand], outcomes: Sequence[BatchOutcome]) -> None:
        if len(jobs) == self._together:
            self._together = min(AT_A_TIME, 2 * self._together)
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.running, job.returned = False, True
            if isinstance(outcome, HandlerError):
                self._judge(job, outcome)
            elif isinstance(outcome, HandlerFailed):
                job.at = self._clock() + outcome.delay
            elif isinstance(outcome, EngineFault):
                self._faulty(job, outcome)
            elif outcome is None:
                self._drop(job)
            else:
                self._jobs.pop(job.batch.token, None)
                if self._policy is not None:
                    self._policy.well()
                count_events(outcome.events, max(0.0, self._clock() - job.since), self._meter)
                count_answers(outcome.answers, self._meter)
                if outcome.skipped:
                    self._meter.count("records_skipped", outcome.skipped)

    def _judge(self, job: BatchInHand, raised: HandlerError) -> None:
        """Try again, or keep the decision for the dead letter."""
        assert self._handling is not None
        identity, failures = raised.identity, job.failures
        ended = failures.ended or UNSUSPECTED
        try:
            attempt = failures.attempt(identity)
            decision, failed = self._handling.judge(raised.fire, identity, attempt, raised.error, suspicion=ended)
        except Halt as halt:
            self.halt = halt
            self._give_back(self._resting())
            return
        failures.remember(failed, decision)
        if not isinstance(decision, Split):
            job.at = self._clock() + (decision.pause if isinstance(decision, TryAgain) else 0.0)

    def _faulty(self, job: BatchInHand, error: EngineFault) -> None:
        """The engine failed at the batch: count it, and try the batch again, alone."""
        job.faults, job.fault, job.made = job.faults + 1, str(error), None
        job.at, job.alone = self._clock() + self._backoff.delay(), True
        self._log.error("shared.fault", batch=job.batch.id, times=job.faults, error=str(error))

    def _failed(self, jobs: Sequence[BatchInHand], error: SluicegateError) -> None:
        """The store did not answer: repeat the call with the handler's outputs."""
        for job in jobs:
            job.running, job.returned = False, True
        if isinstance(error, EngineFault) and len(jobs) == 1:
            return self._faulty(jobs[0], error)
        if isinstance(error, Halt):
            self.halt = error
            return
        delay = self._backoff.delay()
        self._together = max(FEW, len(jobs) // 4)
        for job in jobs:
            job.at, job.alone = self._clock() + delay, len(jobs) <= FEW
        self._log.warning("shared.not_completed", batch=jobs[0].batch.id, batches=len(jobs), error=str(error))

    def stop(self) -> None:
        """Begin no more batches, and release those that do not run yet."""
        self._stopped = True
        self._give_back(self._resting())

    def finish(self) -> None:
        """The process ends, and no batch caused it: release all leased batches. After an error, wait for running calls
        first."""
        if not self._stopped:
            self._work.finish()
        self._give_back(list(self._jobs.values()))
        self._calls.finish()
