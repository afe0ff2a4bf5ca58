"""The state API of an app over a store, behind a real HTTP port."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sluicegate.streams.agent import App, Http
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.observe.http import HttpCalls, HttpPort, document, serve
from sluicegate.streams.serving.calls import resources

NOW = 1_700_000_000.0


class Served(NamedTuple):
    status: int
    content: Any
    headers: dict[str, str]

    @property
    def values(self) -> list[Any]:
        return [group["values"] for group in self.content["groups"]]


class StateServer:
    """Asks the port as a program does. `now` is its monotonic clock."""

    def __init__(self, port: HttpPort, clock: list[float]) -> None:
        self.port, self.clock = port, clock

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port.number}"

    def get(self, path: str, **headers: str) -> Served:
        connection = http.client.HTTPConnection("127.0.0.1", self.port.number, timeout=20)
        connection.request("GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return Served(answer.status, json.loads(content) if content else None, dict(answer.headers))


@contextmanager
def a_state_server(app: App, open_store: Callable[[], Store], **settings: Any) -> Iterator[StateServer]:
    clock = [0.0]
    answers, close = resources(app, open_store, lambda: clock[0], lambda: NOW)
    calls = HttpCalls(resources=answers)
    port = serve(Http(**{"port": 0, **settings}), {"/livez": lambda: document({})}, calls)
    try:
        yield StateServer(port, clock)
    finally:
        port.shutdown()
        port.server_close()
        close()
