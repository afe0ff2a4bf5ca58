"""Each alert of deploy/prometheus/alerts.yml fires in a real Prometheus when its fault is made in a real run, and not
otherwise; and each panel of the dashboard shows something."""

import json
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.monitoring.prometheus import ALERTS, PROJECT, Alert, Prometheus, watching
from tests.integration.supervised.run import Run
from tests.servers import Kafka, Server
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
DASHBOARD = PROJECT / "deploy" / "grafana" / "sluicegate.json"
FAULTS = {
    "overdue": {"SluicegateGroupOverdue"},
    "dead": {"SluicegateDeadLetters"},
    "halted": {"SluicegatePartitionHalted"},
    "lag": {"SluicegateLag", "SluicegateNotReady"},
}
"""The agent with a fault of its own, and the alerts that it must raise."""
LASTING = {(alert, agent) for agent in ("dead", "halted", "lag") for alert in FAULTS[agent]}
"""What nothing mends during these tests."""
AGENT = """\
  {name}:
    from: {ns}-{name}
    aggregate: {{count: 2, timeout: {{after: 5s, since: first}}}}
    to: {{topic: {ns}-{name}-out}}
    on_error: {{decode: {decode}}}
"""
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", session.timeout.ms: 40000}}  # longer than the broker is stopped
store: sqlite:///state.db
dead_letters: {ns}-letters
http: {{port: 0}}
agents:
"""


class Faulty:
    """A run of an agent without a fault, and of one for each fault."""

    def __init__(self, folder: Path, kafka: str, ns: str) -> None:
        self._kafka, self._ns, self._folder = kafka, ns, folder
        file = folder / "app.yaml"
        decode = {"halted": "stop", "lag": "wait"}
        agents = [AGENT.format(name=name, ns=ns, decode=decode.get(name, "dead-letter")) for name in ("calm", *FAULTS)]
        file.write_text(FILE.format(ns=ns, kafka=kafka) + "".join(agents))
        made = CliRunner().invoke(main, ["topics", str(file), "--create", "--partitions", "1"])
        assert made.exit_code == 0, made.output
        self.run = Run(str(SLUICEGATE), "run", str(file))
        self.run.wait("partition.claimed", len(agents), 90.0)
        self.port = self.run.wait("http.listening")[0]["port"]

    def send(self, agent: str, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self._kafka, "enable.idempotence": True})
        for value in values:
            producer.produce(f"{self._ns}-{agent}", value, b"k")
        assert producer.flush(30) == 0

    def worker(self, agent: str) -> psutil.Process:
        return psutil.Process(self.run.events("worker.started", agent=agent)[-1]["pid"])

    def lock(self) -> sqlite3.Connection:
        """A connection that keeps all others from writing until it is closed."""
        connection = sqlite3.connect(self._folder / "state.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        return connection


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that may be stopped."""
    made = Server(Kafka(), tmp_path_factory.mktemp("broker"))
    try:
        yield made.start()
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, broker: Server) -> Iterator[Faulty]:
    made = Faulty(tmp_path_factory.mktemp("faulty"), broker.url, "alerts")
    try:
        yield made
    finally:
        made.run.close()


@pytest.fixture(scope="module")
def prometheus(faulty: Faulty, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with watching(faulty.port, tmp_path_factory.mktemp("prometheus")) as made:
        yield made


def names_of_rules() -> set[str]:
    return {rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}


def fires(prometheus: Prometheus, wanted: set[Alert], seconds: float = 60.0) -> None:
    """Wait until all these alerts fire; no other may."""
    try:
        wait_until(lambda: prometheus.alerts() >= wanted, seconds, f"{wanted}", pause=0.5)
    finally:
        assert prometheus.alerts() == wanted


@pytest.mark.timeout(400)
def test_each_alert_fires_for_its_fault_and_not_otherwise(
    broker: Server, faulty: Faulty, prometheus: Prometheus
) -> None:
    """One test, since each step begins with the alerts that the one before leaves."""
    each_agent_has_its_fault(faulty, prometheus)
    kafka_takes_no_results(broker, faulty, prometheus)
    each_panel_shows_something(prometheus)
    the_store_takes_no_write_and_the_run_ends(faulty, prometheus)


def each_agent_has_its_fault(faulty: Faulty, prometheus: Prometheus) -> None:
    for agent in ("calm", *FAULTS):
        faulty.send(agent, b"1", b"2", b"3")  # a pair, and a group whose timeout fires it
    fired = "sum by (agent) (sluicegate_fires_total) == 2"
    wait_until(lambda: len(prometheus.query(fired)) == 1 + len(FAULTS), 60.0, "a pair and a timeout of each agent")
    assert prometheus.alerts() == set()

    worker = faulty.worker("overdue")
    faulty.send("overdue", b"1")
    open_group = 'sum(sluicegate_open_groups{agent="overdue"}) == 1'
    wait_until(lambda: prometheus.query(open_group), 20.0, "the open group")
    worker.send_signal(signal.SIGSTOP)
    for agent, values in {"dead": [b"{"], "halted": [b"{"], "lag": [b"{", b"1", b"2"]}.items():
        faulty.send(agent, *values)
    fires(prometheus, {*LASTING, ("SluicegateGroupOverdue", "overdue")})

    worker.send_signal(signal.SIGCONT)
    wait_until(lambda: prometheus.alerts() == LASTING, 60.0, f"{LASTING}, and no other", pause=0.5)


def kafka_takes_no_results(broker: Server, faulty: Faulty, prometheus: Prometheus) -> None:
    faulty.send("calm", b"1")
    wait_until(lambda: prometheus.query('sum(sluicegate_open_groups{agent="calm"}) == 1'), 20.0, "the open group")
    broker.pause()
    try:
        fires(prometheus, {*LASTING, ("SluicegateOutboxOld", "calm")})
    finally:
        broker.resume()
    wait_until(lambda: prometheus.alerts() == LASTING, 60.0, f"{LASTING}, and no other", pause=0.5)


def each_panel_shows_something(prometheus: Prometheus) -> None:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            assert prometheus.query(expression(target["expr"])), panel["title"]


def expression(text: str) -> str:
    """As Grafana sends it."""
    return text.replace("$__rate_interval", "1m").replace("$agent", ".*").replace("$job", ".*")


def the_store_takes_no_write_and_the_run_ends(faulty: Faulty, prometheus: Prometheus) -> None:
    lock = faulty.lock()
    faulty.send("calm", b"1")
    wanted = ("SluicegateNotReady", "calm")
    wait_until(lambda: wanted in prometheus.alerts(), 60.0, f"{wanted}", pause=0.5)
    lock.close()
    wait_until(lambda: wanted not in prometheus.alerts(), 60.0, f"no {wanted}", pause=0.5)

    faulty.run.close()
    wait_until(lambda: prometheus.alerts() == {("SluicegateDown", "")}, 30.0, "SluicegateDown alone", pause=0.5)
    assert names_of_rules() == {
        *(alert for alerts in FAULTS.values() for alert in alerts),
        "SluicegateForgedHeaders",  # rules_test.yml
        "SluicegateOutboxOld",
        "SluicegateDown",
    }
