"""One `sluicegate run` of a test: its own supervisor and child, its faults, its log lines, its port."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutation import twins
from tests.servers.process import die_with_parent
from tests.waiting import wait_until

COMMAND = Path(sys.executable).parent / "sluicegate"


class Worker:
    """Started at once, with all agents unless one is named. `fault` is `name=kind@n` as SLUICEGATE_FAILPOINTS takes it.
    `without` names protections of tests/mutation/protections.py to take out, joined by commas; `close` fails if they
    were not. `more` is added to its environment. `enter` (of a Disk) is called in its process first. `options` are
    those of `run`."""

    def __init__(
        self,
        file: Path,
        agent: str,
        name: str,
        fault: str = "",
        without: str = "",
        more: Mapping[str, str] | None = None,
        enter: Callable[[], None] = lambda: None,
        options: Sequence[str] = (),
    ) -> None:
        self.name, self.agent = name, agent
        self._failpoints = file.parent / f"{name}.failpoints"
        self._without, self._edited = without, file.parent / f"{name}.twin"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SLUICEGATE_")}
        environ |= {"SLUICEGATE_FAILPOINTS": fault, "SLUICEGATE_FAILPOINT_LOG": str(self._failpoints)}
        environ |= more or {}
        if without:
            environ |= twins.environment(without, self._edited, environ)
        die = die_with_parent(signal.SIGKILL)
        chosen = ["--agent", agent] if agent else []
        self.process = subprocess.Popen(
            [str(COMMAND), "run", str(file), *chosen, *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: (die(), enter()),
        )
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
                self.noise.append(line.decode(errors="replace"))

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line.get("event") == name and fields.items() <= line.items()]

    def wait(self, name: str, count: int = 1, timeout: float = 40.0, **fields: Any) -> list[dict[str, Any]]:
        """Wait until it has logged this so many times."""
        what = f"{self.name}: {count} x {name} {fields}"
        return wait_until(
            lambda: events if len(events := self.events(name, **fields)) >= count else None, timeout, what
        )

    # -- faults --------------------------------------------------------------------------------------------------------

    def hits(self) -> list[tuple[str, str, int]]:
        """The failpoints that acted: name, kind, pid."""
        if not self._failpoints.exists():
            return []
        lines = [line.split() for line in self._failpoints.read_text().splitlines()]
        return [(name, kind, int(pid)) for name, kind, pid in lines]

    def wait_hit(self, count: int = 1, timeout: float = 60.0) -> int:
        """Wait for the failpoint; the pid of the process it acted in. Raises TimeoutError: then the cell proves
        nothing."""
        return wait_until(lambda: len(self.hits()) >= count and self.hits(), timeout, f"{self.name}: a failpoint")[-1][
            2
        ]

    @property
    def pid(self) -> int:
        """The newest child."""
        return int(self.wait("worker.started")[-1]["pid"])

    def kill_child(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def kill9(self) -> None:
        """The supervisor, and with it the child."""
        self.process.kill()
        self.process.wait(20)

    # -- the port ------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        port = self.wait("http.listening")[0]["port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def partitions(self) -> list[dict[str, Any]]:
        """What /status says of its partitions."""
        return [partition for worker in self.get("/status")[1]["workers"] for partition in worker["partitions"]]

    # -- the end -------------------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self, timeout: float = 60.0) -> int:
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)
        self._reader.join(20)
        assert self.process.stderr is not None
        self.process.stderr.close()
        if self._without:
            twins.check(self._without, self._edited, [self.process.pid, *self._at_work()])

    def _at_work(self) -> list[int]:
        """All children that ever were."""
        return [line["pid"] for name in ("worker.running", "dispatcher.running") for line in self.events(name)]

    def tail(self, count: int = 40) -> str:
        """The end of its log, for a failure."""
        noise = "".join(self.noise[-20:])
        return "\n".join(f"{self.name}: {json.dumps(line)[:600]}" for line in self.lines[-count:]) + noise
