"""Collectors of OpenTelemetry: servers that keep what they are sent."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc


@contextmanager
def by_http() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """The address of a collector, and (path, body) of what it was sent."""
    received: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


@contextmanager
def by_grpc(add: Callable[[Any, grpc.Server], None], answer: Any) -> Iterator[tuple[str, list[Any]]]:
    """The address of a collector, and the requests of its service, which `add` adds. It always gives this answer."""
    received: list[Any] = []

    class Service:
        def Export(self, request: Any, context: object) -> Any:
            received.append(request)
            return answer

    server = grpc.server(ThreadPoolExecutor(1))
    add(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        server.stop(None).wait(20)
