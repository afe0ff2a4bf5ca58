"""System calls of a child process that ask us first: seccomp user notification (Linux 5.0), by ctypes, without
privileges.

Children and threads of the child ask, too. Who asks waits until it is answered; when nobody listens any more, its call
fails.
"""

import array  # noqa: F401 - socket.send_fds imports it between fork and exec, where it must be there already
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.servers.program import Unavailable


class Machine(NamedTuple):
    """Numbers of a processor's kind: how the kernel names it, and its system calls."""

    audit: int
    seccomp: int
    calls: dict[str, int]


MACHINES = {
    "x86_64": Machine(0xC000003E, 317, {"fsync": 74, "fdatasync": 75}),
    "aarch64": Machine(0xC00000B7, 277, {"fsync": 82, "fdatasync": 83}),
}
NO_NEW_PRIVILEGES = 38
SET_FILTER, NEW_LISTENER = 1, 8
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of a BPF program
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
RECEIVE, SEND = 0xC0502100, 0xC0182101
QUESTION, ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
GO_ON = 1  # the kernel does the call

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _machine() -> Machine:
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        raise Unavailable(f"system calls are answered on Linux of {' and '.join(MACHINES)}")
    return MACHINES[platform.machine()]


def _filter(machine: Machine, names: Sequence[str]) -> bytes:
    """Of each call: another processor's is allowed, the named ones ask."""
    numbers = [machine.calls[name] for name in names]
    code = [(LOAD, 0, 0, 4), (IF_EQUAL, 0, len(numbers) + 1, machine.audit), (LOAD, 0, 0, 0)]
    code += [(IF_EQUAL, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, NOTIFY)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


class Call(NamedTuple):
    """`pid` is the thread's that asks, `first` the call's first argument."""

    name: str
    pid: int
    first: int


class Notified:
    """Answers the named system calls of each process that begins with `enter`.

    `answer` is called in a thread of ours, one call after the other: what it returns fails the call (an errno), 0 is
    success without the kernel, and None lets the kernel do it.
    """

    def __init__(self, names: Sequence[str], answer: Callable[[Call], int | None]) -> None:
        machine = _machine()
        self._seccomp, self._answer = machine.seccomp, answer
        self._names = {machine.calls[name]: name for name in names}
        self._code = _filter(machine, names)
        self._program = _Program(len(self._code) // 8, self._code)
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poll = select.poll()
        self._poll.register(self._ours, select.POLLIN)
        self._listeners: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="notified", daemon=True)
        self._thread.start()

    def enter(self) -> None:
        """A preexec_fn: from here on the calling process asks, and whatever it starts. Raises OSError where the kernel
        refuses."""
        _libc.prctl(NO_NEW_PRIVILEGES, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        listener = _libc.syscall(
            *map(ctypes.c_ulong, (self._seccomp, SET_FILTER, NEW_LISTENER)), ctypes.byref(self._program)
        )
        if listener < 0:
            raise OSError(ctypes.get_errno(), "seccomp refuses a filter that asks")
        socket.send_fds(self._theirs, [b"?"], [listener])

    @property
    def processes(self) -> int:
        """How many that entered live on, or have children that do."""
        return len(self._listeners)

    def close(self) -> None:
        """Those who still ask are told that there is no such call."""
        self._theirs.close()
        self._thread.join()
        self._ours.close()

    def _run(self) -> None:
        while True:
            for ready, event in self._poll.poll():
                if ready in self._listeners:
                    self._serve(ready, event)
                elif not self._meet():
                    for listener in self._listeners:
                        os.close(listener)
                    return

    def _meet(self) -> bool:
        """A process that begins to ask; False at the end."""
        _, listeners, _, _ = socket.recv_fds(self._ours, 1, 1)
        for listener in listeners:
            self._listeners.add(listener)
            self._poll.register(listener, select.POLLIN)
        return bool(listeners)

    def _serve(self, listener: int, event: int) -> None:
        if not event & select.POLLIN:  # all its processes have ended
            self._poll.unregister(listener)
            self._listeners.remove(listener)
            os.close(listener)
            return
        question = bytearray(QUESTION.size)
        with suppress(FileNotFoundError):  # whoever asked was killed meanwhile
            fcntl.ioctl(listener, RECEIVE, question)
            number, pid, _, call, _, _, first, *_ = QUESTION.unpack(question)
            error = self._answered(Call(self._names[call], pid, first & 0xFFFFFFFF))
            fcntl.ioctl(listener, SEND, ANSWER.pack(number, 0, -(error or 0), GO_ON if error is None else 0))

    def _answered(self, call: Call) -> int | None:
        try:
            return self._answer(call)
        except OSError as error:
            return error.errno or errno.EIO
