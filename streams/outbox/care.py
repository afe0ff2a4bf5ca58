"""Maintains an outbox: deletes old dispatched rows, measures its size, and checks its health."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple, Protocol

import structlog

from sluicegate.streams.agent import Outbox as Settings
from sluicegate.streams.agent import Threshold
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased import LaneClaims, LaneEnding, OutboxHealth, OutboxWriting
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.units import spoken_duration

SWEEP_EVERY = 3600.0  # seconds, or the retention if that is shorter
SWEPT_AT_ONCE = 10_000
MEASURE_EVERY = 5.0
LAST = 1 << 62  # above every number: such a claim takes the lease but no row


class Care(OutboxHealth, OutboxWriting, LaneClaims, LaneEnding, Protocol):
    """The methods of the outbox that this file uses."""


class OutboxSize(NamedTuple):
    """`age` is the age in seconds of the oldest pending row; None if no row is pending."""

    age: float | None
    pending: int
    dead: int


class Sweeper:
    """Deletes rows that were dispatched before the retention, at the start and then at intervals. Among all processes
    only the holder of the first lane does this. `token` returns the token for its lease, and whether to release it at
    once."""

    def __init__(
        self,
        outbox: Care,
        settings: Settings,
        calls: BackgroundCalls,
        meter: Meter,
        token: Callable[[], tuple[str, bool]],
    ) -> None:
        self._outbox, self._settings, self._calls, self._meter, self._token = outbox, settings, calls, meter, token
        self._log = structlog.get_logger()
        self.due = 0.0
        self._now = 0.0
        self._busy = False

    def turn(self, now: float) -> None:
        self._now = now
        if not self._busy and now >= self.due:
            self._busy = True
            self._calls.begin(self._sweep, self._swept, self._failed)

    def _sweep(self) -> int | None:
        token, give_back = self._token()
        first = self._outbox.lane_numbers()[0]
        batch = self._outbox.claim(first, token, 1, LAST, timedelta(seconds=self._settings.lease))
        if batch is None:
            return None
        try:
            return self._outbox.sweep(timedelta(seconds=self._settings.retention), SWEPT_AT_ONCE)
        finally:
            if give_back:
                self._outbox.release(batch)

    def _swept(self, rows: int | None) -> None:
        self._busy = False
        if rows:
            self._meter.count("retention_deleted", rows)
        if rows != SWEPT_AT_ONCE:
            self.due = self._now + min(SWEEP_EVERY, max(1.0, self._settings.retention))

    def _failed(self, error: SluicegateError) -> None:
        self._busy = False
        self.due = self._now + MEASURE_EVERY
        self._log.warning("outbox.not_swept", error=str(error))


class Health:
    """Measures the outbox and checks it against the limits of the file."""

    def __init__(self, outbox: OutboxHealth, settings: Settings, calls: BackgroundCalls, meter: Meter) -> None:
        self._outbox, self._settings, self._calls, self._meter = outbox, settings, calls, meter
        self.size: OutboxSize | None = None
        self.due = 0.0
        self._now = 0.0
        self._busy = False

    def turn(self, now: float) -> None:
        self._now = now
        if not self._busy and now >= self.due:
            self._busy = True
            self._calls.begin(self._measure, self._measured, self._failed)

    def _measure(self) -> OutboxSize:
        age = self._outbox.pending_age()
        pending = 0 if age is None else self._outbox.count("pending")
        return OutboxSize(None if age is None else age.total_seconds(), pending, self._outbox.count("dead"))

    def _measured(self, size: OutboxSize) -> None:
        self._busy, self.due, self.size = False, self._now + MEASURE_EVERY, size
        self._meter.set("outbox_rows", size.pending, state="pending")
        self._meter.set("outbox_rows", size.dead, state="dead")
        self._meter.set("outbox_rows_oldest_age_seconds", size.age or 0.0)

    def _failed(self, error: SluicegateError) -> None:
        """Does nothing: the relay reports that the store does not answer."""
        self._busy, self.due = False, self._now + MEASURE_EVERY

    def unhealthy(self) -> list[str]:
        """The reasons why the outbox is not ready."""
        return list(self._reached(self._settings.unhealthy))

    def degraded(self) -> list[str]:
        """The reasons why the outbox is degraded."""
        return list(self._reached(self._settings.degraded))

    def _reached(self, limit: Threshold) -> Iterator[str]:
        if self.size is None:
            return
        if self.size.age is not None and self.size.age >= limit.age:
            yield f"the oldest pending row of the outbox is {spoken_duration(round(self.size.age))} old"
        if self.size.dead >= limit.dead:
            yield f"{self.size.dead} rows of the outbox are dead: `sluicegate outbox ls`"
