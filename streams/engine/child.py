"""A worker's process: reads its job from stdin, runs its workers, and does not outlive its supervisor.

The entry point that joins engine and connectors (streams.cli.child) hands `main` what makes a worker.
"""

import ctypes
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec
import structlog

from streams.agent import Agent, App
from streams.engine.channel import Sender
from streams.errors import ConfigurationError, SystemNotReady
from streams.observe.logs import configure
from streams.observe.report import WorkerReport

PR_SET_PDEATHSIG = 1

RuleChange = Literal["refuse", "flush", "drop"]


class Job(msgspec.Struct, frozen=True):
    """What the supervisor hands to a process: each agent runs `workers` (their numbers), a thread each if there are
    several. `descriptor` is the pipe for reports, `parent` the supervisor's pid, `drain` seconds."""

    app: App
    agents: tuple[str, ...]
    workers: tuple[int, ...]
    on_rule_change: RuleChange
    descriptor: int
    parent: int
    drain: float
    log_level: str = "info"


class Place(msgspec.Struct, frozen=True):
    """What one worker is made from."""

    app: App
    agent: Agent
    worker: int
    on_rule_change: RuleChange
    drain: float


class Runner(Protocol):
    """A worker, opened and ready to go."""

    def run(self, stop: Callable[[], bool], drain: float) -> int:
        """Work until `stop` says so, then drain within so many seconds; the exit code."""


Report = Callable[[WorkerReport], object]
MakeWorker = Callable[[Place, Report], Runner]


def main(make: MakeWorker) -> int:
    """Run the job that comes as the first line of stdin; the process ends when stdin does. Returns the exit code."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to us too; the supervisor decides
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    _die_with(job.parent)
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="supervisor-watch", daemon=True).start()
    configure(level=job.log_level)
    sys.path.append(job.app.folder)  # where the file's `module:function` names are looked up, after what is installed
    return _run_all(job, make, stop)


def _run_all(job: Job, make: MakeWorker, stop: threading.Event) -> int:
    """All workers of the job; the first that does not end well ends the process."""
    report = Sender(job.descriptor).send
    wanted = [agent for agent in job.app.agents if agent.name in job.agents]
    places = [Place(job.app, agent, number, job.on_rule_change, job.drain) for agent in wanted for number in job.workers]
    if len(places) == 1:
        return run_one(places[0], make, report, stop.is_set)
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in places:
        threading.Thread(target=_to_queue, args=(codes, place, make, report, stop.is_set), daemon=True).start()
    for _ in places:
        code = codes.get()
        if code != 0:
            os._exit(code)  # crash-only: the other threads share our memory store and go with us
    return 0


def _to_queue(codes: queue.SimpleQueue[int], place: Place, make: MakeWorker, report: Report, stop: Callable[[], bool]) -> None:
    codes.put(run_one(place, make, report, stop))


def run_one(place: Place, make: MakeWorker, report: Report, stop: Callable[[], bool]) -> int:
    """One worker from opening to its end; errors become the exit codes of the command."""
    log = structlog.get_logger().bind(agent=place.agent.name, worker=place.worker)
    try:
        return make(place, report).run(stop, place.drain)
    except ConfigurationError as error:
        log.error("worker.refused", error=str(error))
        return 2
    except SystemNotReady as error:
        log.error("worker.not_ready", error=str(error))
        return 3
    except Exception:
        log.exception("worker.crashed")
        return 1


def _die_with(parent: int) -> None:
    """SIGKILL us when the supervisor's main thread is gone, however it went (Linux; elsewhere the watch does)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _watch(descriptor: int) -> None:
    """The supervisor never writes again: the end of the pipe is its end. Reads past sys.stdin, whose lock a thread must
    not hold when the interpreter ends."""
    while os.read(descriptor, 4096):
        pass
    os._exit(1)
