"""Early results of `scope: shared`: each worker looks for open groups whose result is due, and writes it.

A lease only determines which worker tries. One compare-and-set counts the result of the group and writes its messages.
A result that could not be made is tried again when the lease has ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import BufferEarly
from sluicegate.streams.contracts.leased_values import Gate, OpenBatch
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.observe.counting import count_answers, count_events
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared.shared_firing import Made, SharedFiring
from sluicegate.streams.shared.shared_leases import AT_A_TIME, LOOK_EVERY


class SharedEarly:
    """The early results that one worker writes. The loop calls `turn`. `time` returns seconds since 1970."""

    def __init__(
        self,
        name: str,
        gate: Gate,
        buffer: BufferEarly,
        firing: SharedFiring,
        calls: BackgroundCalls,
        meter: Meter,
        clock: Callable[[], float],
        time: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        self._name, self._gate, self._buffer, self._firing, self._calls = name, gate, buffer, firing, calls
        self._meter, self._clock, self._time, self._backoff = meter, clock, time, backoff
        self._log = structlog.get_logger().bind(buffer=name)
        self._look_at = 0.0
        self._together = AT_A_TIME  # results of one look: fewer when a lease has ended before they were written
        self._looking = self._stopped = False

    def turn(self, now: float) -> None:
        """Look for results that are due. Such a look may take as long as its results."""
        self._calls.turn()
        if not (self._stopped or self._looking) and now >= self._look_at:
            self._looking = True
            self._calls.begin(self._write, self._written, self._failed)

    def _write(self) -> tuple[int, Sequence[Made]]:
        """Called in a thread. Returns how many results were due, and those that were written."""
        batches = self._buffer.early(self._name, self._gate, self._together)
        if not batches:
            return 0, ()
        failpoints.hit("shared-sealed")
        pairs = [self._made(batch) for batch in batches]
        done = self._buffer.complete_early(self._name, self._gate, [(batch, made.messages) for batch, made in pairs])
        if any(done):
            failpoints.hit("shared-completed")
        return len(batches), [made for (_, made), ours in zip(pairs, done, strict=True) if ours]

    def _made(self, batch: OpenBatch) -> tuple[OpenBatch, Made]:
        """The result of a group. One that cannot be made is left out, and covers no record: the last result has the
        same data."""
        try:
            return batch, self._firing.early(batch, self._time())
        except Exception as error:
            self._log.warning("shared.early_left_out", group=batch.group, error=type(error).__name__)
            return replace(batch, last=0), Made((), (), {}, 0)

    def _written(self, outcome: tuple[int, Sequence[Made]]) -> None:
        due, results = outcome
        self._looking = False
        self._backoff.reset()
        self._look_at = self._clock() + (0.0 if due == self._together else LOOK_EVERY)
        self._together = max(1, due // 2) if len(results) < due else min(AT_A_TIME, 2 * self._together)
        for made in results:
            count_events(made.events, 0.0, self._meter)
            count_answers(made.answers, self._meter)

    def _failed(self, error: SluicegateError) -> None:
        self._looking, self._look_at = False, self._clock() + self._backoff.delay()
        self._log.warning("shared.store_unavailable", error=str(error))

    def stop(self) -> None:
        """Begin no more results."""
        self._stopped = True

    def finish(self) -> None:
        """Wait for the results that are being written."""
        self._stopped = True
        self._calls.finish()
