"""A worker's process: it reads its job from stdin, runs its workers, and ends when its supervisor ends.

The entry point that joins engine and connectors (sluicegate.streams.cli.child) gives `main` the function that makes a
worker.
"""

import atexit
import ctypes
import os
import queue
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, NoReturn, Protocol

import msgspec
import structlog

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.errors import (
    ConfigurationError,
    InstanceFenced,
    PersistenceError,
    RestartNeeded,
    SystemNotReady,
)
from sluicegate.streams.hints import name_file, named_file
from sluicegate.streams.observe.logs import configure
from sluicegate.streams.observe.report import DISPATCHER, WorkerReport
from sluicegate.streams.processes.channel import ReportSender

PR_SET_PDEATHSIG = 1
INSTANCE = "SLUICEGATE_INSTANCE"
"""The environment variable with the name of a run. A run that is started again has the same name. Two runs of an app
must not have one name at the same time. Without the variable the name is random."""

FENCED = 7  # the exit code of a process, or a run, whose place in the group another run with its name took

RuleChange = Literal["refuse", "flush", "drop"]


class ProcessJob(msgspec.Struct, frozen=True):
    """The job that the supervisor gives to a process. Each agent runs `workers` (their numbers). With `dispatches` the
    process also runs the dispatcher. If there are several tasks, each has a thread. `descriptor` is the pipe for
    reports, `parent` the supervisor's pid. `run` is the name of the run (INSTANCE): a process and the one that takes
    its place have the same. `drain` is a time in seconds, `file` what commands in messages name. `probes_first`: the
    kernel ended the process before for lack of memory, so each partition is probed before its first fetch."""

    app: App
    agents: tuple[str, ...]
    workers: tuple[int, ...]
    on_rule_change: RuleChange
    descriptor: int
    parent: int
    drain: float
    log_level: str = "info"
    file: str = msgspec.field(default_factory=named_file)
    dispatches: bool = False
    probes_first: bool = False
    run: str = msgspec.field(default_factory=lambda: os.environ.get(INSTANCE) or uuid.uuid4().hex)


class WorkerPlan(msgspec.Struct, frozen=True):
    """The values from which one worker is built. `run` and `probes_first` are as in ProcessJob; without `run` its
    consumer is a dynamic member."""

    app: App
    agent: Agent
    worker: int
    on_rule_change: RuleChange
    drain: float
    run: str = ""
    probes_first: bool = False


class Runner(Protocol):
    """A worker that is opened and ready to run."""

    def run(self, stop: Callable[[], bool], drain: float) -> int:
        """Work until `stop` returns true, then drain within `drain` seconds. Returns the exit code."""


ReportStatus = Callable[[WorkerReport], object]
MakeWorker = Callable[[WorkerPlan, ReportStatus], Runner]
MakeDispatcher = Callable[[App, ReportStatus], Runner]


class ProcessTask(NamedTuple):
    """One task of a process, with the names that its reports carry."""

    agent: str
    worker: int
    make: Callable[[], Runner]


def main(make: MakeWorker, dispatcher: MakeDispatcher) -> int:
    """Run the job, which is the first line of stdin. The process ends when stdin ends. Returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to this process too; the supervisor decides
    stop = stop_at(signal.SIGTERM)
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ProcessJob)
    # SIGKILL when the supervisor's main thread ends in any way (on other systems `_watch` ends the process)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != job.parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="supervisor-watch", daemon=True).start()
    configure(level=job.log_level)
    name_file(job.file)
    sys.path.append(job.app.folder)  # for the file's `module:function`, after installed packages
    return _run_all(job, _tasks(job, make, dispatcher), stop)


def stop_at(number: signal.Signals) -> Callable[[], bool]:
    """A function that returns whether this signal has come. Python may run the handler again inside itself, when the
    signal comes twice: the handler takes no lock (`threading.Event.set` would wait for itself)."""
    signals: list[int] = []
    signal.signal(number, lambda number, _: signals.append(number))
    return lambda: bool(signals)


def _tasks(job: ProcessJob, make: MakeWorker, dispatcher: MakeDispatcher) -> list[ProcessTask]:
    report = ReportSender(job.descriptor).send
    wanted = [agent for agent in job.app.agents if agent.name in job.agents]
    places = [
        WorkerPlan(job.app, agent, number, job.on_rule_change, job.drain, job.run, job.probes_first)
        for agent in wanted
        for number in job.workers
    ]
    tasks = [ProcessTask(place.agent.name, place.worker, partial(make, place, report)) for place in places]
    return [*tasks, ProcessTask(DISPATCHER, 0, partial(dispatcher, job.app, report))] if job.dispatches else tasks


def _run_all(job: ProcessJob, tasks: Sequence[ProcessTask], stop: Callable[[], bool]) -> int:
    """Run all tasks. The first task that fails ends the process."""
    if len(tasks) == 1:
        return run_one(tasks[0], stop, job.drain)
    codes: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run_to_queue(task: ProcessTask) -> None:
        codes.put(run_one(task, stop, job.drain))

    for task in tasks:
        threading.Thread(target=run_to_queue, args=(task,), daemon=True).start()
    for _ in tasks:
        code = codes.get()
        if code != 0:
            os._exit(code)  # the other threads share this process's memory store, so they end with it
    return 0


def run_one(task: ProcessTask, stop: Callable[[], bool], drain: float) -> int:
    """Open and run one worker, or the dispatcher, to its end. Errors become the exit codes of the command."""
    log = structlog.get_logger().bind(agent=task.agent, worker=task.worker)
    try:
        return task.make().run(stop, drain)
    except ConfigurationError as error:
        log.error("worker.refused", error=str(error))
        return 2
    except InstanceFenced as error:
        log.error("worker.fenced", error=str(error))
        return FENCED
    except SystemNotReady as error:
        log.error("worker.not_ready", error=str(error))
        return 3
    # the store does not answer at the start: not exit code 3, so the supervisor keeps trying
    except PersistenceError as error:
        log.warning("worker.store_unavailable", error=str(error))
        return 1
    except RestartNeeded as error:
        log.warning("worker.restarts", reason=str(error))
        return 1
    except Exception:
        log.exception("worker.crashed")
        return 1


def end(code: int) -> NoReturn:
    """End the process without the last step of the interpreter, which frees the Kafka clients and waits for their
    brokers. That can take minutes, in which the process neither works nor is started again. After success the steps
    before it are taken: threads end, and functions of `atexit` run."""
    if code == 0:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _watch(descriptor: int) -> None:
    """End the process when the pipe ends: the supervisor never writes again. Reads past sys.stdin, because a thread
    must not hold its lock when the interpreter ends."""
    while os.read(descriptor, 4096):
        pass
    os._exit(1)
