"""Keeps the newest report of every worker, and decides whether the run is alive and ready. Thread-safe."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sluicegate.streams.observe.history import LastHour
from sluicegate.streams.observe.report import WorkerReport

WorkerName = tuple[str, int]
"""The name of an agent and the number of its worker."""

TURN_LIMIT = 60.0
"""The maximum number of seconds between two turns of a worker's loop. It is longer than any call to a store or a
broker."""

SILENT = 5.0
"""A worker reports about once a second. After this number of seconds without a report, its ages are extrapolated."""


class Board:
    """The expected workers, the time since which each is expected, and their newest reports. `clock` returns monotonic
    seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._expected: dict[WorkerName, tuple[int | None, float]] = {}
        self._reports: dict[WorkerName, WorkerReport] = {}
        self._unowned: dict[str, Sequence[str]] = {}
        self._phase = "starting"
        self._history: LastHour | None = None

    def keep(self, history: LastHour) -> None:
        """Note each report in `history` from now on."""
        self._history = history

    def phase(self, name: str) -> None:
        """Sets the phase: `starting`, `running` or `stopping`. Only a running supervisor is ready."""
        with self._lock:
            self._phase = name

    def expect(self, name: WorkerName, pid: int | None) -> None:
        """Expect the worker to run as `pid` from now on. None: it ended and will be restarted. Its old report is
        dropped."""
        with self._lock:
            self._expected[name] = (pid, self._clock())
            self._reports.pop(name, None)

    def put(self, report: WorkerReport) -> None:
        """Keep a report. It is dropped if another process is expected."""
        name = (report.agent, report.worker)
        with self._lock:
            if self._expected.get(name, (None, 0.0))[0] != report.pid:
                return
            self._reports[name] = report
        if self._history is not None:
            self._history.note(report, self.reports)

    def unowned(self, agent: str, reasons: Sequence[str]) -> None:
        """Note the partitions of the agent that no worker reads, with the reasons; empty if all are read."""
        with self._lock:
            self._unowned[agent] = reasons

    def reports(self) -> Sequence[WorkerReport]:
        """The newest reports, sorted by agent and worker."""
        with self._lock:
            return [self._reports[name] for name in sorted(self._reports)]

    def silence(self, report: WorkerReport) -> float:
        """The seconds since the worker's loop turned, if it has missed reports; otherwise 0."""
        silent = self._clock() - report.turned
        return silent if silent > SILENT else 0.0

    def stuck(self) -> list[dict[str, Any]]:
        """The running workers whose loop did not turn within the limit. If there is any, the run is not alive."""
        reasons = []
        with self._lock:
            now = self._clock()
            for name, (pid, since) in sorted(self._expected.items()):
                report = self._reports.get(name)
                silent = now - max(since, report.turned if report else since)
                if pid is not None and silent > TURN_LIMIT:
                    reasons.append(_reason(name, f"its loop has not turned for {silent:.0f} s"))
        return reasons

    def unready(self) -> list[dict[str, Any]]:
        """The reasons why the run is not ready. Empty if it is ready."""
        with self._lock:
            reasons: list[dict[str, Any]] = [] if self._phase == "running" else [{"reason": self._phase}]
            for name, (pid, _) in sorted(self._expected.items()):
                reasons += [_reason(name, reason) for reason in self._reasons(name, pid)]
        return reasons + self.stuck()

    def readiness(self) -> list[tuple[WorkerName, bool]]:
        """Each expected worker, sorted, and whether `unready` lists no reason for it."""
        without = {(reason["agent"], reason["worker"]) for reason in self.unready() if "agent" in reason}
        with self._lock:
            return [(name, name not in without) for name in sorted(self._expected)]

    def degraded(self) -> list[dict[str, Any]]:
        """The reasons that ready workers report, and the partitions that no worker reads."""
        reported = [
            _reason((report.agent, report.worker), reason)
            for report in self.reports()
            for reason in (report.reasons if report.ready else ())
        ]
        with self._lock:
            unowned = [
                {"agent": agent, "reason": reason} for agent, of in sorted(self._unowned.items()) for reason in of
            ]
        return reported + unowned

    def _reasons(self, name: WorkerName, pid: int | None) -> Sequence[str]:
        report = self._reports.get(name)
        if pid is None:
            return ("waiting to be started again",)
        if report is None:
            return ("starting",)
        return () if report.ready else report.reasons or ("not ready",)

    def status(self) -> dict[str, Any]:
        """The status of all workers, without keys, payloads and metrics."""
        with self._lock:
            now, phase = self._clock(), self._phase
            workers = [self._worker(name, now) for name in sorted(self._expected)]
        return {"phase": phase, "ready": not self.unready(), "workers": workers}

    def _worker(self, name: WorkerName, now: float) -> dict[str, Any]:
        (pid, since), report = self._expected[name], self._reports.get(name)
        facts: dict[str, Any] = {"agent": name[0], "worker": name[1], "pid": pid, "seconds": round(now - since, 1)}
        if report is None:
            return facts | {"ready": False, "reasons": list(self._reasons(name, pid)), "level": None, "partitions": []}
        return facts | {
            "ready": report.ready,
            "reasons": list(report.reasons),
            "turned": round(now - report.turned, 3),
            "level": {"name": report.level[0], "reasons": list(report.level[1])} if report.level else None,
            "delivery": report.delivery,
            "partitions": [msgspec.to_builtins(row) | {"lag": row.lag} for row in report.partitions],
        }


def _reason(name: WorkerName, reason: str) -> dict[str, Any]:
    return {"agent": name[0], "worker": name[1], "reason": reason}
