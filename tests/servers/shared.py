"""The servers that a whole test run shares: a variable that names one, else Docker, else a process of ours."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.servers.container import Container, engine_answers
from tests.servers.kafka import Kafka
from tests.servers.mariadb import Mariadb
from tests.servers.mongodb import MongoDB
from tests.servers.postgres import Postgres
from tests.servers.process import Server, die_with_parent, new_folder
from tests.servers.program import Program, Unavailable
from tests.servers.valkey import Valkey
from tests.waiting import wait_until

SOCKET = "SLUICEGATE_SERVERS_SOCKET"
PROGRAMS: Mapping[str, type[Program]] = {
    "kafka": Kafka,
    "valkey": Valkey,
    "postgres": Postgres,
    "mariadb": Mariadb,
    "mongodb": MongoDB,
}
HINT = (
    "`make setup setup-servers` fetches what tests need; `make servers` starts servers for SLUICEGATE_TEST_* variables"
)


@dataclass(frozen=True)
class Shared:
    """A server that somebody else runs; `log` is None when it is not ours to read."""

    url: str
    log: str | None = None


def open_server(program: Program, root: Path | None = None) -> Server | Container:
    """The server in a container where an engine answers and has the image, else as a process. Raises Unavailable,
    RuntimeError."""
    if engine_answers():
        with suppress(RuntimeError):
            return Container(program, root).start()
    return Server(program, root).start()


def find(name: str) -> Shared:
    """The run's server of that name, started when nobody asked before. Raises Unavailable with what would help."""
    if url := os.environ.get(f"SLUICEGATE_TEST_{PROGRAMS[name].variable}"):
        return Shared(url)
    answer = _ask(name)
    if "error" in answer:
        raise Unavailable(f"{answer['error']}\n{HINT}; or set SLUICEGATE_TEST_{PROGRAMS[name].variable}")
    return Shared(answer["url"], answer["log"])


def own_folder() -> Path:
    """A folder that is removed at the end of the run, however it ends."""
    return new_folder(Path(os.environ[SOCKET]).parent)


def _ask(name: str) -> dict[str, str]:
    with socket.socket(socket.AF_UNIX) as link, link.makefile("rw") as lines:
        link.settimeout(170)
        link.connect(os.environ[SOCKET])
        print(json.dumps({"server": name}), file=lines, flush=True)
        return dict(json.loads(lines.readline()))


class Household:
    """The process that owns the shared servers, as the pytest controller holds it. Open it in the main thread."""

    def __init__(self) -> None:
        self.root = new_folder()
        address = self.root / "socket"
        pipe, self._alive = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.supervisor", str(address), str(pipe)],
            cwd=Path(__file__).resolve().parents[2],
            pass_fds=(pipe,),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        os.close(pipe)
        wait_until(lambda: address.exists() or self._process.poll() is not None, 30, "the supervisor of the servers")
        os.environ[SOCKET] = str(address)

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of its servers into `folder`."""
        for log in self.root.glob("*/*.log"):
            folder.mkdir(exist_ok=True)
            (folder / f"{log.stem}-{os.getpid()}.log").write_bytes(log.read_bytes())

    def close(self) -> None:
        os.close(self._alive)
        self._process.wait(30)
