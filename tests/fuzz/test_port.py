"""Requests of any bytes to the HTTP port: each is answered or closed, no page's body goes to whom it is not for, and
the port goes on."""

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator

import pytest

from sluicegate.streams.agent import Http
from sluicegate.streams.observe.http import HttpPort, document, serve
from tests.fuzz.mutations import Mutator
from tests.fuzz.seeds import TIMES, drawn, replayable

REQUESTS = 300
SECRET, HIDDEN = "t0k3n", "what only the owner may see"
GOOD = [
    b"GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer other\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:9\r\nOrigin: http://evil.example\r\n\r\n",
    b"POST /status HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET http://localhost/status?x=%00 HTTP/1.1\r\nHost: evil.example\r\nX: " + b"y" * 300 + b"\r\n\r\n",
]


@pytest.fixture
def port() -> Iterator[HttpPort]:
    started = serve(
        Http(port=0, token=SECRET), {"/status": lambda: document(HIDDEN), "/metrics": lambda: document("open")}
    )
    yield started
    started.shutdown()
    started.server_close()


def answer(port: HttpPort, request: bytes) -> bytes:
    """All that comes back. Raises TimeoutError when the port neither answers nor closes."""
    got = b""
    with (
        socket.create_connection(("127.0.0.1", port.number), timeout=60) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(request)
        with contextlib.suppress(OSError):  # it has closed before it had read everything
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            got += piece
    return got


def test_a_request_of_any_bytes_is_answered_or_closed(port: HttpPort, fuzzed: Callable[[int], None]) -> None:
    random, codes = drawn("port"), set()
    mutator = Mutator(random, GOOD)
    with replayable():
        for _ in range(TIMES * REQUESTS):
            output = answer(port, mutator.one())
            assert HIDDEN.encode() not in output
            assert SECRET.encode() not in output
            codes.add(output[9:12])
    assert {b"401", b"403"} <= codes
    assert b"500" not in codes
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=60)
    connection.request("GET", "/status", headers={"Authorization": f"Bearer {SECRET}"})
    assert HIDDEN.encode() in connection.getresponse().read()
    connection.close()
    fuzzed(TIMES * REQUESTS)
