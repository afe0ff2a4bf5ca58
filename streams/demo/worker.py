"""`sluicegate run` as a process with its log in a file. The log contains the pids of its workers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sluicegate.streams.errors import SystemNotReady

PYTHON = (sys.executable, "-P", "-c")
COMMAND = (*PYTHON, "from sluicegate.streams.cli import main; main()", "run")


class DemoRun:
    """The run of one file: the last argument of the command."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        self._read_to = 0
        self._pids: dict[str, int] = {}
        self.port = 0
        """The HTTP port, once the run listens on it."""
        self.starts: Counter[str] = Counter()
        """Of the workers of each agent."""
        self.kills: Counter[str] = Counter()
        """Of each agent: the workers that ended by SIGKILL."""
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)

    def turn(self) -> None:
        """Reads the new lines of the log. Raises SystemNotReady when the run has ended."""
        with self._log.open("rb") as lines:
            lines.seek(self._read_to)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                self._note(line)
        self._require(self._process.poll(), None)

    def listening(self) -> int:
        """Waits for the HTTP port, and returns its number. Raises SystemNotReady."""
        deadline = time.monotonic() + 30.0
        while not self.port:
            self.turn()
            if time.monotonic() > deadline:
                raise SystemNotReady(f"the HTTP port did not open; the end of its log:\n{self.log_end()}")
            time.sleep(0.05)
        return self.port

    def kill(self, agent: str) -> bool:
        """Sends SIGKILL to the worker of the agent. False when it does not run."""
        pid = self._pids.pop(agent, None)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def stop(self, timeout: float = 40.0) -> None:
        """Sends SIGTERM, and SIGKILL after `timeout` seconds. Raises SystemNotReady unless the exit code is 0."""
        self._process.terminate()
        try:
            self._require(self._process.wait(timeout), 0)
        except subprocess.TimeoutExpired:
            self._require(self.end(), 0)

    def end(self) -> int:
        """Sends SIGKILL unless the run has ended. Its worker ends with it."""
        self._process.kill()
        return self._process.wait()

    def _require(self, code: int | None, wanted: int | None) -> None:
        if code != wanted:
            raise SystemNotReady(f"`sluicegate run` ended with exit code {code}; the end of its log:\n{self.log_end()}")

    def log_end(self) -> str:
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-10:])

    def _note(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        match event:
            case {"event": "http.listening", "port": int(port)}:
                self.port = port
            case {"event": "worker.started", "agent": str(agent), "pid": int(pid)}:
                self.starts[agent] += 1
                self._pids[agent] = pid
            case {"event": "worker.ended", "agent": str(agent), "pid": pid, "code": code}:
                self.kills[agent] += code == -signal.SIGKILL
                if self._pids.get(agent) == pid:
                    del self._pids[agent]
