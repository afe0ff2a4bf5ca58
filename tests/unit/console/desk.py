"""A console on a store that a run has left, behind a real HTTP port."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, App, Http
from sluicegate.streams.cli.opening.files import loaded, read_now
from sluicegate.streams.console.calls import calls
from sluicegate.streams.contracts.stores import OutputFacts, Store
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.http import CHANGE_HEADER, HttpPort, document, serve
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, feed

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: {port: 0, console: true}
agents:
  a:
    from: in
    aggregate: {count: 3, timeout: {after: 10m, since: first}, compute: {n: count, total: {sum: amount}}}
    to: {topic: out}
"""
HOSTILE = "<img src=x onerror=alert(1)>"


Answered = tuple[int, Any, dict[str, str]]
"""Status, content and headers."""


class LogSystems:
    """The store of the file, and topics in memory."""

    def __init__(self, file: str) -> None:
        self._file = file

    def read_file(self) -> App:
        return read_now(self._file)

    def open_store(self, app: App) -> Store:
        return open_store(app.store, app.folder)

    def open_topics(self, app: App) -> LogTopics:
        return LogTopics(app)

    @contextmanager
    def open_outputs(self, app: App, agent: Agent) -> Iterator[OutputFacts | None]:
        yield None


class ConsoleClient:
    """Asks a console as a browser or a stranger does."""

    def __init__(self, port: HttpPort) -> None:
        self.port = port
        self.secret = port.calls.secret

    def send(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port.number, timeout=20)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        outcome = json.loads(content) if answer.headers.get_content_type() == "application/json" else content.decode()
        return answer.status, outcome, dict(answer.headers)

    def ask(self, name: str) -> Any:
        """The answer, when what it needs is read."""
        while True:
            status, answer, _ = self.send("GET", f"/console/{name}")
            if status != 202:
                assert status == 200, answer
                return answer

    def change(self, name: str, **fields: Any) -> tuple[int, Any]:
        more = {"Content-Type": "application/json", CHANGE_HEADER: self.secret, "Origin": self.origin}
        return self.send("POST", f"/console/{name}", json.dumps(fields).encode(), **more)[:2]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port.number}"


def a_driver(folder: Path, text: str = FILE) -> tuple[Driver, Log]:
    """A worker of the file's first agent that has two open groups, x and a hostile one."""
    (folder / "app.yaml").write_text(text)
    app = loaded(str(folder / "app.yaml"))
    store = open_store(app.store, app.folder)
    store.migrate()
    log = a_log("in", "out", "app.dead")
    feed(log, ("x", 5), (HOSTILE, 1), ("x", 7))
    return Driver(app.agents[0], store, log, ManualClock()).give(0).turns(), log


@contextmanager
def a_console(folder: Path, clock: Callable[[], float] = lambda: 0.0, **settings: Any) -> Iterator[ConsoleClient]:
    """Over the file that `a_driver` wrote. `clock` tells it when to read again."""
    app = loaded(str(folder / "app.yaml"))
    made, close = calls(app, Board(lambda: 0.0), LogSystems(str(folder / "app.yaml")), clock)
    port = serve(Http(**{"port": 0, **settings}), {"/livez": lambda: document({})}, made)
    try:
        yield ConsoleClient(port)
    finally:
        port.shutdown()
        port.server_close()
        close()
