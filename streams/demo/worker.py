"""`sluicegate run` as a process of its own, its log in a file, and its worker's pid from there."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from sluicegate.streams.errors import SystemNotReady

COMMAND = (sys.executable, "-P", "-c", "from sluicegate.streams.cli import main; main()", "run")


class DemoRun:
    """The run of one file. Raises SystemNotReady when it ends by itself."""

    def __init__(self, file: Path, log: Path) -> None:
        self._log = log
        self._read_to = 0
        self._pids: dict[str, int] = {}
        self.starts = 0
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*COMMAND, str(file)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def turn(self) -> None:
        """Read what the log has that is new. Raises SystemNotReady."""
        with self._log.open("rb") as lines:
            lines.seek(self._read_to)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                self._note(line)
        if self._process.poll() is not None:
            raise SystemNotReady(
                f"`sluicegate run` ended with exit code {self._process.returncode}; its log ends so:\n{self.log_end()}"
            )

    def worker(self) -> int | None:
        """The pid of the worker that runs now."""
        return next(iter(self._pids.values()), None)

    def kill(self) -> bool:
        """SIGKILL to the worker; False when there is none at the moment."""
        pid = self.worker()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._pids.clear()
        return True

    def stop(self, timeout: float = 40.0) -> int:
        """SIGTERM; the exit code, or that of SIGKILL after `timeout` seconds."""
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.end()

    def end(self) -> int:
        """SIGKILL, if it still runs; its worker goes with it."""
        self._process.kill()
        return self._process.wait()

    def log_end(self, lines: int = 10) -> str:
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-lines:])

    def _note(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        if event.get("event") == "worker.started":
            self.starts += 1
            self._pids[str(event["agent"])] = int(event["pid"])
        elif event.get("event") == "worker.ended" and self._pids.get(str(event["agent"])) == event["pid"]:
            del self._pids[str(event["agent"])]
