"""`sluicegate.Client` against a real HTTP port."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sluicegate import Client, ClientError, ConfigurationError, StateGroup
from sluicegate.streams.agent import App
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.serving import calls, client
from tests.unit.serving.served import a_state_server
from tests.unit.serving.test_state import Shop, served, windows

TOKEN = "0123456789abcdef"


@pytest.fixture
def shop() -> Shop:
    return Shop().put(("x", 5), ("x", 7))


def test_a_group_has_its_values_and_its_place(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        group = Client(server.url).group("sums", "x")
        assert group is not None
        assert group == StateGroup(b"x", "in", 0, 2, {"total": 12}, None, 0, 1, group.age, group.fires_in, "member")
        assert group.fires_in is not None
        assert 0 < group.fires_in <= 30


def test_a_key_without_a_group_is_none(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        assert Client(server.url).group("sums", "unknown") is None
        assert list(Client(server.url).groups("sums", "unknown")) == []


@pytest.mark.parametrize("key", ["a/b c", "grün", b"\xff\x00", b"base64:eA=="])
def test_a_key_is_text_or_bytes(shop: Shop, key: str | bytes) -> None:
    shop.log.append("in", 0, key.encode() if isinstance(key, str) else key, b'{"amount": 3}')
    shop.driver.turns()
    with served(shop.store, shop.agent) as server:
        group = Client(server.url + "/").group("sums", key)
        assert group is not None
        assert (group.key, group.values) == (key.encode() if isinstance(key, str) else key, {"total": 3})


def test_all_pages_of_the_windows_of_a_key_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAGE", 2)
    shop = windows(5)
    with served(shop.store, shop.agent) as server:
        asking = Client(server.url)
        assert [group.values["total"] for group in asking.groups("sums", "x")] == [0, 1, 2, 3, 4]
        one = asking.group("sums", "x", window="2026-01-01T00:03:00Z")
        assert one is not None
        assert (one.values["total"], one.window) == (3, "2026-01-01T00:03:00.000Z")
        with pytest.raises(ClientError, match="5 open groups"):
            asking.group("sums", "x")


def test_a_fresh_answer_is_of_the_last_commit(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server:
        asking = Client(server.url)
        asking.group("sums", "w")
        shop.put(("w", 1))
        assert asking.group("sums", "w") is None
        assert asking.group("sums", "w", fresh=True) is not None


def test_the_token_is_sent_and_not_shown(shop: Shop) -> None:
    with served(shop.store, shop.agent, token=TOKEN) as server:
        asking = Client(server.url, token=TOKEN)
        assert asking.group("sums", "x") is not None
        assert TOKEN not in repr(asking)
        with pytest.raises(ClientError) as refused:
            Client(server.url).group("sums", "x")
        assert (refused.value.status, refused.value.retry_after) == (401, None)


def test_an_unknown_agent_is_an_error_with_the_names_of_all(shop: Shop) -> None:
    with served(shop.store, shop.agent) as server, pytest.raises(ClientError, match="there are sums") as refused:
        Client(server.url).group("sum", "x")
    assert refused.value.status == 404


def test_a_port_without_the_state_api_is_an_error() -> None:
    from sluicegate.streams.agent import Http
    from sluicegate.streams.observe.http import serve

    port = serve(Http(port=0), {})
    try:
        with pytest.raises(ClientError) as refused:
            Client(f"http://127.0.0.1:{port.number}").group("sums", "x")
        assert refused.value.status == 404
    finally:
        port.shutdown()
        port.server_close()


def test_an_outage_says_when_to_ask_again(shop: Shop) -> None:
    def open_store() -> None:
        raise PersistenceError("no store")

    with (
        a_state_server(App("app", "memory://", (shop.agent,)), open_store) as server,  # type: ignore[arg-type]
        pytest.raises(ClientError, match="no store") as refused,
    ):
        Client(server.url).group("sums", "x")
    assert (refused.value.status, refused.value.retry_after) == (503, 1.0)
    with pytest.raises(ClientError, match="does not answer") as refused:
        Client("http://127.0.0.1:1", timeout=1).group("sums", "x")
    assert (refused.value.status, refused.value.retry_after) == (0, 1.0)


@pytest.mark.parametrize("url", ["localhost:9464", "ftp://host", "http://", "file:///etc/passwd", "http://h/?a=1"])
def test_a_url_that_is_none_of_a_worker_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Client(url)


@contextmanager
def another_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_redirect_is_not_followed_since_the_token_would_go_along() -> None:
    paths = list[str]()

    def answer(request: BaseHTTPRequestHandler) -> None:
        paths.append(request.path)
        request.send_response(302)
        request.send_header("Location", "/elsewhere")
        request.end_headers()

    with another_server(answer) as url, pytest.raises(ClientError) as refused:
        Client(url, token=TOKEN).group("a", "b")
    assert (refused.value.status, len(paths)) == (302, 1)


def test_an_answer_of_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"<html>")

    with another_server(answer) as url:
        with pytest.raises(ClientError, match="not a JSON object"):
            Client(url).group("a", "b")
        monkeypatch.setattr(client, "LONGEST_ANSWER", 3)
        with pytest.raises(ClientError, match="longer than 3 bytes"):
            Client(url).group("a", "b")
