"""A disk that fails, and one whose power fails: for programs that begin with `Disk.enter`, whoever they are, without
privileges.

What was synced is on the disk as it was then; a power loss takes everything else of a file's content. Names (of a file
that is made, renamed or removed) are on it at once.
"""

import errno
import os
import shutil
import stat
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.servers.notified import Call, Notified
from tests.servers.program import Unavailable
from tests.waiting import wait_until


class Disk:
    """Under `folder`. `kept` is a folder for what is synced, on the same file system. Raises Unavailable."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self._folder, self._kept = folder.resolve(), kept
        self.synced = self.failed = 0
        self._failing = self._lying = False
        self._delay = 0.0
        self._lock = threading.Lock()
        kept.mkdir()
        self._notified = Notified(("fsync", "fdatasync"), self._sync)
        self.enter = self._notified.enter
        try:
            subprocess.run(["/bin/true"], preexec_fn=self.enter, check=True)
        except subprocess.SubprocessError as error:
            self.close()
            raise Unavailable("this kernel, or what we run in, refuses seccomp's user notification") from error

    def keep(self) -> None:
        """All that is there now is synced."""
        with self._lock:
            for path in self._files():
                self._keep(path)

    def fail(self, failing: bool = True) -> None:
        """From now on whatever is synced fails with EIO, until `fail(False)`."""
        with self._lock:
            self._failing = failing

    def slow(self, seconds: float) -> None:
        """From now on each sync takes so much longer, one after the other."""
        with self._lock:
            self._delay = seconds

    def lie(self) -> None:
        """From now on nothing is kept of what is synced, and nobody is told."""
        with self._lock:
            self._lying = True

    def lose_power(self) -> None:
        """After the kill of all who write: each file has what was synced of it, and nothing if that never happened."""
        wait_until(lambda: not self._notified.processes, 10, "the end of all who write")
        with self._lock:
            for path in self._files():
                kept = self._kept / f"{path.stat().st_ino}.data"
                with path.open("r+b") as file:
                    file.truncate(0)
                    if kept.exists():
                        with kept.open("rb") as content:
                            shutil.copyfileobj(content, file)

    def close(self) -> None:
        self._notified.close()

    def _files(self) -> list[Path]:
        return [path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()]

    def _sync(self, call: Call) -> int | None:
        with self._lock:
            place = Path(f"/proc/{call.pid}/fd/{call.first}")
            if not place.readlink().is_relative_to(self._folder) or not stat.S_ISREG(place.stat().st_mode):
                return None
            time.sleep(self._delay)
            if self._failing:
                self.failed += 1
                return errno.EIO
            if not self._lying:
                self._keep(place)
            self.synced += 1
            return 0

    def _keep(self, path: Path) -> None:
        """By the file's number, since names change. A link to it keeps the number from being given to another file."""
        number = path.stat().st_ino
        with suppress(FileExistsError, FileNotFoundError):  # the latter: it has no name any more
            # With a folder, although the path is absolute, Python follows the link of /proc; without one it does not.
            os.link(path, self._kept / f"{number}.link", src_dir_fd=0, follow_symlinks=True)
        shutil.copyfile(path, self._kept / f"{number}.data")


def disk_or_skip(folder: Path, kept: Path) -> Disk:
    """For a test, which is skipped where the kernel does not let us answer."""
    try:
        return Disk(folder, kept)
    except Unavailable as error:
        pytest.skip(str(error))
