"""Moves due timeouts into the outbox: they are claimed in batches, and each is emitted and removed in one
transaction."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Timeouts as Settings
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import DueTimeouts, TimeoutEmission, TimeoutReading
from sluicegate.streams.contracts.leased_values import TimeoutBatch
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.observe.metrics import Meter

MOST_BATCHES = 32  # in one turn
COUNT_EVERY = 10.0
SHORTEST_WAIT = 0.02  # seconds, after a poll that found nothing


class Due(DueTimeouts, TimeoutEmission, TimeoutReading, Protocol):
    """The methods of the timeout store that this file uses."""


class Emitted(NamedTuple):
    """The number of emitted timeouts, the delay of each in seconds when it was claimed, and the seconds until the next
    poll."""

    messages: int
    lateness: Sequence[float]
    wait: float


class TimeoutEmitter:
    """`time` returns seconds since 1970 and only determines the time of the next poll. The store's clock determines
    which timeouts are due. `emitted` is called when the outbox has new rows. `arrange` is called once before the first
    poll: it creates the rows of the schedules."""

    def __init__(
        self,
        timeouts: Due,
        settings: Settings,
        calls: BackgroundCalls,
        meter: Meter,
        backoff: Backoff,
        time: Callable[[], float],
        emitted: Callable[[], object],
        arrange: Callable[[], None] = lambda: None,
    ) -> None:
        self._timeouts, self._settings, self._calls, self._meter = timeouts, settings, calls, meter
        self._backoff, self._time, self._told = backoff, time, emitted
        self._arrange, self._arranged = arrange, False
        self._log = structlog.get_logger()
        self._claimed: TimeoutBatch | None = None  # locked by this process, possibly not emitted
        self._now = 0.0
        self.due = self._count_at = 0.0
        self.busy = False
        self.away = ""

    def turn(self, now: float) -> None:
        """Poll when it is time."""
        self._now = now
        if not self.busy and now >= self.due:
            self.busy = True
            self._calls.begin(self._emit, self._emitted, self._failed)
        if now >= self._count_at:
            self._count_at = now + COUNT_EVERY
            self._calls.begin(
                self._timeouts.count, lambda count: self._meter.set("timeouts_armed", count), self._failed_to_count
            )

    def _emit(self) -> Emitted:
        """Called in a thread. Emit batch after batch while they are full."""
        if not self._arranged:
            self._arrange()
            self._arranged = True
        count, late = 0, list[float]()
        for _ in range(MOST_BATCHES):
            batch = self._claimed or self._timeouts.get_batch(self._settings.batch)
            if not batch:
                return Emitted(count, late, self._wait(batch))
            self._claimed = batch
            failpoints.hit("timeout-claimed")
            now = self._time()
            count += self._timeouts.emit(batch)
            self._claimed = None
            late += [max(0.0, now - timeout.due_at.timestamp()) for timeout in batch]
            failpoints.hit("timeout-emitted")
            if len(batch) < self._settings.batch:
                return Emitted(count, late, self._wait(batch))
        return Emitted(count, late, 0.0)

    def _wait(self, batch: TimeoutBatch) -> float:
        """The seconds until the next poll: when the next timeout is due, or earlier, because other processes also
        insert timeouts."""
        if batch.next_due is None:
            return self._settings.poll
        return min(self._settings.poll, max(SHORTEST_WAIT, batch.next_due.timestamp() - self._time()))

    def _emitted(self, emitted: Emitted) -> None:
        self.busy, self.away = False, ""
        self._backoff.reset()
        self.due = self._now + emitted.wait
        if emitted.messages:
            self._meter.count("timeouts_emitted", emitted.messages)
            self._told()
        for seconds in emitted.lateness:
            self._meter.observe("timeout_lateness_seconds", seconds)

    def _failed_to_count(self, error: SluicegateError) -> None:
        """Does nothing: the next poll reports that the store does not answer."""

    def _failed(self, error: SluicegateError) -> None:
        """Emit the claimed batch first in the next turn, or claim it again after its lease."""
        self.busy = False
        self.due = self._now + self._backoff.delay()
        if not self.away:
            self._log.warning("timeouts.store_unavailable", error=str(error))
        self.away = str(error)
