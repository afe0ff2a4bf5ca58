"""One server as processes of ours: started, asked whether it is ready, killed, paused, ended, and gone when we are
gone."""

import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil

from tests.servers.program import Place, Program
from tests.waiting import wait_until

PR_SET_PDEATHSIG = 1

# Loaded before any fork: dlopen between fork and exec can deadlock. Missing where there is no prctl.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)

# PR_SET_PDEATHSIG fires when the starting THREAD ends, so all servers are started by one that lives as long as the
# process.
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-launcher")

_taken: set[int] = set()


def stop_launching() -> None:
    """From now on this process starts no server any more: Server.start raises RuntimeError."""
    _launcher.shutdown(wait=True, cancel_futures=True)


def die_with_parent(with_signal: signal.Signals) -> Callable[[], None]:
    """A preexec_fn: the child gets the signal when the calling process ends in any way, kill -9 included; nothing is
    blocked in it."""
    parent = os.getpid()

    def child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if _prctl is not None:
            _prctl(PR_SET_PDEATHSIG, int(with_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return child


def _nothing() -> None:
    """Between fork and exec."""


def _stands(pid: int) -> bool:
    """Are all threads of the process stopped, as far as the system tells?"""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return all(state in "TtZX" for state in states)


def free_port() -> int:
    """A port that nobody listens on, below the range from which outgoing connections take theirs."""
    while True:
        port = random.randint(20000, 32000)
        if port in _taken:
            continue
        _taken.add(port)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


def new_folder(inside: Path | None = None) -> Path:
    """A short one (a unix socket's path has at most 107 bytes) that other users may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-", dir=inside))
    folder.chmod(0o711)
    return folder


def await_answer(program: Program, url: str, port: int, timeout: float, alive: Callable[[], bool]) -> None:
    """Return when the server answers a real request. Raises TimeoutError, or RuntimeError once it is not `alive`."""

    def answers() -> bool:
        if not alive():
            raise RuntimeError(f"{program.name} ended while it started")
        # TCP first: the clients' own libraries back off for a second after a refused connection.
        with suppress(Exception), socket.create_connection(("127.0.0.1", port), 0.2):
            program.probe(url)
            return True
        return False

    wait_until(answers, timeout, f"{program.name}: an answer", pause=0.03)


class Server:
    """A server in its own folder; every method may be called from any thread."""

    def __init__(self, program: Program, root: Path | None = None) -> None:
        self.program = program
        self.place = Place(root or new_folder(), free_port(), free_port())
        self.place.root.mkdir(exist_ok=True)
        self.log = self.place.root / f"{program.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.enter: Callable[[], None] = _nothing  # of a Disk: called in each new process before the program
        self._prepared = False

    @property
    def url(self) -> str:
        return self.program.address.format(port=self.place.port)

    @property
    def port(self) -> int:
        return self.place.port

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self, timeout: float = 60.0) -> "Server":
        """Start it and wait for its first answer. Raises Unavailable, or RuntimeError with the end of its log."""
        try:
            self._prepare()
            self.process = self._launch(self.program.command(self.place))
            await_answer(self.program, self.url, self.port, timeout, lambda: self._running().poll() is None)
        except (RuntimeError, TimeoutError, subprocess.CalledProcessError) as error:
            raise RuntimeError(f"{error}\n{self.tail()}") from error
        return self

    def kill9(self) -> None:
        """SIGKILL, and wait for the end."""
        self._end(signal.SIGKILL)

    def stop(self, timeout: float = 20.0) -> None:
        """SIGTERM, and wait for the end; SIGKILL when it takes longer than `timeout` seconds."""
        self._end(signal.SIGTERM, timeout)

    def restart(self, timeout: float = 60.0) -> None:
        """Start it again on its data, after kill9 or stop."""
        self.start(timeout)

    def pause(self) -> None:
        """SIGSTOP: it accepts connections and answers nothing. A thread on another processor runs on for a moment: that
        is waited for."""
        self._signal(signal.SIGSTOP)
        own = psutil.Process(self.pid)
        wait_until(
            lambda: all(_stands(process.pid) for process in [own, *own.children(recursive=True)]),
            10,
            "the stop of all threads",
        )

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def destroy(self) -> None:
        """End it and remove its folder."""
        if self.process is not None:
            self._end(self.program.end_signal, 5.0)
        shutil.rmtree(self.place.root, ignore_errors=True)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _prepare(self) -> None:
        if self._prepared:
            return
        for command in self.program.prepare(self.place):
            code = self._launch(command).wait(60)
            if code != 0:
                raise subprocess.CalledProcessError(code, command)
        self._prepared = True

    def _launch(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as log:
            return _launcher.submit(self._popen, command, log).result()

    def _popen(self, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        die = die_with_parent(self.program.end_signal)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=self.place.root,
            start_new_session=True,
            **self._identity(),
            preexec_fn=lambda: (die(), self.enter()),
        )

    def _identity(self) -> dict[str, Any]:
        user = getattr(self.program, "user", None)
        return {} if user is None else {"user": user, "group": user, "extra_groups": []}

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError(f"{self.program.name} was never started")
        return self.process

    def _signal(self, which: signal.Signals) -> None:
        # PostgreSQL gives each of its processes a group of its own: what cannot be caught goes to all of them.
        apart = self._children() if which in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT) else []
        for pid in (self._running().pid, *apart):
            with suppress(ProcessLookupError):
                os.killpg(pid, which)

    def _children(self) -> list[int]:
        with suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._running().pid).children(recursive=True)]
        return []

    def _end(self, which: signal.Signals, timeout: float = 20.0) -> None:
        self._signal(which)
        self._signal(signal.SIGCONT)
        try:
            self._running().wait(timeout)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._running().wait()
