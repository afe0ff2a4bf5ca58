"""The process that sends rows of the outbox and emits due timeouts: a loop, and threads for calls of stores."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import structlog

from sluicegate.streams.agent import App, Outbox
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.leased import Leased
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Clock, Output, Producer
from sluicegate.streams.errors import ConcurrencyError, SluicegateError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import DISPATCHER, WorkerReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.care import Health, Sweeper
from sluicegate.streams.outbox.due import TimeoutEmitter
from sluicegate.streams.outbox.lane_clusters import ClusterLanes, LaneSending, going_to
from sluicegate.streams.outbox.lane_lease import LaneLeases
from sluicegate.streams.outbox.lane_relay import LaneRelay
from sluicegate.streams.outbox.lane_rows import LaneRows
from sluicegate.streams.outbox.lane_spans import TracedOutput
from sluicegate.streams.outbox.schedules import arranged
from sluicegate.streams.outbox.sender import Sender

THREADS = 6
REPORT_EVERY = 1.0
IDLE, RELAYING = 0.25, 0.003  # seconds to rest, without and with rows under way
LOOK_APART = 0.1  # seconds between two polls that `tell` causes: each may need a claim for every lane
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # after a call that failed


class DispatcherDependencies(NamedTuple):
    """The dependencies of a dispatcher. `time` returns seconds since 1970, `random` a number in [0, 1), `token` a new
    random name. `source` is the store's incarnation. Without `spans` tracing is off. `outputs` are the producers of
    several clusters, by the names that topics use for them; `producer` has all of them."""

    store: Leased
    close: Callable[[], object]
    source: str
    producer: Producer
    clock: Clock
    time: Callable[[], float]
    meter: Meter
    random: Callable[[], float]
    token: Callable[[], str]
    report: Callable[[WorkerReport], object]
    pool: Pool
    spans: Spans | None = None
    mac: Mac | None = None
    outputs: Mapping[str, Output] = MappingProxyType({})


class Dispatcher:
    """`run` returns 0 after `stop`, or raises an error that ends the process."""

    def __init__(self, app: App, parts: DispatcherDependencies) -> None:
        self._app, self._parts = app, parts
        self._log = structlog.get_logger().bind(agent=DISPATCHER)
        self._woken = threading.Event()
        self._told = threading.Event()  # set if there are new rows
        self._calls = BackgroundCalls(parts.pool, self._woken.set)
        self.lanes = self._lane_sending(app.outbox) if app.outbox else None
        self._emitter = self._timeout_emitter() if app.timeouts else None
        self._sweeper, self.health = self._care()
        self._look_at = self._report_at = 0.0
        self._looking = self._looked = self._draining = False
        self._away = ""  # the error of the last poll
        self._stuck = ""  # the reason why the number of lanes differs from the file

    def _backoff(self) -> Backoff:
        return Backoff(FIRST_PAUSE, LONGEST_PAUSE, self._parts.random)

    def _lane_sending(self, settings: Outbox) -> LaneSending:
        leases, outputs = LaneLeases(self._parts.token, settings.lease), self._parts.outputs
        relay = partial(self._lane_relay, settings, leases)
        if not outputs:
            return relay(self._parts.producer)
        return ClusterLanes({name: relay(output, going_to(name, outputs)) for name, output in outputs.items()})

    def _lane_relay(
        self, settings: Outbox, leases: LaneLeases, producer: Output, mine: Callable[[LaneRow], bool] | None = None
    ) -> LaneRelay:
        parts = self._parts
        rows = LaneRows(parts.producer, parts.source, parts.mac)
        output = producer if parts.spans is None else TracedOutput(producer, parts.spans)
        sender = Sender(output, parts.meter, self._backoff())
        return LaneRelay(
            parts.store.outbox,
            settings,
            rows,
            sender,
            self._calls,
            parts.meter,
            self._backoff(),
            parts.time,
            leases.of,
            mine,
        )

    def _timeout_emitter(self) -> TimeoutEmitter:
        parts, settings = self._parts, self._app.timeouts
        assert settings is not None
        return TimeoutEmitter(
            parts.store.timeouts,
            settings,
            self._calls,
            parts.meter,
            self._backoff(),
            parts.time,
            self.tell,
            lambda: arranged(parts.store.timeouts, self._app, datetime.fromtimestamp(parts.time(), UTC)),
        )

    def _care(self) -> tuple[Sweeper | None, Health | None]:
        settings, outbox, meter = self._app.outbox, self._parts.store.outbox, self._parts.meter
        if settings is None:
            return None, None
        own = self._parts.token()
        return Sweeper(outbox, settings, self._calls, meter, lambda: self._first_token(own)), Health(
            outbox, settings, self._calls, meter
        )

    def _first_token(self, own: str) -> tuple[str, bool]:
        """The token for the lease of the first lane, and whether to release it. It is the relay's token, if the relay
        has lanes."""
        lane = self.lanes.lanes[0] if self.lanes and self.lanes.lanes else None
        return (own, True) if lane is None or lane.number < 0 else (lane.lease.token, False)

    def tell(self) -> None:
        """Wake the loop because there are new rows. Thread-safe."""
        self._told.set()
        self._woken.set()

    def run(self, stop: Callable[[], bool], drain: float = 30.0) -> int:
        """Work until `stop()` is true. Then wait up to `drain` seconds for running calls and rows in flight, and
        release the lanes."""
        self._log.info("dispatcher.running", pid=os.getpid())
        if self.lanes is not None:
            threading.Thread(target=self._listen, name="outbox-wait", daemon=True).start()
        try:
            while not stop():
                self.turn()
                self._woken.wait(self.rest())
                self._woken.clear()
        except BaseException:
            self._calls.finish()
            raise
        self._drain(self._parts.clock.monotonic() + drain)
        if self._parts.spans is not None:
            self._parts.spans.flush()
        self._parts.producer.close()
        self._parts.close()
        self._log.info("dispatcher.stopped")
        return 0

    def turn(self) -> None:
        """Run one turn: results of calls, reports and hand-overs, marks, polls, and due timeouts."""
        now = self._parts.clock.monotonic()
        self._calls.turn()
        if self.lanes is not None:
            self.lanes.expire(now)
            self.lanes.send(now)
            self.lanes.turn(now)
            self._look(now)
        for part in (self._emitter, self._sweeper, self.health):
            if part is not None and not self._draining:
                part.turn(now)
        if now >= self._report_at:
            self._report_at = now + REPORT_EVERY
            self._parts.report(self.describe(now))

    def rest(self) -> float:
        """The seconds until the next turn, unless `tell` or a call wakes the loop before."""
        now = self._parts.clock.monotonic()
        if self.lanes is not None and self.lanes.sending:
            return RELAYING
        due = [self._look_at] if self.lanes is not None and not self._looking else []
        due += [self._emitter.due] if self._emitter is not None and not self._emitter.busy else []
        return max(0.0, min([IDLE, *(at - now for at in due)]))

    # -- looking for rows ----------------------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """Poll for pending rows. This is one cheap query. Lanes are claimed only if it finds rows."""
        if self._looking or self._draining or self.lanes is None:
            return
        if self._told.is_set() and now >= self._look_at - self._poll() + LOOK_APART:
            self._told.clear()
        elif now < self._look_at:
            return
        self._looking, self._look_at = True, now + self._poll()
        self._calls.begin(self._pending, self._polled, self._poll_failed)

    def _poll(self) -> float:
        return 1.0 if self._app.outbox is None else self._app.outbox.poll

    def _pending(self) -> tuple[Sequence[int], bool, str]:
        """Called in a thread. Returns the numbers of the lanes, whether rows are pending, and the reason if the number
        of lanes differs from the file."""
        if self._parts.mac is not None:
            self._parts.mac.renew()
        outbox, wanted = self._parts.store.outbox, self._app.outbox.lanes if self._app.outbox else None
        pending = outbox.pending_age() is not None
        count, stuck = outbox.lanes(), ""
        if wanted is not None and wanted != count:
            try:
                outbox.set_lanes(wanted)
            except ConcurrencyError:
                stuck = f"the outbox has {count} lanes, not {wanted}, until nothing in it is pending"
        return outbox.lane_numbers(), pending, stuck

    def _polled(self, answer: tuple[Sequence[int], bool, str]) -> None:
        numbers, pending, stuck = answer
        assert self.lanes is not None
        self._looking, self._looked = False, True
        self._away = ""
        if stuck and not self._stuck:
            self._log.warning("outbox.lanes_unchanged", reason=stuck)
        self._stuck = stuck
        self.lanes.resize(numbers)
        if pending:
            self.lanes.claim_all(self._parts.clock.monotonic())

    def _poll_failed(self, error: SluicegateError) -> None:
        self._looking = False
        if not self._away:
            self._log.warning("outbox.store_unavailable", error=str(error))
        self._away = str(error)

    def _listen(self) -> None:
        """Called in its own thread. Wait for the store's notice of new rows, if it sends notices."""
        while not self._draining:
            began = self._parts.clock.monotonic()
            try:
                if self._parts.store.outbox.wait(self._poll()):
                    self.tell()
                elif self._parts.clock.monotonic() - began < self._poll() / 2:
                    return
            except SluicegateError:
                threading.Event().wait(self._poll())

    # -- the end, and the reports --------------------------------------------------------------------------------------

    def _drain(self, deadline: float) -> None:
        clock = self._parts.clock
        self._draining = True
        self._log.info("dispatcher.draining")
        self._parts.report(self.describe(clock.monotonic()))
        if self.lanes is not None:
            self.lanes.close()
        while (self._calls.running or (self.lanes is not None and self.lanes.busy)) and clock.monotonic() < deadline:
            self.turn()
            self._parts.producer.flush(RELAYING)
        if self.lanes is not None:
            self.lanes.release()
        while self._calls.running and clock.monotonic() < deadline:
            self._calls.turn()
            self._woken.wait(RELAYING)

    def describe(self, now: float) -> WorkerReport:
        """The dispatcher's status."""
        reasons = list(self._reasons())
        degraded = [self._stuck] if self._stuck else []
        degraded += self.health.degraded() if self.health else []
        metrics = self._parts.meter.snapshot()
        return WorkerReport(DISPATCHER, 0, os.getpid(), now, not reasons, reasons or degraded, metrics=metrics)

    def _reasons(self) -> Sequence[str]:
        if self._draining:
            return ["draining"]
        away = [
            reason
            for reason in (self._away, self.lanes and self.lanes.away, self._emitter and self._emitter.away)
            if reason
        ]
        if away:
            return [f"a system does not answer: {away[0]}"]
        if self.lanes is not None and not self._looked:
            return ["starting"]
        return self.health.unhealthy() if self.health else []
