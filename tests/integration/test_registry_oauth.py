"""OAuth client credentials: a token endpoint, and a proxy in front of a real registry (Apicurio) that demands its
tokens."""

import base64
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors import open_registry
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import OAuthClient, Registry
from tests.bench.load import create
from tests.integration.secured.served import served
from tests.integration.test_avro import command
from tests.servers import Server
from tests.servers.apicurio import Apicurio
from tests.waiting import wait_until

SECRET = "c4n4ry-9Xz"
LIFE = 3  # seconds of a token
SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]})


class Gate:
    """The token endpoint at `token_url`, and the proxy at `url`, which admits each token for LIFE seconds."""

    def __init__(self, behind: str) -> None:
        self.behind, self.url, self.token_url = behind, "", ""
        self.tokens: dict[str, float] = {}
        self.asked: list[dict[str, str]] = []
        self.headers: dict[str, str] = {}
        self.refused = 0

    def token(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        self.asked.append(dict(urllib.parse.parse_qsl(body.decode())))
        login = "Basic " + base64.b64encode(f"shop:{SECRET}".encode()).decode()
        if request.headers.get("Authorization") != login:
            return 401, b'{"error": "invalid_client", "error_description": "no such client"}'
        token = f"token-{len(self.asked)}"
        self.tokens[token] = time.monotonic() + LIFE
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": LIFE}).encode()

    def passed(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or self.tokens.get(token, 0.0) < time.monotonic():
            self.refused += 1
            return 401, b'{"error_code": 401, "message": "no valid token"}'
        self.headers = dict(request.headers)
        sent = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        wanted = urllib.request.Request(self.behind + request.path, body or None, sent, method=request.command)
        try:
            with urllib.request.urlopen(wanted, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture
def gate(own_server: Callable[..., Server], apicurio: str) -> Iterator[Gate]:
    made = Gate(own_server(Apicurio, version=apicurio).url)
    with ExitStack() as stack:
        made.url, made.token_url = (stack.enter_context(served(part)) for part in (made.passed, made.token))
        made.behind, _, path = made.behind.partition("/apis")
        made.url += f"/apis{path}" if path else ""
        yield made


def opened(gate: Gate, secret: str = SECRET, **more: Any) -> Any:
    login = OAuthClient(gate.token_url, "shop", secret, "registry", **more)
    return open_registry(Registry((gate.url,), timeout=5.0, oauth=login))


def test_a_token_is_asked_for_once_and_again_before_it_ends(gate: Gate) -> None:
    client = opened(gate, logical_cluster="lsrc-1", identity_pool="pool-1")
    id = client.id("orders-value", SCHEMA, True, "AVRO")
    assert client.id("orders-value", SCHEMA, False, "AVRO") == id
    assert gate.asked == [{"grant_type": "client_credentials", "scope": "registry"}]
    assert (gate.headers["target-sr-cluster"], gate.headers["Confluent-Identity-Pool-Id"]) == ("lsrc-1", "pool-1")
    wait_until(lambda: client.answers() or len(gate.asked) >= 3, 20, "two more tokens")
    assert json.loads(client.schema(id, "AVRO")) == json.loads(SCHEMA)
    assert gate.refused == 0


def test_a_registry_whose_tokens_are_refused_is_away_and_the_secret_is_not_told(gate: Gate) -> None:
    with pytest.raises(Unavailable, match=r"the token endpoint gives no token \(invalid_client: no such") as caught:
        opened(gate, "an0ther").answers()
    assert "an0ther" not in str(caught.value)
    gate.token_url = "http://localhost:1/token"
    with pytest.raises(Unavailable, match="the token endpoint gives no token") as caught:
        opened(gate).answers()
    assert SECRET not in str(caught.value)


FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
schema_registry: {url: URL, auth: {token_url: TOKEN_URL, client_id: shop, client_secret: "${SECRET}"}}
agents:
  amounts:
    from: NS-orders
    format: avro
    schema: order.avsc
    framing: confluent
    dead_letters: NS-dead
    aggregate: {count: 1, compute: {total: {sum: amount}}}
    to: {topic: NS-amounts, format: avro, framing: confluent, register: true}
"""


@pytest.mark.parametrize(("secret", "ok"), [(SECRET, True), ("an0ther", False)])
def test_check_reaches_the_registry_of_a_file(
    secret: str, ok: bool, gate: Gate, tmp_path: Path, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", secret)
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "amounts", "dead")))
    (tmp_path / "order.avsc").write_text(SCHEMA)
    text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("TOKEN_URL", gate.token_url)
    (tmp_path / "shop.yaml").write_text(text.replace("URL", gate.url))
    words = command("check", str(tmp_path / "shop.yaml"), "--connect", "--json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    verdicts = [system["ok"] for system in json.loads(done.stdout)["systems"] if system["system"] == "registry"]
    assert verdicts == ([True, True] if ok else [False])
    assert secret not in done.stdout + done.stderr
