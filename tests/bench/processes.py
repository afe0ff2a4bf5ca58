"""The measured processes: started, listened to, their CPU time and memory read from /proc."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.bench.load import PARTITIONS
from tests.servers.process import die_with_parent

PROJECT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


class Mark(NamedTuple):
    """A moment (monotonic seconds) and the CPU seconds until then of the workers, of the process above them, and of
    everything on this machine that is not of this bench."""

    at: float
    worker: float
    supervisor: float
    others: float


def cpu_seconds(pid: int) -> float:
    """utime + stime of a process, all its threads, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def tree_seconds(pid: int) -> float:
    """The same of a process and all below it, with those of its children that ended."""
    spent = 0.0
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:4])
    return spent


def peak_mib(pid: int) -> float:
    """The most memory it ever had (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def others_seconds() -> float:
    """CPU seconds of the whole machine less those of this process and all below it (servers, systems)."""
    busy = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    spent = os.times()
    ours = spent.user + spent.system + spent.children_user + spent.children_system
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            ours += sum(child.cpu_times()[:4])
    return (sum(busy) - busy[3] - busy[4]) / TICKS - ours


class Measured:
    """A running system. Its log lines (JSON on stderr) say which process works, when its first record is at hand, and
    on which port it listens."""

    def __init__(self, command: Sequence[str], folder: Path, **environment: str) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(folder)} | environment,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        self.pid = self._process.pid
        self.worker: int = 0
        self.workers: list[int] = []
        self.port: int = 0
        self.begun: Mark | None = None
        self.ended: Mark | None = None  # the handler was called for the last message
        self.total = 0
        self.claims = 0
        self._tail: deque[str] = deque(maxlen=30)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                try:
                    document = json.loads(line)
                    event = document["event"]
                except (ValueError, KeyError, TypeError):
                    event, document = "", {}
                self._tail.append(line.rstrip())
                self._hear(event, document)

    def _hear(self, event: str, fields: dict[str, Any]) -> None:
        if event == "worker.started":
            self.worker = fields["pid"]
            self.workers.append(self.worker)
        elif event == "http.listening":
            self.port = fields["port"]
        elif event == "loop.assigned":
            self.claims = PARTITIONS
        elif event == "loop.first":
            self.begun = self.begun or self._first(**fields)
        elif event == "partition.claimed":
            self.claims += 1
            self.begun = self.begun or self.mark()
        elif event == "handler.last":
            self.ended, self.total = self.mark()._replace(at=fields["at"], worker=fields["cpu"]), fields["total"]

    def _first(self, pid: int, at: float, cpu: float, event: str) -> Mark:
        """The worker `pid` said when its first record was at hand, and its own CPU seconds then."""
        rest = sum(cpu_seconds(worker) for worker in self.workers if worker != pid)
        return self.mark()._replace(at=at, worker=cpu + rest)

    def mark(self) -> Mark:
        above = 0.0 if self.pid in self.workers else cpu_seconds(self.pid)
        return Mark(time.monotonic(), sum(map(cpu_seconds, self.workers)), above, others_seconds())

    def peak_mib(self) -> float:
        """The sum of the workers' peaks."""
        return sum(map(peak_mib, self.workers))

    def check(self) -> None:
        """Raises RuntimeError with the end of its log when it ended by itself."""
        if self._process.poll() is not None:
            self._reader.join(5)
            raise RuntimeError(f"it ended with {self._process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self._tail)

    def stop(self, timeout: float = 45.0) -> int:
        """SIGTERM and its exit code; SIGKILL after `timeout` seconds."""
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._reader.join(5)
