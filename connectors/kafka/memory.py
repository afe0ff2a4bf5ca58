"""The memory that a process may take: the least of what is free in each of its control groups (v1 or v2) and on the
machine, and of what the limits of the parent process (`ulimit -v`, `ulimit -d`) allow."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class MemoryFiles(NamedTuple):
    """The files in which the kernel reports memory. `groups` are the mounted control groups, `own` the control groups
    of this process."""

    groups: Path = Path("/sys/fs/cgroup")
    own: Path = Path("/proc/self/cgroup")
    machine: Path = Path("/proc/meminfo")
    parent: Path = Path("/proc") / str(os.getppid())


FILES = MemoryFiles()
LIMITS = {"Max address space": "VmSize", "Max data size": "VmData"}
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def free(files: MemoryFiles = FILES) -> int:
    """The bytes of memory that can be taken; 0: not known."""
    limits = [*_groups(files), *_machine(files.machine), *_process(files.parent)]
    return max(1, min(limits)) if limits else 0


def _groups(files: MemoryFiles) -> Iterator[int]:
    """A group may have less than the ones above it. Where a container has its own view, its group is the top one."""
    for folder, path, names in _mounted(files):
        own = (folder / path.lstrip("/")).resolve()
        for group in (folder, own, *own.parents):
            if group.is_relative_to(folder.resolve()) or group == folder:
                yield from _group(group, *names)


def _mounted(files: MemoryFiles) -> Iterator[tuple[Path, str, tuple[str, str, str]]]:
    lines = _text(files.own).splitlines()
    paths = {
        controllers: path for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1)
    }
    yield files.groups, paths.get("", "/"), V2
    named = next((name for name in paths if "memory" in name.split(",")), "memory")
    yield files.groups / "memory", paths.get(named, "/"), V1


def _group(folder: Path, most: str, used: str, reclaimable: str) -> Iterator[int]:
    """Memory that the kernel can take back from files at once counts as free."""
    try:
        limit, taken = int(_text(folder / most)), int(_text(folder / used))
    except ValueError:  # there is no limit, or no such group
        return
    stat = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    yield limit - taken + int(stat.get(reclaimable, "0"))


def _machine(meminfo: Path) -> Iterator[int]:
    lines = dict(line.split(":", 1) for line in _text(meminfo).splitlines() if ":" in line)
    if available := lines.get("MemAvailable", "").split():
        yield int(available[0]) << 10


def _process(folder: Path) -> Iterator[int]:
    """What the limits of this process leave. A partition that the child fetches needs room here, too: a worker has
    taken more than a new process."""
    limits = {line[:26].strip(): line[26:].split() for line in _text(folder / "limits").splitlines()}
    status = dict(line.split(":", 1) for line in _text(folder / "status").splitlines() if ":" in line)
    for limit, taken in LIMITS.items():
        most, used = limits.get(limit, ["unlimited"])[0], status.get(taken, "").split()
        if most.isdecimal() and used:
            yield int(most) - (int(used[0]) << 10)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
