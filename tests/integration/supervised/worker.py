"""A worker's process whose workers only behave: the agent's name says how. Run by the supervisor as the product's own
is."""

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.errors import ConfigurationError, InstanceFenced, SystemNotReady
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import DISPATCHER, PartitionReport, WorkerReport
from sluicegate.streams.processes.child import ReportStatus, WorkerPlan, main


class Behaved:
    """`steady` works until told to stop; the others fail as they are named."""

    def __init__(self, place: WorkerPlan, report: ReportStatus, name: str = "") -> None:
        self.place, self.report, self.meter, self.name = place, report, Meter(), name or place.agent.name

    def say(self, ready: bool) -> None:
        partition = PartitionReport("t", 0, "running", offset=5, high=12, groups=3, next_deadline=-2.0)
        self.meter.count("records_consumed", 10)
        self.report(
            WorkerReport(
                self.name,
                self.place.worker,
                os.getpid(),
                time.monotonic(),
                ready,
                partitions=[partition],
                level=("durable", ["seen"]),
                metrics=self.meter.snapshot(),
            )
        )

    def run(self, stop: Callable[[], bool], drain: float) -> int:
        return getattr(self, self.place.agent.name.partition("-")[0])(stop)

    def steady(self, stop: Callable[[], bool]) -> int:
        """If it probes first, a file says so."""
        if self.place.probes_first:
            Path(self.place.app.folder, f"{self.name}-{os.getpid()}-probes-first").touch()
        while not stop():
            self.say(ready=True)
            threading.Event().wait(0.05)
        with contextlib.suppress(FileNotFoundError):  # a test that looks at the drain holds it with this file
            while Path(self.place.app.folder, "hold").stat():
                self.say(ready=False)
                threading.Event().wait(0.05)
        return 0

    def stubborn(self, stop: Callable[[], bool]) -> int:
        while True:
            self.say(ready=True)
            threading.Event().wait(0.05)

    def frozen(self, stop: Callable[[], bool]) -> int:
        """Ready, and then inside a C function that keeps the interpreter's lock: no thread of it runs any more."""
        self.say(ready=True)
        ctypes.PyDLL(None).sleep(3600)
        return 0

    def crashing(self, stop: Callable[[], bool]) -> int:
        raise RuntimeError("as its name says")

    def misconfigured(self, stop: Callable[[], bool]) -> int:
        raise ConfigurationError("the rule changed")

    def fenced(self, stop: Callable[[], bool]) -> int:
        raise InstanceFenced("same instance")

    def unready(self, stop: Callable[[], bool]) -> int:
        raise SystemNotReady("no broker")

    def failing(self, stop: Callable[[], bool]) -> int:
        """Ready first, and then the broker is gone."""
        self.say(ready=True)
        while not stop() and not Path(self.place.app.folder, "fail").exists():
            threading.Event().wait(0.05)
        if stop():
            return 0
        raise SystemNotReady("the broker went away")


def dispatcher(app: App, report: ReportStatus) -> Behaved:
    """Works until told to stop, under the dispatcher's name."""
    steady = Behaved(WorkerPlan(app, app.agents[0], 0, "refuse", 0.0), report, DISPATCHER)
    steady.run = lambda stop, drain: steady.steady(stop)
    return steady


if __name__ == "__main__":
    sys.exit(main(Behaved, dispatcher))
