"""Runs the dispatcher step by step: due timeouts move to the outbox, and messages of its lanes to the log."""

from datetime import UTC, datetime

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.leased_values import TimeoutBatch
from sluicegate.streams.contracts.messages import Outcome
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.outbox.lane_rows import LaneRows
from sluicegate.streams.outbox.schedules import arranged
from sluicegate.streams.testing.deaths import Deaths
from sluicegate.streams.testing.log import LogProducer, ManualClock

MOST = 1_000  # rows of a batch
TOKEN = "driver"  # of all lanes: a process that is started again keeps them


class Dispatch:
    """A dispatcher. When its process dies, its leases end at once."""

    def __init__(
        self, store: Store, producer: LogProducer, clock: ManualClock, deaths: Deaths, app: App | None = None
    ) -> None:
        self._timeouts, self._outbox = store.timeouts, store.outbox
        self._producer, self._clock, self._deaths = producer, clock, deaths
        self._rows = LaneRows(producer, "driver")
        self._claimed: TimeoutBatch | None = None
        self._app, self._arranged = app, app is None

    def turn(self) -> None:
        """Runs until nothing is due or pending."""
        if self._app is not None and not self._arranged:
            arranged(self._timeouts, self._app, datetime.fromtimestamp(self._clock.time(), UTC))
            self._arranged = True
        while batch := self._timeouts.get_batch(MOST):
            self._claimed = batch
            self._deaths.reach("timeout-claimed")
            self._timeouts.emit(batch)
            self._deaths.reach("timeout-emitted")
        self._claimed = None
        if self._outbox.count():
            for lane in self._outbox.lane_numbers():
                while self._send(lane):
                    pass

    def _send(self, lane: int) -> bool:
        batch = self._outbox.claim(lane, TOKEN, MOST)
        if batch is None or not batch.rows:
            return False
        self._deaths.reach("lane-claimed")
        rows = self._rows.ordered(batch).rows
        self._deaths.reach("lane-numbered")
        for row in rows:
            self._producer.produce(row, lambda outcome, text: None)
        self._producer.poll()
        self._deaths.reach("lane-sent")
        self._outbox.mark(batch, [Outcome(row.id, "dispatched") for row in batch.rows])
        self._deaths.reach("lane-marked")
        return True

    def die(self) -> None:
        for timeout in self._claimed or ():
            self._timeouts.release(timeout.id)
        self._claimed = None

    def due_in(self) -> float:
        """Seconds until the next timeout, 0 when it is due."""
        due = self._timeouts.next_due()
        return float("inf") if due is None else max(0.0, due.timestamp() - self._clock.time())
