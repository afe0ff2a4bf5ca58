"""The second half of `scope: shared`: fires and completes sealed batches, and takes over batches whose lease ended.

A lease only determines which worker tries. One compare-and-set completes a batch: it removes the rows and writes the
messages.
"""

from collections.abc import Callable, Sequence
from functools import partial

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.group_faults import DEATHS, fault
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.errors import EngineFault, Halt, HandlerFailed, SluicegateError
from sluicegate.streams.handlers.attempts import UNSUSPECTED, Split, TryAgain
from sluicegate.streams.handlers.engine_faults import engine_faults
from sluicegate.streams.handlers.failures import Policy
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.observe.counting import count_answers, count_events
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared.shared_firing import HandlerError, Made, SharedFiring
from sluicegate.streams.shared.shared_leases import AT_A_TIME, BatchInHand, SharedLeases

BatchOutcome = Made | HandlerError | HandlerFailed | EngineFault | None
"""The outcome of a batch. HandlerFailed: a group waits for its row. None: another worker has the batch, or it is
completed."""
FEW = 8  # if at most this number of batches fail together, each is tried alone
# Concurrent completions of many batches, each in a thread. Batches that become ready meanwhile make the next
# completion larger, so a slow store has fewer completions.
UNDER_WAY = 2


class SharedFires:
    """Fires the batches that one worker has leased. The loop calls `turn`. A call in `work` may take as long as a
    handler. `time` returns seconds since 1970."""

    def __init__(
        self,
        leases: SharedLeases,
        firing: SharedFiring,
        handling: Handling | None,
        policy: Policy | None,
        work: BackgroundCalls,
        meter: Meter,
        clock: Callable[[], float],
        time: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        self.leases, self._firing, self._handling, self._policy, self._work = leases, firing, handling, policy, work
        self._meter, self._clock, self._time, self._backoff = meter, clock, time, backoff
        self._log = structlog.get_logger().bind(buffer=leases.name)
        self._stopped = False
        # batches per completion: fewer after a failure, because the store's load may have caused it
        self._together = AT_A_TIME
        self.halt: Halt | None = None

    def turn(self, now: float) -> None:
        """Run one turn: process the results of calls, begin batches, renew leases, and poll for more batches."""
        self.leases.calls.turn()
        self._work.turn()
        if self._stopped or self.halt is not None:
            return
        if not (self._policy and self._policy.away):
            self._begin(self._ready(now))
        self.leases.turn(now)

    def _ready(self, now: float) -> Sequence[BatchInHand]:
        """The batches that may begin. A suspect may begin when no other batch is leased and nothing runs."""
        leases, suspect = self.leases, self.leases.suspect()
        if suspect is None:
            return [job for job in leases.resting() if job.at <= now]
        leases.give_back([job for job in leases.resting() if job is not suspect])
        if self._work.running or leases.calls.running or suspect.at > now:
            return []
        suspect.failures.ended = suspect.suspicion if suspect.begins == "never" else None
        if suspect.failures.ended or suspect.marked:
            return [suspect]
        leases.mark(suspect)
        return []

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

    def _fire(self, jobs: Sequence[BatchInHand]) -> list[BatchOutcome]:
        """Called in a thread."""
        outcomes = [job.made or self._made(job) for job in jobs]
        ends = [(job.batch, made.messages) for job, made in zip(jobs, outcomes, strict=True) if isinstance(made, Made)]
        with engine_faults():
            done = self.leases.complete(ends)
        if any(done):
            failpoints.hit("shared-completed")
        ours = iter(done)
        return [made if not isinstance(made, Made) or next(ours) else None for made in outcomes]

    def _made(self, job: BatchInHand) -> BatchOutcome:
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
                self.leases.drop(job)
            else:
                self.leases.end(job)
                if self._policy is not None:
                    self._policy.well()
                count_events(outcome.events, max(0.0, self._clock() - job.since), self._meter)
                count_answers(outcome.answers, self._meter)
                if outcome.skipped:
                    self._meter.count("records_skipped", outcome.skipped)

    def _judge(self, job: BatchInHand, raised: HandlerError) -> None:
        """Retry the batch, or keep the decision for the dead letter."""
        assert self._handling is not None
        identity, failures = raised.identity, job.failures
        ended = failures.ended or UNSUSPECTED
        try:
            attempt = failures.attempt(identity)
            decision, failed = self._handling.judge(raised.fire, identity, attempt, raised.error, suspicion=ended)
        except Halt as halt:
            self.halt = halt
            self.leases.give_back(self.leases.resting())
            return
        failures.remember(failed, decision)
        if not isinstance(decision, Split):
            job.at = self._clock() + (decision.pause if isinstance(decision, TryAgain) else 0.0)

    def _faulty(self, job: BatchInHand, error: EngineFault) -> None:
        """Count an error of the engine at the batch, and retry the batch alone."""
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
        """Begin no more batches, and release the batches that do not run yet."""
        self._stopped = True
        self.leases.give_back(self.leases.resting())

    def finish(self) -> None:
        """At the end of the process, release all leased batches, because none of them caused it. After an error, wait
        for running calls first."""
        if not self._stopped:
            self._work.finish()
        self.leases.finish()
