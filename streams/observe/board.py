"""The newest report of every worker, and what follows from them: alive, ready, status. Threads may share a board."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sluicegate.streams.observe.report import WorkerReport

Who = tuple[str, int]
"""An agent's name and the number of its worker."""

TURN_LIMIT = 60.0
"""Seconds within which a worker's loop must turn: more than its longest call to a store or a broker."""


class Board:
    """Knows who should run since when (`clock`: monotonic seconds) and what they said last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._expected: dict[Who, tuple[int | None, float]] = {}
        self._reports: dict[Who, WorkerReport] = {}
        self._phase = "starting"

    def phase(self, name: str) -> None:
        """`starting`, `running` or `stopping`; only a running supervisor is ready."""
        with self._lock:
            self._phase = name

    def expect(self, who: Who, pid: int | None) -> None:
        """This worker runs as `pid` from now on (None: it ended and will be started again); its old report is void."""
        with self._lock:
            self._expected[who] = (pid, self._clock())
            self._reports.pop(who, None)

    def put(self, report: WorkerReport) -> None:
        """Keep a report; one of a process that is no longer expected is dropped."""
        who = (report.agent, report.worker)
        with self._lock:
            if self._expected.get(who, (None, 0.0))[0] == report.pid:
                self._reports[who] = report

    def reports(self) -> Sequence[WorkerReport]:
        """The newest reports, sorted by agent and worker."""
        with self._lock:
            return [self._reports[who] for who in sorted(self._reports)]

    def stuck(self) -> list[dict[str, Any]]:
        """Running workers whose loop did not turn within the limit: what makes us not alive."""
        with self._lock:
            now, found = self._clock(), []
            for (agent, worker), (pid, since) in sorted(self._expected.items()):
                report = self._reports.get((agent, worker))
                silent = now - max(since, report.turned if report else since)
                if pid is not None and silent > TURN_LIMIT:
                    found.append(
                        {"agent": agent, "worker": worker, "reason": f"its loop has not turned for {silent:.0f} s"}
                    )
            return found

    def unready(self) -> list[dict[str, Any]]:
        """Why we are not ready; empty: we are."""
        with self._lock:
            found: list[dict[str, Any]] = [] if self._phase == "running" else [{"reason": self._phase}]
            for (agent, worker), (pid, _) in sorted(self._expected.items()):
                found += [
                    {"agent": agent, "worker": worker, "reason": reason} for reason in self._reasons(agent, worker, pid)
                ]
        return found + self.stuck()

    def degraded(self) -> list[dict[str, Any]]:
        """What is not as it should be with those that are ready."""
        return [
            {"agent": report.agent, "worker": report.worker, "reason": reason}
            for report in self.reports()
            for reason in (report.reasons if report.ready else ())
        ]

    def _reasons(self, agent: str, worker: int, pid: int | None) -> Sequence[str]:
        report = self._reports.get((agent, worker))
        if pid is None:
            return ("waiting to be started again",)
        if report is None:
            return ("starting",)
        return () if report.ready else report.reasons or ("not ready",)

    def status(self) -> dict[str, Any]:
        """Everything for people and machines, without keys, payloads and metrics."""
        with self._lock:
            now, phase = self._clock(), self._phase
            workers = [self._worker(who, now) for who in sorted(self._expected)]
        return {"phase": phase, "ready": not self.unready(), "workers": workers}

    def _worker(self, who: Who, now: float) -> dict[str, Any]:
        (pid, since), report = self._expected[who], self._reports.get(who)
        facts: dict[str, Any] = {"agent": who[0], "worker": who[1], "pid": pid, "seconds": round(now - since, 1)}
        if report is None:
            return facts | {"ready": False, "reasons": list(self._reasons(*who, pid)), "level": None, "partitions": []}
        return facts | {
            "ready": report.ready,
            "reasons": list(report.reasons),
            "turned": round(now - report.turned, 3),
            "level": {"name": report.level[0], "reasons": list(report.level[1])} if report.level else None,
            "delivery": report.delivery,
            "partitions": [msgspec.to_builtins(row) | {"lag": row.lag} for row in report.partitions],
        }
