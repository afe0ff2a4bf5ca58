"""A supervisor under test: its process, its log lines, its port."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import wait_until


def made_up(folder: Path, *agents: str, **settings: Any) -> "Run":
    """The supervisor over workers that only behave (`worker.py`)."""
    document = json.dumps({"agents": agents, "folder": str(folder), **settings})
    return Run(sys.executable, "-m", "tests.integration.supervised.program", document)


def patch_processes(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Python processes that start from now on run this text first."""
    (folder / "patched").mkdir()
    (folder / "patched" / "sitecustomize.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder / "patched"))


class Run:
    """Started at once; `close` leaves nothing behind."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.lines: list[dict[str, Any]] = []
        self.noise: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.noise.append(line)

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["event"] == name and fields.items() <= line.items()]

    def wait(self, name: str, count: int = 1, timeout: float = 20.0, **fields: Any) -> list[dict[str, Any]]:
        what = f"{count} x {name} {fields}"
        return wait_until(
            lambda: events if len(events := self.events(name, **fields)) >= count else None, timeout, what
        )

    def pids(self, count: int) -> list[int]:
        return [line["pid"] for line in self.wait("worker.started", count)]

    def exit_code(self, timeout: float = 20.0) -> int:
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        port = self.wait("http.listening")[0]["port"]
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for line in self.events("worker.started"):
            with contextlib.suppress(psutil.NoSuchProcess):
                worker = psutil.Process(line["pid"])
                if {"tests.integration.supervised.worker", "sluicegate.streams.cli.child"} & set(worker.cmdline()):
                    worker.kill()
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
