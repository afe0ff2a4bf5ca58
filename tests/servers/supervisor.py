"""The process that owns the shared servers of one test run: `python -m tests.servers.supervisor SOCKET PIPE`.

It ends, and takes its servers and their folder along, when the pipe is closed or a SIGTERM comes: the first happens and
the second is sent by the kernel when pytest ends in any way. If it is killed itself, the kernel ends its servers.
"""

import json
import os
import select
import shutil
import signal
import socket
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

from tests.servers.container import Container
from tests.servers.process import Server, stop_launching
from tests.servers.program import Unavailable
from tests.servers.shared import PROGRAMS, open_server
from tests.waiting import wait_until

Open = Server | Container


class Supervisor:
    """Starts each server once, when it is first asked for; answers every later question with the same one."""

    def __init__(self, address: Path) -> None:
        self.root = address.parent
        self._lock = threading.Lock()
        self._servers: dict[str, Future[Open]] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{address}.new")
        self._listener.listen(64)
        os.rename(f"{address}.new", address)

    def accept(self) -> None:
        while True:
            link, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def close(self) -> None:
        stop_launching()
        for server in self._servers.values():
            if server.done() and server.exception() is None:
                server.result().destroy()
        kill_children()
        # Servers that single tests owned have their folders here, too; they may be dying just now.
        wait_until(self._removed, 10, "the removal of the servers' folder")

    def _removed(self) -> bool:
        shutil.rmtree(self.root, ignore_errors=True)
        return not self.root.exists()

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rw") as lines:
            question = json.loads(lines.readline())
            try:
                server = self._get(question["server"])
                answer = {"url": server.url, "log": str(server.log)}
            except (Unavailable, RuntimeError) as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), file=lines, flush=True)

    def _get(self, name: str) -> Open:
        with self._lock:
            first = name not in self._servers
            server = self._servers.setdefault(name, Future())
        if first:
            try:
                server.set_result(open_server(PROGRAMS[name](), self.root / name))
            except BaseException as error:
                server.set_exception(error)
        return server.result()


def kill_children() -> None:
    """What is still starting: formatting tools, a fetch."""
    import psutil

    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=5)


def wait_for_the_end(pipe: int, parent: int) -> None:
    """Return when the pipe is closed, SIGTERM came, or (where the kernel does not tell) the parent is another one."""
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    # The handler does nothing: the wake-up descriptor cannot re-enter anything, however often the signal comes.
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    while os.getppid() == parent:
        ready, _, _ = select.select([pipe, wake], [], [], 1.0)
        if ready:
            return


def main() -> None:
    parent = os.getppid()
    supervisor = Supervisor(Path(sys.argv[1]))
    threading.Thread(target=supervisor.accept, daemon=True).start()
    wait_for_the_end(int(sys.argv[2]), parent)
    supervisor.close()
    os._exit(0)


if __name__ == "__main__":
    main()
