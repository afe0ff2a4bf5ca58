"""Rights for single topics, with the authorizer of a real broker and a user who has few: what is missing is named, and
nothing is lost."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.secured.systems import RIGHT
from tests.integration.supervised.run import Run
from tests.servers import Kafka, Server, Unavailable, free_port
from tests.servers.certificates import authority
from tests.servers.shared import own_folder
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_limited="{RIGHT}";'
SASL = {"sasl.enabled.mechanisms": "PLAIN", "listener.name.sasl.plain.sasl.jaas.config": PLAIN}
RIGHTS = [("in", "READ"), ("out", "WRITE"), ("dead", "WRITE"), ("group", "READ")]


class Broker(NamedTuple):
    """Everybody may do everything by its plain listener; by SASL the user `limited` may do what it was granted."""

    server: Server
    port: int
    authorities: Path

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.server.url, "log_level": 0})

    def grant(self, ns: str, rights: Sequence[tuple[str, str]]) -> None:
        """`in`, `out` and `dead` are topics, `group` is the agent's; READ and WRITE imply DESCRIBE."""
        admin = self.admin  # kept: a client that is collected drops its requests
        for future in admin.create_acls([_binding(ns, *right) for right in rights]).values():
            future.result(30)


def _binding(ns: str, name: str, operation: str) -> AclBinding:
    resource = (ResourceType.GROUP, f"{ns}.pairs") if name == "group" else (ResourceType.TOPIC, f"{ns}.{name}")
    return AclBinding(
        *resource, ResourcePatternType.LITERAL, "User:limited", "*", AclOperation[operation], AclPermissionType.ALLOW
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    signed, port = authority(own_folder() / "own"), free_port()
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS", **SASL}
    server = Server(Kafka(tls=signed.certified("broker"), listeners={"SASL": port}, config=config), own_folder())
    try:
        yield Broker(server.start(), port, signed.cert)
    except Unavailable as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
    finally:
        server.destroy()


@pytest.fixture
def file(broker: Broker, make_topic: Callable[..., str], tmp_path: Path, ns: str) -> Path:
    for topic in ("in", "out", "dead"):
        make_topic(f"{ns}.{topic}", bootstrap=broker.server.url)
    kafka = {
        "bootstrap.servers": f"localhost:{broker.port}",
        "ssl.ca.location": str(broker.authorities),
        "security.protocol": "SASL_SSL",
    }
    kafka |= {"sasl.mechanism": "PLAIN", "sasl.username": "limited", "sasl.password": RIGHT}
    rule = {"from": f"{ns}.in", "aggregate": {"count": 2}, "to": {"topic": f"{ns}.out"}}
    document = {
        "app": ns,
        "kafka": kafka,
        "store": "sqlite:///state.db",
        "dead_letters": f"{ns}.dead",
        "agents": {"pairs": rule},
    }
    path = tmp_path / "app.yaml"
    path.write_text(json.dumps(document | {"http": {"port": 0}, "outbox": False, "timeouts": False}))
    return path


@pytest.fixture
def run(file: Path) -> Iterator[Callable[[], Run]]:
    made: list[Run] = []

    def start() -> Run:
        made.append(Run(SLUICEGATE, "run", str(file)))
        return made[-1]

    yield start
    for store in made:
        store.close()
        print(*store.lines[-12:], *store.noise[-12:], sep="\n")


def sent(broker: Broker, ns: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.server.url, "enable.idempotence": True})
    for number in range(count):
        producer.produce(f"{ns}.in", b"{}", b"k%d" % (number // 2))
    assert producer.flush(30) == 0


def results(broker: Broker, ns: str, count: int) -> list[bytes]:
    """The keys of the first so many results."""
    consumer = Consumer({"bootstrap.servers": broker.server.url, "group.id": ns, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(f"{ns}.out", 0, 0)])
    findings: list[bytes] = []

    def came() -> bool:
        message = consumer.poll(0.5)
        findings.extend([message.key()] if message is not None and not message.error() else [])
        return len(findings) >= count

    wait_until(came, 90, "the results")
    consumer.close()
    return findings


@pytest.mark.parametrize("lacking", ["in", "out", "dead"])
def test_a_topic_that_may_not_even_be_described_ends_the_start_and_is_named(
    broker: Broker, file: Path, ns: str, lacking: str
) -> None:
    broker.grant(ns, [right for right in RIGHTS if right[0] != lacking])
    done = subprocess.run([SLUICEGATE, "run", str(file)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 3, done.stderr
    assert f"{ns}.{lacking}" in done.stderr
    assert "TOPIC_AUTHORIZATION_FAILED" in done.stderr
    assert "grant" in done.stderr
    assert "(tried for" not in done.stderr
    assert RIGHT not in done.stderr


def test_a_group_that_may_not_be_joined_is_named(broker: Broker, run: Callable[[], Run], ns: str) -> None:
    broker.grant(ns, RIGHTS[:-1])
    error = run().wait("worker.not_ready", timeout=60)[0]["error"]
    assert "GROUP_AUTHORIZATION_FAILED" in error
    assert f"{ns}.pairs" in error
    assert "grant" in error


def test_an_input_that_may_be_described_and_not_read_halts_its_partition_and_goes_on_when_it_may(
    broker: Broker, run: Callable[[], Run], ns: str
) -> None:
    broker.grant(ns, [("in", "DESCRIBE"), *RIGHTS[1:]])
    sent(broker, ns, 4)
    running = run()
    answer = wait_until(
        lambda: [line for line in running.lines if "TOPIC_AUTHORIZATION_FAILED" in str(line)], 60, "the refusal"
    )[0]
    assert f"{ns}.in" in str(answer)
    assert "grant" in str(answer)
    wait_until(lambda: not running.ready(), 30, "readiness that says so")
    broker.grant(ns, RIGHTS[:1])
    assert results(broker, ns, 2) == [b"k0", b"k1"]


def test_results_that_may_not_be_written_wait_and_are_sent_when_they_may(
    broker: Broker, run: Callable[[], Run], ns: str
) -> None:
    broker.grant(ns, [("out", "DESCRIBE"), *(right for right in RIGHTS if right[0] != "out")])
    sent(broker, ns, 20)
    running = run()
    answer = wait_until(
        lambda: [line for line in running.lines if "TOPIC_AUTHORIZATION_FAILED" in str(line)], 60, "the refusal"
    )[0]
    assert f"{ns}.out" in str(answer)
    assert "grant" in str(answer)
    broker.grant(ns, [("out", "WRITE")])
    assert results(broker, ns, 10) == [b"k%d" % number for number in range(10)]


def test_twin_with_every_right_nothing_is_said(broker: Broker, run: Callable[[], Run], ns: str) -> None:
    broker.grant(ns, RIGHTS)
    sent(broker, ns, 4)
    running = run()
    assert results(broker, ns, 2) == [b"k0", b"k1"]
    assert "AUTHORIZATION" not in str(running.lines)
