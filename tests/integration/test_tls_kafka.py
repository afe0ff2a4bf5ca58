"""TLS and SASL to a real broker, with certificates of our own: a record goes through, and what is wrong is refused at
once and in words."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sluicegate.connectors.kafka import admin
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.producer import open_producer
from sluicegate.streams.errors import NotAuthenticated
from tests.integration.secured.passage import goes_through
from tests.integration.secured.systems import RIGHT, WRONG
from tests.servers import Kafka, Server, Unavailable, free_port
from tests.servers.certificates import Authority, Certificate, authority
from tests.servers.kafka import SECURITY
from tests.servers.shared import own_folder
from tests.waiting import wait_until

PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="{RIGHT}";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class Broker(NamedTuple):
    """With TLS; TLS that wants a certificate of ours; SASL over TLS; and TLS with a certificate that ended."""

    server: Server
    signed: Authority
    ours: Certificate
    ports: Mapping[str, int]

    def settings(self, listener: str, host: str = "localhost", **more: str) -> dict[str, Any]:
        common = {"bootstrap.servers": f"{host}:{self.ports[listener]}", "ssl.ca.location": str(self.signed.cert)}
        values = {name.replace("_", "."): value for name, value in more.items()}
        return common | {"security.protocol": SECURITY[listener].lower()} | values

    def password(self, mechanism: str, password: str) -> dict[str, Any]:
        return self.settings("SASL", sasl_mechanism=mechanism, sasl_username="worker", sasl_password=password)

    def mutual(self) -> dict[str, Any]:
        return self.settings(
            "MUTUAL", ssl_certificate_location=str(self.ours.cert), ssl_key_location=str(self.ours.key)
        )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    signed, ports = authority(own_folder() / "own"), {name: free_port() for name in SECURITY}
    ended = signed.certified("ended", days=-1)
    sasl = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    sasl |= {
        "listener.name.sasl.plain.sasl.jaas.config": PLAIN,
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM,
    }
    expired = {
        "listener.name.ended.ssl.keystore.type": "PEM",
        "listener.name.ended.ssl.keystore.location": str(ended.both),
    }
    program = Kafka(tls=signed.certified("broker"), listeners=ports, config=sasl | expired)
    server = Server(program, own_folder())
    try:
        server.start()
        _add_scram_user(server.url)
        yield Broker(server, signed, signed.certified("client"), ports)
    except Unavailable as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
    finally:
        server.destroy()


def _add_scram_user(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    wanted = UserScramCredentialUpsertion(
        "worker", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), RIGHT.encode()
    )
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    client.alter_user_scram_credentials([wanted])["worker"].result(30)
    wait_until(
        lambda: client.describe_user_scram_credentials(["worker"])["worker"].result(30).scram_credential_infos,
        30,
        "the user",
    )


RIGHTS: dict[str, Callable[[Broker], dict[str, Any]]] = {
    "TLS": lambda broker: broker.settings("TLS"),
    "mutual TLS": lambda broker: broker.mutual(),
    "PLAIN over TLS": lambda broker: broker.password("PLAIN", RIGHT),
    "SCRAM-SHA-256 over TLS": lambda broker: broker.password("SCRAM-SHA-256", RIGHT),
}


@pytest.mark.parametrize("way", RIGHTS)
def test_a_record_goes_through(broker: Broker, make_topic: Callable[..., str], ns: str, way: str) -> None:
    goes_through(RIGHTS[way](broker), make_topic(ns, bootstrap=broker.server.url), ns)


WRONGS: dict[str, tuple[Callable[[Broker], dict[str, Any]], str]] = {
    "another authority": (
        lambda b: b.settings("TLS", ssl_ca_location=str(_another())),
        "certificate is not trusted: .*certificate",
    ),
    "another host": (lambda b: b.settings("TLS", host="127.0.0.1"), "not trusted: IP address mismatch.*127.0.0.1"),
    "a certificate that ended": (lambda b: b.settings("ENDED"), "not trusted: certificate has expired"),
    "no certificate of ours": (lambda b: b.settings("MUTUAL"), "does not accept our certificate, or requires one"),
    "a wrong password": (lambda b: b.password("PLAIN", WRONG), "refuses user or password"),
    "a wrong password, SCRAM": (lambda b: b.password("SCRAM-SHA-256", WRONG), "refuses user or password"),
}


def _another() -> Path:
    return authority(own_folder() / "another").cert


@pytest.mark.parametrize("wrong", WRONGS)
def test_what_is_wrong_is_said_at_once(broker: Broker, wrong: str) -> None:
    made, words = WRONGS[wrong]
    with pytest.raises(NotAuthenticated, match=words) as caught:
        admin.existing(made(broker), ["any"], timeout=30)
    assert str(caught.value).startswith("Kafka: ")
    assert "of `kafka`" in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_client_that_runs_ends_when_it_is_turned_away(broker: Broker, kind: str, ns: str) -> None:
    """Not only the question at the start: a process that is refused ends, and is started with what the secrets are
    then."""
    settings = broker.password("PLAIN", WRONG)
    client = KafkaInput(settings, ns, [ns], "m") if kind == "consumer" else open_producer(settings)
    turn: Callable[[], object] = (lambda: client.poll(0.05)) if kind == "consumer" else client.poll  # type: ignore[call-arg]
    with pytest.raises(NotAuthenticated, match="refuses user or password"):
        wait_until(lambda: turn() and False, 60, "the refusal")
    client.close()


def test_without_the_checks_the_same_brokers_are_used(broker: Broker) -> None:
    """The twin: nothing but the checks stood in the way."""
    for listener, host in (("ENDED", "localhost"), ("TLS", "127.0.0.1")):
        unchecked = broker.settings(listener, host) | {"enable.ssl.certificate.verification": False}
        assert admin.existing(unchecked, ["absent"], timeout=30) == {"absent": None}
