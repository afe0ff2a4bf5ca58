"""Logins by tokens (SASL/OAUTHBEARER) to a real broker that asks an issuer of the test for its keys; and what the
libraries of the clouds make, as far as that shows without a cloud."""

import base64
import json
import os
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from sluicegate.connectors.kafka import admin, logins
from sluicegate.streams.errors import ConfigurationError, NotAuthenticated, SystemNotReady
from tests.integration.outputs import taken
from tests.integration.secured.issuer import CLIENT, Issuer
from tests.integration.secured.passage import goes_through
from tests.integration.secured.served import served
from tests.integration.secured.systems import RIGHT, WRONG
from tests.integration.supervised.run import Run
from tests.integration.test_topic_patterns import SLUICEGATE
from tests.servers import Kafka, Server, Unavailable, free_port
from tests.servers.certificates import authority
from tests.servers.shared import own_folder
from tests.waiting import wait_until

FILE = """\
app: NS
kafka:
  bootstrap.servers: BROKER
  ssl.ca.location: AUTHORITY
  login: oidc
  sasl.oauthbearer.token.endpoint.url: ISSUER/token
  sasl.oauthbearer.client.id: sluicegate
  sasl.oauthbearer.client.secret: ${OIDC_SECRET}
store: sqlite:///state.db
dead_letters: NS.dead
http: false
agents:
  a:
    from: NS.in
    aggregate: {count: 1, compute: {id: {last: id}}}
    to: {topic: NS.out}
"""


class Broker(NamedTuple):
    server: Server
    issuer: Issuer
    address: str
    authority: Path

    def oidc(self, secret: str = RIGHT, **more: str) -> dict[str, Any]:
        asked = {"token.endpoint.url": f"{self.issuer.url}/token", "client.id": CLIENT, "client.secret": secret}
        return self.by("oidc") | {f"sasl.oauthbearer.{name}": value for name, value in asked.items()} | more

    def by(self, login: str, **more: str) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "ssl.ca.location": str(self.authority), "login": login} | more


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    signed, port, issuer = authority(own_folder() / "own"), free_port(), Issuer()
    with ExitStack() as stack:
        issuer.url = stack.enter_context(served(issuer.answer))
        program = Kafka(
            tls=signed.certified("broker"),
            listeners={"SASL": port},
            config=issuer.of_the_broker(),
            options=issuer.options(),
        )
        server = Server(program, own_folder())
        stack.callback(server.destroy)
        try:
            server.start()
        except Unavailable as error:
            pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
        yield Broker(server, issuer, f"localhost:{port}", signed.cert)


@pytest.fixture
def azure(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A managed identity of an App Service, whose endpoint is the issuer."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{broker.issuer.url}/identity")
    monkeypatch.setenv("IDENTITY_HEADER", RIGHT)
    logins._azure_credential.cache_clear()
    yield
    logins._azure_credential.cache_clear()


def test_a_record_goes_through_by_oidc(broker: Broker, make_topic: Callable[..., str], ns: str) -> None:
    goes_through(broker.oidc(), make_topic(ns, bootstrap=broker.server.url), ns)


def test_a_record_goes_through_by_a_managed_identity(
    broker: Broker, azure: None, make_topic: Callable[..., str], ns: str
) -> None:
    scope = {"sasl.oauthbearer.scope": "https://shop.servicebus.windows.net/.default"}
    goes_through(broker.by("azure", **scope), make_topic(ns, bootstrap=broker.server.url), ns)
    assert broker.issuer.asked["/identity"] >= 1


def test_the_broker_asks_for_a_token(broker: Broker) -> None:
    """The twin: without a token of this issuer nobody comes in."""
    plain = {"security.protocol": "ssl", "bootstrap.servers": broker.address, "ssl.ca.location": str(broker.authority)}
    with pytest.raises(SystemNotReady):
        admin.existing(plain, ["any"], timeout=3)


def test_a_wrong_secret_is_refused_at_once(broker: Broker) -> None:
    begin = time.monotonic()
    with pytest.raises(NotAuthenticated, match=r"the login is refused: .*no such client.*; correct the settings"):
        admin.existing(broker.oidc(WRONG), ["any"], timeout=30)
    assert time.monotonic() - begin < 15


def test_an_issuer_that_is_not_there_is_waited_for(broker: Broker) -> None:
    """It may still start: `run` asks again until start_timeout."""
    for url in ("http://127.0.0.1:1/token", f"{broker.issuer.url}/token"):
        broker.issuer.mood = "" if "127.0.0.1:1" in url else "garbage"
        settings = broker.oidc() | {"sasl.oauthbearer.token.endpoint.url": url}
        try:
            with pytest.raises(SystemNotReady, match="Failed to acquire SASL OAUTHBEARER token") as caught:
                admin.existing(settings, ["any"], timeout=30)
            assert not isinstance(caught.value, NotAuthenticated)
        finally:
            broker.issuer.mood = ""


def test_a_cloud_without_credentials_says_so_before_a_client_is_made(
    broker: Broker, azure: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", WRONG)
    begin = time.monotonic()
    with pytest.raises(SystemNotReady, match="Kafka: login azure: no token: "):
        admin.existing(broker.by("azure", **{"sasl.oauthbearer.scope": "https://x/.default"}), ["any"], timeout=30)
    assert time.monotonic() - begin < 60


class Started:
    """A run of FILE, whose tokens live for a few seconds."""

    def __init__(self, broker: Broker, folder: Path, ns: str) -> None:
        text = FILE.replace("NS", ns).replace("BROKER", broker.address).replace("ISSUER", broker.issuer.url)
        (folder / "shop.yaml").write_text(text.replace("AUTHORITY", str(broker.authority)))
        self.producer = Producer({"bootstrap.servers": broker.server.url, "enable.idempotence": True})
        reading = {"group.id": f"{ns}.reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.reader = Consumer({"bootstrap.servers": broker.server.url, **reading})
        self.reader.subscribe([f"{ns}.out"])
        self.ns, self.sent, self.outputs = ns, 0, dict[bytes, Message]()
        self.run = Run(SLUICEGATE, "run", str(folder / "shop.yaml"))

    def close(self) -> None:
        self.run.close()
        self.reader.close()

    def send(self, count: int = 20) -> None:
        for number in range(self.sent, self.sent + count):
            self.producer.produce(f"{self.ns}.in", json.dumps({"id": number}), key=str(number % 5))
        assert self.producer.flush(20) == 0
        self.sent += count

    def results(self) -> list[int]:
        wait_until(lambda: taken(self.reader, self.outputs) >= self.sent, 60, f"{self.sent} results")
        return sorted(json.loads(message.value() or b"")["id"] for message in self.outputs.values())


def test_a_worker_runs_on_over_many_tokens_and_an_issuer_that_is_away(
    broker: Broker, make_topic: Callable[..., str], ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("in", "out", "dead"):
        make_topic(f"{ns}.{name}", bootstrap=broker.server.url)
    monkeypatch.setenv("OIDC_SECRET", RIGHT)
    monkeypatch.setattr(broker.issuer, "life", 8)
    started = Started(broker, tmp_path, ns)
    try:
        started.send()
        started.results()
        asked = broker.issuer.asked["/token"]
        wait_until(lambda: broker.issuer.asked["/token"] >= asked + 4, 60, "new tokens")
        started.send()
        started.results()
        assert not started.run.events("worker.ended")
        broker.issuer.mood = "garbage"
        asked = broker.issuer.asked["/token"]
        wait_until(lambda: broker.issuer.asked["/token"] >= asked + 4, 90, "tokens that are not to be had")
        started.send()
        broker.issuer.mood = ""
        assert started.results() == list(range(started.sent))
        assert started.run.process.poll() is None
    finally:
        broker.issuer.mood = ""
        print("\n".join(map(str, started.run.lines[-40:])), *started.run.noise[-20:])
        started.close()


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_msk_iam_signs_a_request_for_the_region_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-key")
    servers = "b-1.shop.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"
    made = logins.expanded({"bootstrap.servers": servers, "login": "msk-iam"})
    token, ends = made.pop("oauth_cb")("")
    url = urllib.parse.urlsplit(decoded(token).decode())
    query = dict(urllib.parse.parse_qsl(url.query))
    assert url.netloc == "kafka.eu-central-1.amazonaws.com"
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert 800 < ends - time.time() <= 900
    assert made == {"bootstrap.servers": servers, "security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"}


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_msk_iam_takes_the_region_of_the_environment_for_other_names(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="set AWS_REGION"):
        logins.expanded({"bootstrap.servers": "kafka.shop.example:9098", "login": "msk-iam"})
    monkeypatch.setenv(variable, "us-east-1")
    assert logins._region({"bootstrap.servers": "kafka.shop.example:9098"}) == "us-east-1"
    serverless = "boot-abc.c1.kafka-serverless.ap-southeast-2.amazonaws.com:9098"
    assert logins._region({"bootstrap.servers": serverless}) == "ap-southeast-2"


def test_azure_asks_for_the_namespace_of_the_brokers() -> None:
    assert logins._azure_scope("shop.servicebus.windows.net:9093") == "https://shop.servicebus.windows.net/.default"
    with pytest.raises(ConfigurationError, match=r"write sasl\.oauthbearer\.scope"):
        logins._azure_scope("localhost:9093")


def test_gcp_wraps_the_token_of_a_service_account(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "shop@example", "private_key": key.decode()}
    account |= {"token_uri": f"{broker.issuer.url}/google", "project_id": "shop", "private_key_id": "one"}
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    logins._google_credentials.cache_clear()
    try:
        token, ends = logins.expanded({"bootstrap.servers": "localhost:9092", "login": "gcp"})["oauth_cb"]("")
    finally:
        logins._google_credentials.cache_clear()
    header, claims, wrapped = map(decoded, token.split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert json.loads(claims)["sub"] == "shop@example"
    assert json.loads(claims)["exp"] == ends
    assert abs(ends - time.time() - broker.issuer.life) < 10
    assert wrapped.count(b".") == 2


def test_an_old_token_serves_while_no_new_one_can_be_had() -> None:
    answers: list[Any] = [
        ("one", time.time() + 60),
        RuntimeError("away"),
        ("two", time.time() + 2),
        RuntimeError("away"),
    ]

    def asked() -> logins.TokenAndEnd:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    renewal = logins.TokenRenewal("azure", asked)
    assert [renewal("")[0] for _ in range(3)] == ["one", "one", "two"]
    with pytest.raises(RuntimeError):
        renewal("")
