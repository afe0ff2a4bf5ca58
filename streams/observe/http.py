"""The HTTP port: `/livez`, `/readyz`, `/metrics`, `/status`. It answers GET, closes the connection after each answer,
and shows no keys.

On a loopback address it answers only requests that name a loopback host, against DNS rebinding. On another address it
needs a token, and answers `/status` only with this token.
"""

import hmac
import io
import ipaddress
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, NamedTuple

import structlog

from sluicegate.streams.agent import Http
from sluicegate.streams.errors import ConfigurationError, SystemNotReady

READ_SECONDS = 5.0
HEAD_BYTES = 16 * 1024
BODY_BYTES = 64 * 1024
CONNECTIONS = 32
OPEN = frozenset({"/livez", "/readyz", "/metrics"})
JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
HEADERS = {"Cache-Control": "no-store", "Allow": "GET", "X-Content-Type-Options": "nosniff"}


class Answer(NamedTuple):
    status: HTTPStatus
    type: str
    body: bytes


Page = Callable[[], Answer]
"""Returns the current answer of one path."""


def document(content: Any, good: bool = True) -> Answer:
    """A JSON answer with status 200, or with status 503 if not `good`."""
    return _json(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, content)


def _json(status: HTTPStatus, content: Any) -> Answer:
    return Answer(status, JSON, json.dumps(content).encode() + b"\n")


def _refused(status: HTTPStatus) -> Answer:
    return _json(status, {"error": status.phrase})


def serve(settings: Http, pages: dict[str, Page]) -> "HttpPort":
    """Binds the port, and answers in a daemon thread. Raises ConfigurationError for an address other than loopback
    without a token, and SystemNotReady if the address cannot be bound."""
    if not is_loopback(settings.host) and not settings.token:
        raise ConfigurationError(f"http.host {settings.host} is not loopback: set http.token, or bind 127.0.0.1")
    try:
        port = HttpPort(settings, pages)
    except OSError as error:
        place, why = f"{settings.host}:{settings.port}", error.strerror or error
        raise SystemNotReady(
            f"the HTTP port {place} cannot be had ({why}); set http.port, 0 takes a free one"
        ) from error
    threading.Thread(target=port.serve_forever, args=(0.1,), name="http", daemon=True).start()
    structlog.get_logger().info("http.listening", host=settings.host, port=port.number)
    return port


def is_loopback(host: str) -> bool:
    """Whether a host name or address means only this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HttpPort(ThreadingTCPServer):
    """The listening socket. It answers at most CONNECTIONS requests at a time, and closes further connections without
    an answer."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(self, settings: Http, pages: dict[str, Page]) -> None:
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self.settings = settings
        self.pages = pages
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((settings.host, settings.port), Request)
        self.number = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a client that closed its connection is not logged
            structlog.get_logger().exception("http.failed")


class Request(BaseHTTPRequestHandler):
    """One request on one connection."""

    server: HttpPort
    server_version = "sluicegate"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        head = read_head(self.connection)
        self._too_long = len(head) > HEAD_BYTES
        self.rfile = io.BytesIO(head)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        refusal = self._refusal(path)
        self._answer(self._page(path) if refusal is None else _refused(refusal))

    def _page(self, path: str) -> Answer:
        if path not in self.server.pages:
            return _refused(HTTPStatus.NOT_FOUND)
        try:
            return self.server.pages[path]()
        except Exception:
            structlog.get_logger().exception("http.failed", path=path)
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _refusal(self, path: str) -> HTTPStatus | None:
        if self._too_long:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        if is_loopback(self.server.settings.host) and not is_loopback(_host_of(self.headers.get("Host", "localhost"))):
            return HTTPStatus.FORBIDDEN
        if self.headers.get("Origin"):
            return HTTPStatus.FORBIDDEN
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES or self.headers.get("Transfer-Encoding"):
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        token = self.server.settings.token
        if token and path not in OPEN and not _authorized(self.headers.get("Authorization", ""), token):
            return HTTPStatus.UNAUTHORIZED
        return None

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {"Content-Type": answer.type, "Content-Length": str(len(answer.body)), **HEADERS}
        if answer.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers in JSON if the standard library refuses a request: bad syntax, too many headers, or another
        method."""
        self._answer(
            _refused(HTTPStatus(HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else code))
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Writes nothing: requests are not logged."""


def read_head(connection: socket.socket) -> bytes:
    """The request line and headers. Empty if they arrive too slowly, longer than HEAD_BYTES if they are too large."""
    head, deadline = bytearray(), time.monotonic() + READ_SECONDS
    while b"\r\n\r\n" not in head and len(head) <= HEAD_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            return b""
        connection.settimeout(left)
        try:
            piece = connection.recv(4096)
        except OSError:
            return b""
        if not piece:
            break
        head += piece
    connection.settimeout(READ_SECONDS)
    text, end, _ = bytes(head).partition(b"\r\n\r\n")
    return text + end


def _host_of(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _authorized(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode("latin-1", "replace"), token.encode()
    )
