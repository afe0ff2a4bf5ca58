"""One run: load, faults in the order of a plan, then no more faults, draining, and the history."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from tests.histories.checker.anomaly import Anomaly
from tests.histories.checker.appends import judged_appends
from tests.histories.checker.history import History
from tests.histories.checker.queues import judged_queue
from tests.histories.field import HistoryField
from tests.histories.workloads import history
from tests.soak.crew import signalled
from tests.soak.faults import Faults, Missed
from tests.soak.field import Setting
from tests.soak.plan import SESSION, Kind, Step, kinds, plan
from tests.waiting import wait_until

DRAIN = 90.0  # seconds without a new element
TWIN_DRAIN = 15.0
MOST_DRAIN = 400.0
ZOMBIE = SESSION + 3.0  # seconds until a process that a failpoint stopped goes on


def judge(made: History) -> list[Anomaly]:
    return judged_appends(made.transactions) + judged_queue(made.elements, made.deliveries)


def known_kinds(setting: Setting, agents: Sequence[str], disk: bool) -> dict[str, Kind]:
    """Not those whose traces the records of a soak have."""
    known = kinds(setting.store, setting.brokers, agents, disk)
    return {name: kind for name, kind in known.items() if name != "corruption"}


class Run:
    """On an open field. `names` are the kinds of faults, all where there are none."""

    def __init__(self, field: HistoryField, names: Sequence[str] = ()) -> None:
        self.field, self.setting = field, field.setting
        self.ended = threading.Event()
        self.faults = Faults(field, self.ended)
        agents = list(field.scene.spec["agents"])
        every = known_kinds(self.setting, agents, field.disk is not None)
        self.kinds = {name: kind for name, kind in every.items() if not names or name in names}
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.broken: list[str] = []
        self._progress = 0.0
        self._stopped: dict[int, float] = {}
        self._resumed: set[int] = set()
        self._targets = {target: threading.Lock() for kind in self.kinds.values() for target in kind.targets}

    def history(self) -> History:
        self.field.feed()
        wait_until(lambda: self._turn(50), 180, "the first results", pause=0)
        began = time.monotonic()
        self._under_faults(plan(self.setting.seed, self.setting.seconds, self.setting.pace, self.kinds))
        while time.monotonic() - began < self.setting.seconds:
            self._turn()
        faulty = time.monotonic() - began
        for proxy in self.field.links():
            proxy.release()
        self.field.end_of_load()
        self._progress = time.monotonic()
        with suppress(TimeoutError):
            patience = TWIN_DRAIN if self.setting.twin else DRAIN
            wait_until(lambda: self._drained(patience), MOST_DRAIN, "all results", pause=0)
        ends = [self.field.crew.end(worker) for worker in self.field.crew.members]
        wait_until(self.field.finish, 60, "the ends of the topics", pause=0.5)
        made = history(self.field.workload, self.field.sent, self.field.came)
        made.about = self._about(faulty, ends)
        return made

    def _turn(self, least: int = 0) -> bool:
        """Have so many elements come?"""
        self.field.draw()
        self.field.crew.keep()
        self._resume()
        return len(self.field.names) >= least

    def _drained(self, patience: float) -> bool:
        """Have all elements come, or none for so many seconds?"""
        before = len(self.field.names)
        self._turn()
        now = time.monotonic()
        if len(self.field.names) > before:
            self._progress = now
        return now - self._progress > patience or not self.field.missing()

    def _resume(self) -> None:
        """Processes that a failpoint stopped go on when others have their partitions."""
        now = time.monotonic()
        for worker in self.field.scene.workers:
            for name, kind, pid in worker.hits():
                if kind == "stop" and now - self._stopped.setdefault(pid, now) > ZOMBIE and pid not in self._resumed:
                    self._resumed.add(pid)
                    self.done[name] += signalled(pid, signal.SIGCONT)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _under_faults(self, steps: Sequence[Step]) -> None:
        began = time.monotonic()
        with ThreadPoolExecutor(12, thread_name_prefix="fault") as pool:
            under_way: list[Future[None]] = []
            for step in steps:
                while time.monotonic() - began < step.at:
                    self._turn()
                under_way.append(pool.submit(self._fault, step))
            while not all(future.done() for future in under_way):
                self._turn()
        for future in under_way:
            future.result()

    def _fault(self, step: Step) -> None:
        with ExitStack() as stack:
            for lock in (self._targets[step.target], self._lock_of_worker(step.target)):
                if not lock.acquire(timeout=1.0):
                    self.missed[step.kind] += 1
                    return
                stack.callback(lock.release)
            try:
                self.faults.known[step.kind](step)
                self.done[step.kind] += 1
            except Missed:
                self.missed[step.kind] += 1
            except (OSError, RuntimeError, TimeoutError) as error:
                self.broken.append(f"{step}: {type(error).__name__}: {error}"[:300])

    def _lock_of_worker(self, target: str) -> Any:
        what, _, number = target.rpartition("-")
        return self.field.crew.locks[int(number)] if what == "worker" else threading.RLock()

    def _about(self, faulty: float, ends: Sequence[int]) -> dict[str, Any]:
        setting = self.setting
        dead = self.field.scene.records("dead")
        return {
            "workload": self.field.workload_name,
            "store": setting.store,
            "brokers": setting.brokers,
            "seed": setting.seed,
            "without": setting.twin,
            "failpoint": setting.failpoint,
            "seconds": round(faulty, 1),
            "faults": dict(self.done),
            "missed": dict(self.missed),
            "broken": self.broken,
            "records": len(self.field.sent),
            "deliveries": len(self.field.came),
            "missing": len(self.field.missing()),
            "unsent": self.field.unsent() if self.field.workload.timeouts else 0,
            "dead": [f"{record.key!r} {record.headers.get('sluicegate-dead-error')}" for record in dead[:10]],
            "ended_alone": {str(code): count for code, count in self.field.crew.codes.items()},
            "ends": list(ends),
            "load": os.getloadavg(),
        }


def run(
    setting: Setting,
    workload: str,
    root: Path,
    names: Sequence[str] = (),
    logs: Callable[[HistoryField], None] = lambda field: None,
) -> History:
    """Open everything in this folder, run, close it."""
    with closing(HistoryField(setting, workload, root)) as field:
        try:
            return Run(field, names).history()
        finally:
            logs(field)
