"""A cgroup with a memory limit, v1 or v2: whoever writes its pid to `joining` and takes more is killed by the
kernel."""

import os
from contextlib import suppress
from pathlib import Path

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

    def kills(self) -> int:
        """How many processes the kernel ended in it."""
        counts = dict(line.split() for line in (self._folder / self._counter).read_text().splitlines())
        return int(counts["oom_kill"])

    def close(self) -> None:
        with suppress(OSError):
            self._folder.rmdir()
