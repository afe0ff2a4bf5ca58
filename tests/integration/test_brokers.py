"""Brokers of several releases: what `check --connect` says of them, and that workers run on them. And a broker that
lacks what Kafka has: librdkafka's own, which is made for tests."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer

from sluicegate.connectors.kafka import brokers
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.streams.cli.checking import brokers as checking
from sluicegate.streams.config import load
from tests.bench.load import create
from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.integration.test_topic_patterns import SLUICEGATE
from tests.servers import Kafka, Server, Unavailable, jars
from tests.servers.shared import own_folder
from tests.waiting import wait_until

FILE = """\
app: shop
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000}
store: sqlite:///state.db
dead_letters: shop.dead
http: false
agents:
  counted:
    from: orders
    aggregate: {count: 2, compute: {ids: {collect: id}}}
    to: {topic: counted}
  forwarded:
    from: orders
    delivery: transactional
    to: {topic: forwarded}
"""


@pytest.fixture(params=(jars.VERSION, *jars.OTHER_VERSIONS))
def broker(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The version, and the address."""
    server = Server(Kafka(version=request.param), own_folder())
    with ExitStack() as stack:
        stack.callback(server.destroy)
        try:
            server.start()
        except Unavailable as error:
            pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
        yield request.param, server.url


def written(folder: Path, address: str, text: str = FILE) -> Path:
    (folder / "shop.yaml").write_text(text.replace("KAFKA", address))
    return folder / "shop.yaml"


def test_a_release_is_recognized_and_runs_the_app_under_a_kill(broker: tuple[str, str], tmp_path: Path) -> None:
    version, address = broker
    create(address, "orders", "counted", "forwarded", "shop.dead", partitions=2)
    file = written(tmp_path, address)
    app = load(file, {}).app
    assert app is not None
    texts = [finding.text for finding in checking.findings(app, 10.0)]
    assert texts == [f"the brokers answer like Kafka {version.rpartition('.')[0]}"]
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    reading = {"group.id": "reader", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    reader, outputs = Consumer({"bootstrap.servers": address, **reading}), dict[bytes, Message]()
    reader.subscribe(["counted", "forwarded"])
    run = Run(SLUICEGATE, "run", str(file))
    try:
        for half in (range(100), range(100, 200)):
            for number in half:
                producer.produce("orders", json.dumps({"id": number}), key=str(number % 10))
            assert producer.flush(20) == 0
            before = len(outputs)
            wait_until(lambda before=before: taken(reader, outputs) > before, 60, "results")
            for event in run.wait("worker.started", 2)[-2:]:
                with suppress(ProcessLookupError):
                    os.kill(event["pid"], signal.SIGKILL)
        wait_until(lambda: taken(reader, outputs) >= 300, 90, "all results")
        results = [json.loads(message.value() or b"") for message in outputs.values()]
        assert sorted(result["id"] for result in results if "id" in result) == list(range(200))
        assert sorted(id for result in results for id in result.get("ids", ())) == list(range(200))
    finally:
        print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])
        run.close()
        reader.close()


def test_a_broker_that_lacks_something_is_recognized(tmp_path: Path) -> None:
    broker = EmbeddedBroker({"orders": 1})
    try:
        versions = brokers.versions({"bootstrap.servers": broker.bootstrap}, 10.0)
        assert brokers.release(versions) == ""
        app = load(written(tmp_path, broker.bootstrap), {}).app
        assert app is not None
        findings = [*checking.findings(app, 10.0)]
    finally:
        broker.close()
    assert findings[0].text == "the brokers answer like a Kafka before 3.9, or like another product"
    assert "the brokers have no settings of topics: sizes, retention and replicas are not checked" in [
        finding.text for finding in findings
    ]
    assert all(finding.ok for finding in findings)


def test_what_an_app_asks_for_and_brokers_lack_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_small_one = {0: 9, 1: 11, 3: 9}
    monkeypatch.setattr(brokers, "versions", lambda kafka, timeout: of_a_small_one)
    text = FILE.replace("session.timeout.ms: 6000", "group.protocol: consumer")
    app = load(written(tmp_path, "localhost:1", text), {}).app
    assert app is not None
    wrong = {finding.text: finding.hint for finding in checking.findings(app, 1.0) if not finding.ok}
    assert wrong == {
        "the brokers have no idempotent producer: results cannot be sent exactly once": "use other brokers",
        "the brokers have no consumer groups of KIP-848": "leave out kafka: group.protocol",
        "the brokers have no transactions": "write delivery: outbox, or use brokers that have them",
        "the brokers have no offsets in transactions": "write delivery: outbox, or use brokers that have them",
    }
    plain = load(written(tmp_path, "localhost:1", text.replace("    delivery: transactional\n", "")), {}).app
    assert plain is not None
    assert len([finding for finding in checking.findings(plain, 1.0) if not finding.ok]) == 2
