"""The metric for the number of records in the buffer of `scope: shared`.

The buffer belongs to all workers of the agent, so only one of them counts: the owner of the first partition of the
first topic. PostgreSQL, MariaDB, SQLite and MongoDB read one index entry for each row of the buffer; Redis adds a few
counters. The time between two counts is EVERY seconds, or SHARE times the duration of the last count, whichever is
longer.
"""

from collections.abc import Callable

import structlog

from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import BufferReading
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.observe.metrics import Meter

EVERY, SHARE = 15.0, 100.0
METRIC = "buffered_records"


class SharedSize:
    """The counter of one worker. The loop calls `turn` and passes whether this worker counts."""

    def __init__(
        self, name: str, buffer: BufferReading, calls: BackgroundCalls, meter: Meter, clock: Callable[[], float]
    ) -> None:
        self._name, self._buffer, self._calls, self._meter, self._clock = name, buffer, calls, meter, clock
        self._log = structlog.get_logger()
        self._counts = self._busy = False
        self._took = self.due = 0.0

    def turn(self, now: float, counts: bool) -> None:
        self._calls.turn()
        if self._counts and not counts:
            self._meter.unset(METRIC)
        self._counts = counts
        if counts and not self._busy and now >= self.due:
            self._busy = True
            self._calls.begin(self._count, self._counted, self._failed)

    def _count(self) -> int:
        """Called in a thread."""
        begun = self._clock()
        try:
            return self._buffer.count(self._name)
        finally:
            self._took = self._clock() - begun

    def _counted(self, records: int) -> None:
        self._ended()
        if self._counts:
            self._meter.set(METRIC, records)

    def _failed(self, error: SluicegateError) -> None:
        """Remove the metric, because an old number would look current."""
        self._ended()
        self._meter.unset(METRIC)
        self._log.debug("shared.not_counted", buffer=self._name, error=str(error))

    def _ended(self) -> None:
        self._busy, self.due = False, self._clock() + max(EVERY, SHARE * self._took)
