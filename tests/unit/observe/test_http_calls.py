"""Calls of the HTTP port: they leave connections for probes, and a body must arrive in time."""

import http.client
import socket
import threading
from collections.abc import Iterator

import pytest

from sluicegate.streams.agent import Http
from sluicegate.streams.observe import http as port_module
from sluicegate.streams.observe.http import (
    CALLS,
    CHANGE_HEADER,
    Answer,
    CallFields,
    HttpCalls,
    HttpPort,
    document,
    serve,
)
from tests.waiting import wait_until


class Stuck:
    """A question that answers when it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.began = 0

    def __call__(self, fields: CallFields) -> Answer:
        self.began += 1
        self.free.wait(30)
        return document(dict(fields))


@pytest.fixture
def stuck() -> Stuck:
    return Stuck()


@pytest.fixture
def port(stuck: Stuck) -> Iterator[HttpPort]:
    calls = HttpCalls({}, {"/stuck": stuck}, {"/change": lambda fields: document(dict(fields))}, "s3cret")
    made = serve(Http(port=0), {"/livez": lambda: document({})}, calls)
    yield made
    stuck.free.set()
    made.shutdown()
    made.server_close()


def status(port: HttpPort, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_calls_that_hang_leave_the_probes_alone(port: HttpPort, stuck: Stuck) -> None:
    hanging = [threading.Thread(target=status, args=(port, "/stuck")) for _ in range(CALLS)]
    for connection in hanging:
        connection.start()
    wait_until(lambda: stuck.began == CALLS, what="calls that hang")
    assert (status(port, "/stuck"), status(port, "/livez")) == (503, 200)
    stuck.free.set()
    for connection in hanging:
        connection.join()
    assert status(port, "/stuck?a=1") == 200


def sent(port: HttpPort, body: bytes, length: int) -> bytes:
    head = f"POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{CHANGE_HEADER}: s3cret\r\n"
    with socket.create_connection(("127.0.0.1", port.number), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body[:5])
        connection.sendall(body[5:])
        got = b""
        while piece := connection.recv(65536):
            got += piece
        return got


def test_a_body_in_pieces_is_read_to_its_length_and_no_further(port: HttpPort) -> None:
    assert sent(port, b'{"a": "b"}', 10).endswith(b'\r\n\r\n{"a": "b"}\n')
    assert sent(port, b'{"a": "b"}x', 10).endswith(b'\r\n\r\n{"a": "b"}\n')


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"a": ' * 10_000,
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"a": ["\\ud800"]}',
        b'{"a": 1e',
        b"\xff",
    ],
)
def test_a_body_that_is_no_document_is_refused_without_a_traceback(
    port: HttpPort, body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sent(port, body, len(body)).startswith(b"HTTP/1.0 400")
    assert "Traceback" not in capfd.readouterr().err


def test_a_body_that_does_not_arrive_is_refused(port: HttpPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "READ_SECONDS", 0.2)
    assert sent(port, b'{"a": "b"}', 11).startswith(b"HTTP/1.0 400")
