"""The measured processes: started, listened to, their CPU time and memory read from /proc."""

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.servers.process import die_with_parent

PROJECT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
FIRST = ("loop.first", "partition.claimed")


class Mark(NamedTuple):
    """A moment (monotonic seconds) and the CPU seconds until then of the worker and of the process above it."""

    at: float
    worker: float
    supervisor: float


def cpu_seconds(pid: int) -> float:
    """utime + stime of a process, all its threads, in steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid: int) -> float:
    """The most memory it ever had (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


class Measured:
    """A running system. Its log lines (JSON on stderr) say which process works, when its first record is at hand, and on
    which port it listens."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"TMPDIR": str(folder)}, preexec_fn=die_with_parent(signal.SIGTERM),
        )  # fmt: skip
        self.pid = self._process.pid
        self.worker: int = 0
        self.port: int = 0
        self.begun: Mark | None = None
        self.claims = 0
        self._tail: deque[str] = deque(maxlen=30)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            try:
                said = json.loads(line)
                event = said["event"]
            except (ValueError, KeyError, TypeError):
                event, said = "", {}
            if event not in ("partition.claimed", "worker.started"):
                self._tail.append(line.rstrip())
            if event == "worker.started":
                self.worker = said["pid"]
            elif event == "http.listening":
                self.port = said["port"]
            elif event in FIRST:
                self.claims += 1
                self.begun = self.begun or self._first(said)

    def _first(self, said: dict[str, float]) -> Mark:
        if "cpu" in said:
            return Mark(said["at"], said["cpu"], 0.0)
        return self.mark()

    def mark(self) -> Mark:
        above = 0.0 if self.pid == self.worker else cpu_seconds(self.pid)
        return Mark(time.monotonic(), cpu_seconds(self.worker), above)

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
