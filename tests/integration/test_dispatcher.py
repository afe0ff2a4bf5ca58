"""The dispatcher as a process of `run`: beside the workers, or with them where the store is memory."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.messages import OutboxMessage
from tests.integration.supervised.run import Run, made_up
from tests.waiting import wait_until

FILE = """
app: calls
kafka: {{bootstrap.servers: embedded, session.timeout.ms: 3000}}
store: {store}
http: {{port: 0}}
outbox: {{poll: 100ms}}
timeouts: {{poll: 100ms}}
agents:
  callers:
    from: calls
    handler: callers:answer
    to: {{topic: answers}}
"""
HANDLER = """
def answer(value, context, send):
    if "again" in value:
        context.schedule({"done": value["again"]}, after=0.5, key="k")
    else:
        send(value, key="k")
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(*agents: str, **settings: Any) -> Run:
        runs.append(made_up(tmp_path, *agents, dispatches=True, **settings))
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def test_the_dispatcher_is_a_process_that_is_started_again_and_drained(start: Callable[..., Run]) -> None:
    run = start("steady")
    wait_until(run.ready)
    first = run.wait("dispatcher.started")[0]
    assert (first["agent"], first["pid"] not in run.pids(1)) == ("dispatcher", True)
    os.kill(first["pid"], signal.SIGKILL)
    assert run.wait("dispatcher.ended")[0]["code"] == -signal.SIGKILL
    run.wait("dispatcher.started", count=2)
    wait_until(run.ready)
    assert 'sluicegate_worker_restarts_total{agent="dispatcher",worker="0"} 1.0' in run.get("/metrics")[1]
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0
    assert [line["code"] for line in run.events("dispatcher.ended")] == [-signal.SIGKILL, 0]
    assert len(run.events("worker.started")) == 1


def test_with_a_memory_store_it_shares_the_process_of_the_agents(start: Callable[..., Run]) -> None:
    run = start("steady", store="memory://")
    wait_until(run.ready)
    assert run.wait("dispatcher.started")[0]["pid"] == run.pids(1)[0]
    run.signal(signal.SIGTERM)
    assert run.exit_code() == 0


class Calls:
    """A run of FILE, and a client of its broker."""

    def __init__(self, folder: Path, store: str) -> None:
        (folder / "callers.py").write_text(HANDLER)
        path = folder / "calls.yaml"
        path.write_text(FILE.format(store=store))
        self.folder = folder
        self.run = Run(sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "run", str(path))
        bootstrap = self.run.wait("broker.embedded")[0]["bootstrap"]
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False, "log_level": 0}
        )
        self.consumer.assign([TopicPartition("answers", number, 0) for number in range(4)])
        self.answers: list[Any] = []

    def send(self, value: Any) -> None:
        self.producer.produce("calls", key="k", value=json.dumps(value))
        assert self.producer.flush(10) == 0

    def take(self) -> list[Any]:
        while (message := self.consumer.poll(0.05)) is not None:
            if message.error() is None:
                self.answers.append(json.loads(message.value()))
        return self.answers

    def close(self) -> None:
        self.consumer.close()
        self.run.close()


@pytest.fixture(params=["memory://", "sqlite:///state.db"])
def calls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Calls]:
    made = Calls(tmp_path, request.param)
    yield made
    made.close()


def test_what_a_handler_schedules_comes_back_to_its_agent(calls: Calls) -> None:
    calls.send({"again": 7})
    wait_until(lambda: calls.take() == [{"done": 7}], 40, "the answer")
    counted = 'sluicegate_timeout_lateness_seconds_count{agent="dispatcher",worker="0"} 1.0'
    wait_until(lambda: counted in calls.run.get("/metrics")[1])
    wait_until(calls.run.ready)
    calls.run.signal(signal.SIGTERM)
    assert calls.run.exit_code() == 0
    assert calls.run.noise == []


@pytest.mark.parametrize("calls", ["sqlite:///state.db"], indirect=True)
def test_a_row_that_an_application_adds_is_sent(calls: Calls) -> None:
    calls.run.wait("dispatcher.running")
    store: Any = open_store(f"sqlite:///{calls.folder}/state.db")
    with store.transaction() as session:
        store.outbox.add(session, [OutboxMessage("calls", key=b"k", value=b'{"done": 1}')])
    wait_until(lambda: calls.take() == [{"done": 1}], 40, "the answer")
    wait_until(lambda: store.outbox.count("dispatched") == 1, 10)
    store.close()
