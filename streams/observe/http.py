"""The HTTP port: `/livez`, `/readyz`, `/metrics`, `/status`, which show no keys; and the calls of the console and of
the state API, if they are on. It closes the connection after each answer.

On a loopback address it answers only requests that name a loopback host, against DNS rebinding. On another address a
token is required, and all paths except OPEN are answered only with this token.

A call that changes state is a POST of JSON. For a request from another site, a browser first asks with OPTIONS, which
is refused. An `Origin` other than our own is also refused. A change carries the secret CHANGE_HEADER, which only a page
of our own origin can read.
"""

import contextlib
import hmac
import io
import ipaddress
import json
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import structlog

from sluicegate.streams.agent import Http
from sluicegate.streams.errors import ConfigurationError, SystemNotReady

READ_SECONDS = 5.0
HEAD_BYTES = 16 * 1024
BODY_BYTES = 64 * 1024
CONNECTIONS = 32
NUMBER = re.compile(r"[0-9]{1,18}")  # a Content-Length
FIELDS = 20  # of a query
CALLS = 8  # concurrent calls: the rest of the connections are for probes and metrics
CUT_SECONDS = 1.0  # the wait for the thread of a closed connection
OPEN = frozenset({"/livez", "/readyz", "/metrics"})
JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
CHANGE_HEADER = "Sluicegate-Change"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


class Answer(NamedTuple):
    """`headers` are added to HEADERS, or replace them."""

    status: HTTPStatus
    type: str
    body: bytes
    headers: Mapping[str, str] = {}


Page = Callable[[], Answer]
"""Returns the current answer of one path."""
CallFields = Mapping[str, Any]
"""The fields of a query, as text, or the fields of the JSON document of a POST."""
AnswerCall = Callable[[CallFields], Answer]


class ResourceRequest(NamedTuple):
    """A GET of a resource. `path` is the part after the prefix, unchanged: percent-encoded."""

    path: str
    fields: CallFields
    headers: Mapping[str, str]


AnswerResource = Callable[[ResourceRequest], Answer]


class HttpCalls(NamedTuple):
    """Answers by path: public files, questions (GET), and changes (POST). A change must carry `secret` in
    CHANGE_HEADER. `resources` answer a GET of all paths that begin with their prefix, such as `/agents/`."""

    files: Mapping[str, Page] = {}
    questions: Mapping[str, AnswerCall] = {}
    changes: Mapping[str, AnswerCall] = {}
    secret: str = ""
    resources: Mapping[str, AnswerResource] = {}


NO_CALLS = HttpCalls()


def new_secret() -> str:
    return secrets.token_urlsafe(32)


class _Refused(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status


def document(content: Any, good: bool = True) -> Answer:
    """A JSON answer with status 200, or with status 503 if not `good`."""
    return _json(HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, content)


def _json(status: HTTPStatus, content: Any) -> Answer:
    return Answer(status, JSON, json.dumps(content).encode() + b"\n")


def _refused(status: HTTPStatus) -> Answer:
    return _json(status, {"error": status.phrase})


def serve(settings: Http, pages: dict[str, Page], calls: HttpCalls = NO_CALLS) -> "HttpPort":
    """Binds the port, and answers in a daemon thread. Raises ConfigurationError for an address other than loopback
    without a token, and SystemNotReady if the address cannot be bound."""
    if not is_loopback(settings.host) and not settings.token:
        raise ConfigurationError(f"http.host {settings.host} is not loopback: set http.token, or bind 127.0.0.1")
    try:
        port = HttpPort(settings, pages, calls)
    except OSError as error:
        place, why = f"{settings.host}:{settings.port}", error.strerror or error
        raise SystemNotReady(
            f"the HTTP port {place} cannot be opened ({why}); set http.port; 0 takes a free one"
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
    """The listening socket. It answers at most CONNECTIONS requests at a time. A further connection replaces the oldest
    one that still sends its request or receives its answer, so slow clients do not block probes."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = CONNECTIONS

    def __init__(self, settings: Http, pages: dict[str, Page], calls: HttpCalls = NO_CALLS) -> None:
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self.settings = settings
        self.pages = pages
        self.calls = calls
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self.free_calls = threading.BoundedSemaphore(CALLS)
        self._transferring: dict[socket.socket, None] = {}  # connections that wait for their client, oldest first
        self._lock = threading.Lock()
        super().__init__((settings.host, settings.port), Request)
        self.number = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False) or (self._cut_oldest() and self._free.acquire(timeout=CUT_SECONDS)):
            with self._lock:
                self._transferring[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._transferring.pop(request, None)
            self._free.release()

    def _cut_oldest(self) -> bool:
        """Close the oldest connection that waits for its client. Returns False if there is none."""
        with self._lock:
            oldest = next(iter(self._transferring), None)
            if oldest is None:
                return False
            del self._transferring[oldest]
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        return True

    @contextlib.contextmanager
    def computing(self, request: socket.socket) -> Iterator[None]:
        """While the context is open, the connection waits for its answer and not for its client, so it is not
        closed."""
        with self._lock:
            waiting = self._transferring.pop(request, self)
        try:
            yield
        finally:
            if waiting is None:
                with self._lock:
                    self._transferring[request] = None

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
        head, self._body = read_head(self.connection)
        self._too_long = len(head) > HEAD_BYTES
        self.rfile = io.BytesIO(head)

    def do_GET(self) -> None:
        self._call(self._read)

    def do_POST(self) -> None:
        self._call(self._change)

    def _call(self, answer: Callable[[str, str], Answer]) -> None:
        path, _, query = self.path.partition("?")
        try:
            self._check(path)
            self._answer(answer(path, query))
        except _Refused as refused:
            self._answer(_refused(refused.status))

    def _read(self, path: str, query: str) -> Answer:
        own, calls = self.server.pages, self.server.calls
        page = own.get(path) or calls.files.get(path)
        if page is not None:
            return self._contents(path, page)
        try:
            fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=FIELDS))
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST) from None
        question = calls.questions.get(path)
        if question is not None:
            return self._called(path, lambda: question(fields))
        prefix = path[: path.find("/", 1) + 1]
        resource = calls.resources.get(prefix)
        if resource is None:
            raise _Refused(HTTPStatus.NOT_FOUND)
        request = ResourceRequest(path.removeprefix(prefix), fields, dict(self.headers))
        return self._called(prefix, lambda: resource(request))

    def _change(self, path: str, _query: str) -> Answer:
        change = self.server.calls.changes.get(path)
        if change is None:
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED)
        if self.headers.get_content_type() != JSON:
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if not _same(self.headers.get(CHANGE_HEADER, ""), self.server.calls.secret):
            raise _Refused(HTTPStatus.FORBIDDEN)
        try:
            body = json.loads(read_body(self.connection, self._body, int(self.headers.get("Content-Length", "0"))))
            json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate is not text that could be stored or shown
        except (ValueError, RecursionError):
            raise _Refused(HTTPStatus.BAD_REQUEST) from None
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST)
        return self._called(path, lambda: change(body))

    def _called(self, path: str, page: Page) -> Answer:
        if not self.server.free_calls.acquire(blocking=False):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE)._replace(headers={"Retry-After": "1"})
        try:
            return self._contents(path, page)
        finally:
            self.server.free_calls.release()

    def _contents(self, path: str, page: Page) -> Answer:
        try:
            with self.server.computing(self.connection):
                return page()
        except Exception:
            structlog.get_logger().exception("http.failed", path=path)
            return _refused(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _check(self, path: str) -> None:
        """Raises _Refused for a request that may not be answered."""
        if self._too_long:
            raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if is_loopback(self.server.settings.host) and not is_loopback(_host_of(self.headers.get("Host", "localhost"))):
            raise _Refused(HTTPStatus.FORBIDDEN)
        if not self._of_our_origin():
            raise _Refused(HTTPStatus.FORBIDDEN)
        self._check_length(self.headers.get("Content-Length", "0"))
        token = self.server.settings.token
        free = path in OPEN or path in self.server.calls.files
        if token and not free and not _authorized(self.headers.get("Authorization", ""), token):
            raise _Refused(HTTPStatus.UNAUTHORIZED)

    def _check_length(self, length: str) -> None:
        if not NUMBER.fullmatch(length):
            raise _Refused(HTTPStatus.BAD_REQUEST)
        if int(length) > BODY_BYTES or self.headers.get("Transfer-Encoding"):
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _of_our_origin(self) -> bool:
        """Whether the request does not come from a page of another site. Only the console's own page sends an
        Origin."""
        origin, host = self.headers.get("Origin"), self.headers.get("Host", "")
        if origin is None:
            return True
        return bool(self.server.calls.files and host) and origin in (f"http://{host}", f"https://{host}")

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {"Content-Type": answer.type, "Content-Length": str(len(answer.body)), **HEADERS, **answer.headers}
        if answer.status == HTTPStatus.NOT_MODIFIED:
            del headers["Content-Length"]  # the length of a body that is not sent
        if answer.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "POST" if self.path in self.server.calls.changes else "GET"
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


def read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    """The request line and headers, and the bytes after them. Empty if they arrive too slowly; longer than HEAD_BYTES
    if they are too large."""
    head, deadline = bytearray(), time.monotonic() + READ_SECONDS
    while b"\r\n\r\n" not in head and len(head) <= HEAD_BYTES:
        piece = _received(connection, deadline)
        if piece is None:
            return b"", b""
        if not piece:
            break
        head += piece
    connection.settimeout(READ_SECONDS)
    text, end, rest = bytes(head).partition(b"\r\n\r\n")
    return text + end, rest


def read_body(connection: socket.socket, begin: bytes, length: int) -> bytes:
    """The body of a request; its part `begin` is already received. Raises ValueError if it is shorter or too slow."""
    body, deadline = bytearray(begin), time.monotonic() + READ_SECONDS
    while len(body) < length:
        piece = _received(connection, deadline)
        if not piece:
            raise ValueError("the body of the request did not arrive")
        body += piece
    connection.settimeout(READ_SECONDS)
    return bytes(body[:length])


def _received(connection: socket.socket, deadline: float) -> bytes | None:
    """The next bytes; empty at the end. None if nothing arrives before `deadline`."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return None
    connection.settimeout(remaining)
    try:
        return connection.recv(4096)
    except OSError:
        return None


def _host_of(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _authorized(header: str, token: str) -> bool:
    scheme, _, credential = header.partition(" ")
    return scheme.lower() == "bearer" and _same(credential.strip(), token)


def _same(credential: str, wanted: str) -> bool:
    return bool(wanted) and hmac.compare_digest(credential.encode("latin-1", "replace"), wanted.encode())
