"""Named places at which a test can make the process fail. Unarmed, they do nothing.

`SLUICEGATE_FAILPOINTS` arms them for one process: `name=kind`, separated by commas. The kinds are kill, stop, raise and
lost. `name=kind@3` acts when the place is reached for the third time. `name=kind@1*3` acts in three consecutive
processes, each time when the place is first reached. Each action is written as a line to the file
`SLUICEGATE_FAILPOINT_LOG` before it happens, so that a test can see it. An action in that file is not repeated, so the
next process continues. `watched` calls a function of a test driver at each place. An armed place stops or ends the
process, or raises. It never selects another code path.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sluicegate.streams.errors import PersistenceError


class Failpoint(RuntimeError):
    """Raised by kind `raise`; an unexpected error for the product."""


def _done(log: str | None) -> list[str]:
    """The names in the log: places at which an earlier process of this worker failed."""
    if not log or not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as file:
        return [line.split()[0] for line in file]


class _Armed:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.actions: dict[str, tuple[str, int]] = {}
        self.log = environ.get("SLUICEGATE_FAILPOINT_LOG")
        done = _done(self.log)
        for item in filter(None, environ.get("SLUICEGATE_FAILPOINTS", "").split(",")):
            name, _, action = item.partition("=")
            kind, _, when = action.partition("@")
            nth, _, times = when.partition("*")
            if int(times or 1) > done.count(name):
                self.actions[name] = (kind, int(nth or 1))
        self.times: dict[str, int] = {}


_armed = _Armed(os.environ)
armed = bool(_armed.actions)
_watcher: Callable[[str], object] | None = None


def hit(name: str) -> None:
    """Act if the place is armed. A caller that would have to look for its place first asks `armed`."""
    if _watcher is not None:
        _watcher(name)
    kind, nth = _armed.actions.get(name, ("", 0))
    if not kind:
        return
    _armed.times[name] = _armed.times.get(name, 0) + 1
    if _armed.times[name] != nth:
        return
    _write(f"{name} {kind} {os.getpid()}")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "lost":
        raise PersistenceError(f"failpoint {name}: the reply is lost")
    else:
        raise Failpoint(name)


def arm(environ: Mapping[str, str]) -> None:
    """Replace the armed places, for a test inside this process."""
    global _armed, armed
    _armed = _Armed(environ)
    armed = bool(_armed.actions) or _watcher is not None


@contextmanager
def watched(watcher: Callable[[str], object]) -> Iterator[None]:
    """Within the block, call `watcher` with the name of each place that is reached. Its exceptions pass through the
    engine."""
    global _watcher, armed
    before, _watcher, armed = _watcher, watcher, True
    try:
        yield
    finally:
        _watcher = before
        armed = bool(_armed.actions) or before is not None


def _write(line: str) -> None:
    if _armed.log:
        with open(_armed.log, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
