"""The port: who gets what, and what a rude client gets."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluicegate.streams.agent import Http
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.observe import http as port_module
from sluicegate.streams.observe.http import (
    BODY_BYTES,
    CONNECTIONS,
    HEAD_BYTES,
    Answer,
    HttpPort,
    Page,
    document,
    is_loopback,
    serve,
)
from tests.waiting import wait_until

Serve = Callable[..., HttpPort]


def pages() -> dict[str, Page]:
    return {path: lambda path=path: document({"path": path}) for path in ("/livez", "/readyz", "/metrics", "/status")}


@pytest.fixture
def ports() -> Iterator[Serve]:
    made: list[HttpPort] = []

    def start(own: dict[str, Page] | None = None, **settings: object) -> HttpPort:
        made.append(serve(Http(**{"port": 0, **settings}), own or pages()))
        return made[-1]

    yield start
    for port in made:
        port.shutdown()
        port.server_close()


def ask(
    port: HttpPort, path: str = "/status", method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port.number, timeout=10)
    connection.request(method, path, headers=headers or {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if body else {}


def raw(port: HttpPort, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port.number), timeout=10) as connection:
        connection.sendall(sent)
        got = b""
        with contextlib.suppress(ConnectionResetError):  # it closes without reading the rest of what we sent
            while piece := connection.recv(65536):
                got += piece
        return got


def test_it_answers_each_page(ports: Serve) -> None:
    port = ports()
    for path in pages():
        assert ask(port, path) == (200, {"path": path})
    assert ask(port, "/status?verbose=1") == (200, {"path": "/status"})
    assert ask(port, "/other")[0] == 404


def test_what_is_not_good_is_503(ports: Serve) -> None:
    assert ask(ports(own={"/readyz": lambda: document({"ready": False}, good=False)}), "/readyz") == (
        503,
        {"ready": False},
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"])
def test_it_only_answers_get(ports: Serve, method: str) -> None:
    assert ask(ports(), method=method)[0] == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]"]
)
def test_on_loopback_a_request_that_names_another_host_is_refused(ports: Serve, host: str) -> None:
    assert ask(ports(), "/metrics", headers={"Host": host})[0] == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9464", "127.0.0.1:1", "[::1]:9464"])
def test_on_loopback_every_name_of_loopback_is_good(ports: Serve, host: str) -> None:
    assert ask(ports(), "/metrics", headers={"Host": host})[0] == 200


def test_a_page_of_another_origin_is_refused(ports: Serve) -> None:
    assert ask(ports(), headers={"Origin": "http://evil.example"})[0] == 403


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 401),
        ("Bearer wrong", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
        ("Bearer s3cret", 200),
        ("bearer s3cret", 200),
    ],
)
def test_with_a_token_data_is_only_for_who_has_it(ports: Serve, header: str, status: int) -> None:
    port = ports(token="s3cret")
    assert ask(port, "/status", headers={"Authorization": header} if header else {})[0] == status
    assert [ask(port, path)[0] for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 200]
    assert ask(port, "/unknown")[0] == 401


def test_a_token_need_not_be_ascii(ports: Serve) -> None:
    port = ports(token="schlüssel")
    assert ask(port, headers={"Authorization": "Bearer schlüssel".encode().decode("latin-1")})[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"http\.token"):
        serve(Http(port=0, host=host), pages())


def test_an_address_that_others_reach_is_open_with_a_token_and_any_host(ports: Serve) -> None:
    port = ports(host="0.0.0.0", token="s3cret")
    assert ask(port, "/metrics", headers={"Host": "worker:9464"})[0] == 200
    assert ask(port, "/status", headers={"Host": "worker:9464"})[0] == 401


def test_a_port_that_is_taken_is_a_system_that_is_not_ready(ports: Serve) -> None:
    port = ports()
    with pytest.raises(SystemNotReady, match=r"set http\.port"):
        serve(Http(port=port.number), pages())


def test_a_large_body_is_refused_unread(ports: Serve) -> None:
    port = ports()
    for header in (
        f"Content-Length: {BODY_BYTES + 1}",
        "Content-Length: 999999999999999999",
        "Transfer-Encoding: chunked",
    ):
        assert raw(port, f"GET /status HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode()).startswith(
            b"HTTP/1.0 413"
        )
    assert ask(port, headers={"Content-Length": str(BODY_BYTES)})[0] == 200


@pytest.mark.parametrize("length", ["-1", "x", "1.5", "", "\u0663", "9" * 19, "9" * 5_000, "+1", "1_0"])
def test_a_length_that_is_no_number_is_refused_without_a_traceback(
    ports: Serve, length: str, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = f"GET /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()
    assert raw(ports(), asked).startswith(b"HTTP/1.0 400")
    assert "Traceback" not in capfd.readouterr().err


def test_a_large_head_is_refused(ports: Serve) -> None:
    port = ports()
    filler = "".join(f"X-{number}: {'x' * 500}\r\n" for number in range(HEAD_BYTES // 450))
    assert raw(port, f"GET /status HTTP/1.1\r\n{filler}".encode()).startswith(b"HTTP/1.0 431")
    assert ask(port)[0] == 200


def test_a_slow_client_is_cut_off_although_it_keeps_sending(ports: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "READ_SECONDS", 0.2)
    port = ports()
    with socket.create_connection(("127.0.0.1", port.number), timeout=10) as connection:
        connection.sendall(b"GET /status HTTP/1.1\r\n")

        def cut_off() -> bool:
            try:
                connection.sendall(b"X: y\r\n")
            except OSError:
                return True
            return False

        wait_until(cut_off, what="the end of the connection")


def half_open(port: HttpPort, number: int) -> list[socket.socket]:
    """So many connections that send half of a head."""
    made = [socket.create_connection(("127.0.0.1", port.number), timeout=10) for _ in range(number)]
    for connection in made:
        connection.sendall(b"GET /livez HTTP/1.1\r\n")
    return made


def test_half_open_connections_keep_no_probe_from_its_answer(ports: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them is cut. A connection that waits for its answer is not one of them."""
    monkeypatch.setattr(port_module, "READ_SECONDS", 60.0)
    begun, wanted = threading.Event(), threading.Event()

    def slow_page() -> Answer:
        begun.set()
        wanted.wait(30)
        return pages()["/livez"]()

    port = ports(own={"/livez": pages()["/livez"], "/status": slow_page})
    threads = threading.active_count()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(ask, port, "/status")
        assert begun.wait(10)
        stuck = half_open(port, 2 * CONNECTIONS)
        began = time.monotonic()
        assert [ask(port, "/livez")[0] for _ in range(43)] == [200] * 43
        assert time.monotonic() - began < 30
        wanted.set()
        assert slow.result(30)[0] == 200
    assert stuck[0].recv(1) == b""
    assert threading.active_count() - threads <= CONNECTIONS + 1
    for connection in stuck:
        connection.close()


def test_twin_without_cutting_them_a_probe_has_no_connection(ports: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module, "READ_SECONDS", 60.0)
    monkeypatch.setattr(HttpPort, "_cut_oldest", lambda port: False)
    port = ports()
    stuck = half_open(port, CONNECTIONS)
    with pytest.raises(OSError, match=r".*"):
        ask(port, "/livez")
    for connection in stuck:
        connection.close()


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"\xff\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
)
def test_nonsense_does_not_stop_the_port(ports: Serve, sent: bytes) -> None:
    port = ports()
    with socket.create_connection(("127.0.0.1", port.number), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert ask(port)[0] == 200


def test_a_page_that_fails_answers_500_and_the_port_goes_on(ports: Serve) -> None:
    def broken() -> Answer:
        raise RuntimeError("canary")

    port = ports(own={"/status": broken, "/livez": pages()["/livez"]})
    status, body = ask(port)
    assert status == 500
    assert "canary" not in json.dumps(body)
    assert ask(port, "/livez")[0] == 200


def test_loopback_is_told_from_the_rest() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "", "10.0.0.1", "localhost.example"]))
