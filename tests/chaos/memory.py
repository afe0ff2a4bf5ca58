"""Memory limits of processes: a cgroup, v1 or v2, whose processes the kernel ends, and a thread that does the same."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import wait_until

CONTROLLERS = Path("/sys/fs/cgroup")


class MemoryGroup:
    """Raises OSError where this process may make none."""

    def __init__(self, name: str, limit: int, root: Path = CONTROLLERS) -> None:
        """`limit` is in bytes, swap included."""
        second = (root / "cgroup.controllers").exists()
        if second and "memory" not in (root / "cgroup.subtree_control").read_text().split():
            raise OSError("the memory controller is not delegated to the groups below")
        self._folder = (root if second else root / "memory") / name
        self._counter = "memory.events" if second else "memory.oom_control"
        limits = {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
        if second:
            limits = {"memory.max": limit, "memory.swap.max": 0}
        self._folder.mkdir()
        for file, value in limits.items():
            with suppress(FileNotFoundError):  # a kernel that does not count swap
                (self._folder / file).write_text(str(value))
        self.joining = self._folder / "cgroup.procs"
        if not os.access(self.joining, os.W_OK):
            self.close()
            raise OSError("nobody may join a group that is made here")

    def join(self) -> None:
        """With this process, and those that it starts."""
        self.joining.write_text(str(os.getpid()))

    def kills(self) -> int:
        """How many processes the kernel ended in it."""
        counts = dict(line.split() for line in (self._folder / self._counter).read_text().splitlines())
        return int(counts["oom_kill"])

    def close(self) -> None:
        """A process that has just ended is in its group for a moment longer."""

        def removed() -> bool:
            with suppress(OSError):
                self._folder.rmdir()
            return not self._folder.exists()

        wait_until(removed, 10, f"the end of the group {self._folder}")


class Watcher(threading.Thread):
    """Kills each process below `pid` that has more than `bound` MiB. `kills` counts workers, `probes` the processes
    that fetch in their place."""

    def __init__(self, pid: int, bound: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._bound, self._ended = pid, bound, threading.Event()
        self.kills = self.probes = 0
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.01):
            with suppress(psutil.Error):
                for child in psutil.Process(self._pid).children(recursive=True):
                    self._watch(child)

    def _watch(self, child: psutil.Process) -> None:
        if child.memory_info().rss <= self._bound << 20:
            return
        probe = "sluicegate.connectors.kafka.apart" in child.cmdline()
        child.kill()
        self.probes += probe
        self.kills += not probe
        child.wait(5)

    def close(self) -> None:
        self._ended.set()
