"""The supervisor of the worker processes: one child process per agent and worker, restarted when it ends; and the HTTP
port.

Signal handlers only write to a queue. The main thread starts all processes and waits for that queue.
"""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType

import msgspec
import structlog

from sluicegate.schemas.native import kernel
from sluicegate.streams.agent import App
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.config.checking import values
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.observe.board import Board, WorkerName
from sluicegate.streams.observe.http import NO_CALLS, HttpCalls, serve
from sluicegate.streams.observe.logs import configure
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.otel_metrics import exported
from sluicegate.streams.observe.pages import pages
from sluicegate.streams.observe.release import version
from sluicegate.streams.observe.report import DISPATCHER, WorkerReport
from sluicegate.streams.processes.child import FENCED, INSTANCE, ProcessJob, RuleChange
from sluicegate.streams.processes.process import Ended, ProcessEvent, out_of_memory_kills, spawn

CHILD = (sys.executable, "-P", "-m", "sluicegate.streams.cli.child")

SAME_SIGNAL = 1.0
KILLED = 6  # the exit code if processes had to be killed at the end
OUT_OF_MEMORY = (
    "the kernel ended the process for lack of memory; a batch of records may unpack to more than is free, so a process "
    "of its own fetches each partition first; if it happens again, give the worker more memory"
)
FENCES = 3  # a run ends when one of its processes was fenced so often, and lived for a short time each time

Pause = Callable[[float], None]
"""Waits for this number of seconds. A signal ends the wait and the start."""

Prepare = Callable[[App, Sequence[str], Pause], AbstractContextManager[App]]
"""Checks that the systems are ready for these agents. Returns the App for the workers, for example with the embedded
broker's real address. Its resources live as long as the context. Raises ConfigurationError and SystemNotReady."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds: a worker's time to drain and its extra time, the bounds of the restart back-off, and how long a
    worker must live to count as healthy."""

    drain: float = 30.0
    grace: float = 5.0
    first_restart: float = 0.2
    slowest_restart: float = 30.0
    healthy: float = 60.0


MakeCalls = Callable[[Board], tuple[HttpCalls, Callable[[], None]]]
"""Makes the calls of the HTTP port, and the function that closes what they opened."""

WatchGroups = Callable[[App, Sequence[str], Board], AbstractContextManager[None]]
"""Updates the board, while the context is open, with facts that no worker knows."""

Fresh = Callable[[App], App]
"""The App for a process that is restarted, with the current secrets."""


class Stopped(Exception):
    """A signal came before the workers were started."""


def run(
    app: App,
    agents: Sequence[str] = (),
    workers: int = 1,
    on_rule_change: RuleChange = "refuse",
    http: bool = True,
    *,
    prepare: Prepare,
    command: Sequence[str] = CHILD,
    pace: Pace = Pace(),
    log_level: str = "info",
    fresh: Fresh = lambda app: app,
    calls: MakeCalls | None = None,
    watch: WatchGroups = lambda app, agents, board: contextlib.nullcontext(),
) -> int:
    """Run the agents (all, or the named ones) until a signal: then 0, or KILLED; else 2, 3 or FENCED."""
    configure(level=log_level)
    events: queue.SimpleQueue[ProcessEvent] = queue.SimpleQueue()
    board, meter = Board(time.monotonic), Meter()
    meter.set("build_info", 1, version=version())
    with _signals(events):
        try:
            _checked(app)
            names = chosen(app, agents)
            with (
                _observed(app, http, board, meter, calls),
                prepare(app, names, lambda seconds: _pause(events, seconds)) as ready,
                watch(app, names, board),
            ):
                numbers = tuple(range(workers))
                job = ProcessJob(ready, names, numbers, on_rule_change, -1, os.getpid(), pace.drain, log_level)
                return Supervisor(command, jobs(job), events, board, meter, pace, fresh).run()
        except Stopped:
            return 0
        except ConfigurationError as error:
            structlog.get_logger().error("run.refused", error=str(error))
            return 2
        except SystemNotReady as error:
            structlog.get_logger().error("run.not_ready", error=str(error))
            return 3


def chosen(app: App, agents: Sequence[str]) -> tuple[str, ...]:
    """The agents to run, in the file's order, each together with its re-keying agent. Raises ConfigurationError for a
    name that the file does not have."""
    known = [agent.name for agent in app.agents]
    wanted = {*agents, *(agent.name for agent in app.agents if agent.rekeys in agents)}
    for name in agents:
        if name not in known:
            raise ConfigurationError(f"there is no agent {name!r}; the file has {', '.join(known)}")
    return tuple(name for name in known if name in wanted or not agents)


def jobs(whole: ProcessJob) -> list[ProcessJob]:
    """The job of each process: one agent and worker, and one process for the dispatcher. If the state lives in the
    process, one job holds everything."""
    dispatches = whole.app.outbox is not None or whole.app.timeouts is not None
    if whole.app.store.startswith("memory:"):
        return [msgspec.structs.replace(whole, dispatches=dispatches)]
    parts = [
        msgspec.structs.replace(whole, agents=(agent,), workers=(worker,))
        for agent in whole.agents
        for worker in whole.workers
    ]
    return [*parts, msgspec.structs.replace(whole, agents=(), workers=(0,), dispatches=True)] if dispatches else parts


@dataclass(eq=False, slots=True)
class Slot:
    """One process to keep running. `due` is the time to start it; None while it runs. `fences` counts how often
    another run took its place in the group, since it last lived long. `kills` are those of the kernel for lack of
    memory before the start."""

    job: ProcessJob
    backoff: Backoff
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    due: float | None = 0.0
    was_ready: bool = False
    fences: int = 0
    kills: int = 0

    @property
    def workers(self) -> list[WorkerName]:
        agents = [(agent, worker) for agent in self.job.agents for worker in self.job.workers]
        return [*agents, (DISPATCHER, 0)] if self.job.dispatches else agents


class Supervisor:
    """Keeps one process per job running, until a signal arrives or a process reports that it can never run."""

    def __init__(
        self,
        command: Sequence[str],
        jobs: Sequence[ProcessJob],
        events: queue.SimpleQueue[ProcessEvent],
        board: Board,
        meter: Meter,
        pace: Pace,
        fresh: Fresh,
    ) -> None:
        self._command = command
        self._events = events
        self._board = board
        self._meter = meter
        self._pace = pace
        self._fresh = fresh
        self._slots = [Slot(job, Backoff(pace.first_restart, pace.slowest_restart, random.random)) for job in jobs]
        self._log = structlog.get_logger()

    def run(self) -> int:
        """Start all processes, watch them, and end them. Returns the exit code."""
        for slot in self._slots:
            for worker in slot.workers:
                self._board.expect(worker, None)
        self._board.phase("running")
        code = None
        while code is None:
            for slot in self._slots:
                if slot.due is not None and slot.due <= time.monotonic():
                    self._start(slot)
            event = self._next(min((slot.due for slot in self._slots if slot.due is not None), default=None))
            if isinstance(event, Ended):
                code = self._ended(event)
            elif event is not None:
                code = 0
        return self._stop(code)

    def _next(self, until: float | None) -> ProcessEvent | None:
        """The next event, or None at that time."""
        try:
            return self._events.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
        except queue.Empty:
            return None

    def _start(self, slot: Slot) -> None:
        def receive(report: WorkerReport) -> None:
            slot.was_ready |= report.ready
            self._board.put(report)

        try:
            if slot.since:
                slot.job = msgspec.structs.replace(slot.job, app=self._fresh(slot.job.app))
            slot.kills = out_of_memory_kills()
            slot.process = spawn(self._command, slot.job, self._events, receive)
        except OSError as error:
            self._log.error("worker.not_started", workers=slot.workers, error=str(error))
            self._restart_later(slot)
            return
        slot.since, slot.due = time.monotonic(), None
        for agent, worker in slot.workers:
            self._board.expect((agent, worker), slot.process.pid)
            self._log.info(_event(agent, "started"), agent=agent, worker=worker, pid=slot.process.pid)

    def _ended(self, event: Ended) -> int | None:
        """Handle an unexpected end of a process: restart it, or return an exit code if a restart cannot help."""
        slot = self._forget(event)
        if event.code == 2 or (event.code == 3 and not slot.was_ready):
            return event.code
        if time.monotonic() - slot.since >= self._pace.healthy:
            slot.backoff.reset()
            slot.fences = 0
        slot.fences += event.code == FENCED
        if slot.fences == FENCES:
            self._log.error(
                "run.fenced", reason=f"another run has the same name: give each run of the app a {INSTANCE} of its own"
            )
            return FENCED
        out_of_memory = event.code == -signal.SIGKILL and out_of_memory_kills() > slot.kills
        slot.job = msgspec.structs.replace(slot.job, probes_first=out_of_memory)
        for agent, worker in slot.workers:
            self._meter.count("worker_restarts", agent=agent, worker=str(worker))
            if out_of_memory:
                self._log.error("worker.out_of_memory", agent=agent, worker=worker, text=OUT_OF_MEMORY)
        self._restart_later(slot)
        return None

    def _restart_later(self, slot: Slot) -> None:
        delay = slot.backoff.delay()
        slot.due = time.monotonic() + delay
        for agent, number in slot.workers:
            self._board.expect((agent, number), None)
            self._log.warning(_event(agent, "restarting"), agent=agent, worker=number, seconds=round(delay, 3))

    def _forget(self, event: Ended) -> Slot:
        slot = next(slot for slot in self._slots if slot.process is not None and slot.process.pid == event.pid)
        assert slot.process is not None
        assert slot.process.stdin is not None
        with contextlib.suppress(OSError):
            slot.process.stdin.close()
        slot.process = None
        for agent, worker in slot.workers:
            self._log.info(_event(agent, "ended"), agent=agent, worker=worker, pid=event.pid, code=event.code)
        return slot

    def _stop(self, code: int) -> int:
        """Report not ready first. Then send SIGTERM to all, and SIGKILL to those that exceed their time, or at a second
        signal."""
        self._board.phase("stopping")
        self._log.info("supervisor.stopping", code=code)
        self._signal(signal.SIGTERM)
        deadline: float | None = time.monotonic() + self._pace.drain + self._pace.grace
        while any(slot.process for slot in self._slots):
            event = self._next(deadline)
            if isinstance(event, Ended):
                self._forget(event)
            elif deadline is not None:
                self._log.warning(
                    "supervisor.killing",
                    reason="the time to drain is over" if event is None else "a second signal",
                    workers=[worker for slot in self._slots if slot.process for worker in slot.workers],
                )
                self._signal(signal.SIGKILL)
                code, deadline = code or KILLED, None
        self._log.info("supervisor.stopped", code=code)
        return code

    def _signal(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.send_signal(number)


def _event(agent: str, what: str) -> str:
    return f"{DISPATCHER if agent == DISPATCHER else 'worker'}.{what}"


@contextlib.contextmanager
def _signals(events: queue.SimpleQueue[ProcessEvent]) -> Iterator[None]:
    """Signals within SAME_SIGNAL seconds of the first count as one: the terminal sends a signal to all processes, and a
    wrapper forwards it again."""
    times: dict[str, float] = {}

    def note(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        first = times.setdefault("first", now)  # one step: this handler may run again inside itself
        if first is now or now - first >= SAME_SIGNAL:
            events.put(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _observed(app: App, http: bool, board: Board, meter: Meter, calls: MakeCalls | None) -> Iterator[None]:
    """While the context is open, the HTTP port answers, and the metrics are exported."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(exported(os.environ, app.name, board, meter))
        if http and app.http is not None:
            answers = NO_CALLS
            if calls is not None:
                answers, close = calls(board)
                stack.callback(close)
            port = serve(app.http, pages(board, meter), answers)
            stack.callback(port.server_close)
            stack.callback(port.shutdown)
        yield


def _pause(events: queue.SimpleQueue[ProcessEvent], seconds: float) -> None:
    try:
        events.get(timeout=seconds)
    except queue.Empty:
        return
    raise Stopped


def _checked(app: App) -> None:
    """Log which kernel runs, and check the values. Raises ConfigurationError."""
    values.check(app)
    try:
        structlog.get_logger().info("kernel.chosen", kernel=kernel().name)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
