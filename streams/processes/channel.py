"""The channel of reports from a worker's process to its supervisor: JSON lines over an inherited pipe. It never blocks
the worker."""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator

import msgspec

from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.observe.report import WorkerReport

PIPE_BYTES = 1024 * 1024


def pipe() -> tuple[int, int]:
    """The descriptors (read, write) of a pipe, with a large buffer where the system permits it."""
    read, write = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # above this user's limit: the default size is enough
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return read, write


class ReportSender:
    """The worker's end of the pipe. The threads of one process may share it. A report that does not fit is dropped. A
    partly written report is finished before the next one."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._rest = b""

    def send(self, report: WorkerReport) -> bool:
        """Write a report. False: it was dropped. Never blocks, never raises."""
        line = msgspec.json.encode(report) + b"\n"
        with self._lock:
            self._rest = self._rest[self._write(self._rest) :]
            if self._rest:
                return False
            written = self._write(line)
            self._rest = line[written:] if written else b""
            return written > 0

    def _write(self, line: bytes) -> int:
        try:
            return os.write(self._descriptor, line) if line else 0
        except OSError:
            return 0


def received(descriptor: int) -> Iterator[WorkerReport]:
    """The reports from the pipe, until its last writer closes it. An invalid line is skipped."""
    decode = msgspec.json.Decoder(WorkerReport).decode
    with os.fdopen(descriptor, "rb") as lines:
        for line in lines:
            try:
                yield decode(line)
            except UNREADABLE:
                continue
