"""How a worker's process reports to its supervisor: JSON lines over an inherited pipe, which never holds the worker
up."""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator

import msgspec

from sluicegate.streams.observe.report import WorkerReport

PIPE_BYTES = 1024 * 1024


def pipe() -> tuple[int, int]:
    """(read, write) descriptors, roomy where the system lets us."""
    read, write = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # more than this user may have: the default will do
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return read, write


class ReportSender:
    """The worker's end; the threads of one process may share it. A report that does not fit now is dropped; one that
    fits in part is finished before the next."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._rest = b""

    def send(self, report: WorkerReport) -> bool:
        """Hand a report over; False: it was dropped. Never blocks, never raises."""
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
    """The reports that come through the pipe until its last writer is gone; a line that is none is passed over."""
    decode = msgspec.json.Decoder(WorkerReport).decode
    with os.fdopen(descriptor, "rb") as lines:
        for line in lines:
            try:
                yield decode(line)
            except msgspec.DecodeError:
                continue
