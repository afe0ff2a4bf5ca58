"""The product's own `run`, whole, with nothing but a file: the embedded broker, and a store that needs no server."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests import collectors
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

FILE = """
app: chain
kafka: {{bootstrap.servers: embedded, session.timeout.ms: 3000}}
store: {store}
http: {{port: 0}}
agents:
  pairs:
    from: numbers
    aggregate: {{count: 2, compute: {{total: {{sum: n}}}}}}
    to: {{topic: pairs, format: json}}
  fours:
    from: pairs
    aggregate: {{count: 2, compute: {{total: {{sum: total}}}}}}
    to: {{topic: fours, format: json}}
"""


class Chain:
    """A run of FILE, and a client of its broker."""

    def __init__(self, folder: Path, store: str) -> None:
        path = folder / "chain.yaml"
        path.write_text(FILE.format(store=store))
        self.run = Run(sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "run", str(path))
        bootstrap = self.run.wait("broker.embedded")[0]["bootstrap"]
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False, "log_level": 0}
        )
        self.consumer.assign([TopicPartition("fours", number, 0) for number in range(4)])
        self.results: dict[str, dict[str, Any]] = {}

    def send(self, numbers: range) -> None:
        for number in numbers:
            self.producer.produce("numbers", key=f"k{number % 5}", value=json.dumps({"n": number}))
        assert self.producer.flush(10) == 0

    def take(self) -> int:
        """Everything that was fired, by its id: how many different results so far."""
        while (message := self.consumer.poll(0.05)) is not None:
            if message.error() is None:
                self.results[dict(message.headers())["sluicegate-id"].decode()] = json.loads(message.value())
        return len(self.results)

    def close(self) -> None:
        self.consumer.close()
        self.run.close()


@pytest.fixture(params=["memory://", "sqlite:///state.db"])
def chain(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path, request.param)
    yield made
    made.close()


def test_a_chain_of_agents_gives_every_result_once(chain: Chain, tmp_path: Path) -> None:
    chain.send(range(200))
    wait_until(lambda: chain.take() >= 50, 30, "50 results")
    assert sorted(result["key"] for result in chain.results.values()) == sorted([f"k{key}" for key in range(5)] * 10)
    assert sum(result["total"] for result in chain.results.values()) == sum(range(200))
    chain.run.signal(signal.SIGTERM)
    assert chain.run.exit_code() == 0
    assert chain.run.events("worker.restarting") == []
    assert chain.run.noise == []
    assert list(tmp_path.glob("*-wal")) == []  # after a good end the file alone is the whole store


@pytest.mark.parametrize("chain", ["sqlite:///state.db"], indirect=True)
def test_a_killed_worker_costs_no_result(chain: Chain) -> None:
    chain.send(range(101))  # one record stays in an open group
    wait_until(lambda: chain.take() >= 25, 30, "25 results")
    os.kill(chain.run.wait("worker.started", agent="pairs")[0]["pid"], signal.SIGKILL)
    chain.run.wait("worker.started", count=2, agent="pairs")
    chain.send(range(101, 200))
    wait_until(lambda: chain.take() >= 50, 40, "50 results")
    assert sum(result["total"] for result in chain.results.values()) == sum(range(200))


@pytest.mark.parametrize("chain", ["sqlite:///state.db"], indirect=True)
def test_a_second_run_on_the_store_of_the_first_says_what_to_delete(chain: Chain, tmp_path: Path) -> None:
    chain.send(range(200))
    wait_until(lambda: chain.take() >= 50, 30, "50 results")
    chain.run.signal(signal.SIGTERM)
    assert chain.run.exit_code() == 0
    second = Chain(tmp_path, "sqlite:///state.db")
    try:
        halted = second.run.wait("partition.halted", code="topic-recreated")[0]
    finally:
        second.close()
    assert "the embedded broker makes its topics again with each run: delete the store" in halted["error"]


def fires(bodies: Sequence[tuple[str, bytes]]) -> float:
    """Of all workers, as a collector got them last."""
    if not bodies:
        return 0.0
    request = ExportMetricsServiceRequest.FromString(bodies[-1][1])
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    return sum(p.as_double for metric in metrics if metric.name == "sluicegate_fires" for p in metric.sum.data_points)


def test_the_metrics_of_all_workers_reach_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collectors.by_http() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{address}/v1/metrics")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        chain = Chain(tmp_path, "sqlite:///state.db")
        try:
            chain.send(range(100))
            wait_until(lambda: chain.take() >= 25, 30, "25 results")
            wait_until(lambda: fires(received) == 75, 30, "the fires of both agents")
            chain.run.signal(signal.SIGTERM)
            assert chain.run.exit_code() == 0
            assert chain.run.noise == []
            assert fires(received) == 75
        finally:
            chain.close()
