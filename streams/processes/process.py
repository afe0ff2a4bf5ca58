"""Starts one worker's process, and receives its reports and its end."""

import contextlib
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.processes.channel import pipe, received
from sluicegate.streams.processes.child import ProcessJob


class Ended(NamedTuple):
    """The end of a process. `code` is as subprocess reports it (negative: the signal)."""

    pid: int
    code: int


ProcessEvent = int | Ended
"""A signal's number, or the end of a process."""


OnReport = Callable[[WorkerReport], object]
COUNTERS = Path("/proc/vmstat")


def out_of_memory_kills(counters: Path = COUNTERS) -> int:
    """How many processes the kernel has ended for lack of memory, of a control group or of the machine, since it
    started. 0 where the kernel does not tell (other systems than Linux)."""
    with contextlib.suppress(OSError):
        for line in counters.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def spawn(
    command: Sequence[str], job: ProcessJob, events: queue.SimpleQueue[ProcessEvent], on_report: OnReport
) -> subprocess.Popen[bytes]:
    """Start `command` with the job on its stdin, which stays open while this process lives. A thread passes the reports
    to `on_report`. The end is put on `events`. Call it from the main thread only, because the process dies with the
    thread that started it. Raises OSError."""
    read, write = pipe()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(write,))
    except OSError:
        os.close(read)
        raise
    finally:
        os.close(write)
    threading.Thread(target=_hear, args=(read, on_report), name=f"reports-{process.pid}", daemon=True).start()
    threading.Thread(
        target=lambda: events.put(Ended(process.pid, process.wait())), name=f"end-{process.pid}", daemon=True
    ).start()
    line = msgspec.json.encode(msgspec.structs.replace(job, descriptor=write)) + b"\n"
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has already ended; `events` will report it
        process.stdin.write(line)
        process.stdin.flush()
    return process


def _hear(read: int, on_report: OnReport) -> None:
    for report in received(read):
        on_report(report)
