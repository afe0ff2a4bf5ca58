"""A schedule on a real broker and any store: each time once, also when the processes that send are killed."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: {store}
accept_level: volatile
http: false
timeouts: {{lease: 2s, poll: 100ms}}
outbox: {{lease: 2s}}
schedules:
  often: {{every: 1s, topic: {ns}-ticks, value: {{tick: true}}}}
agents:
  ticks:
    from: {ns}-ticks
    to: {{topic: {ns}-seen}}
"""


@pytest.fixture(params=["sqlite", "redis_url", "postgres_url"])
def runs(tmp_path: Path, kafka: str, ns: str, request: pytest.FixtureRequest) -> Iterator[list[Run]]:
    file = tmp_path / "app.yaml"
    sqlite = f"sqlite:///{tmp_path / 'state.db'}"
    store = sqlite if request.param == "sqlite" else request.getfixturevalue(request.param)
    file.write_text(FILE.format(ns=ns, kafka=kafka, store=store))
    for command in (["topics", str(file), "--create"], ["migrate", str(file)]):
        assert CliRunner().invoke(main, command).exit_code == 0
    with ExitStack() as stack:
        started = [Run(SLUICEGATE, "run", str(file)) for _ in range(2)]
        for process in started:
            stack.callback(process.close)
        yield started


def test_two_runs_send_each_second_once_though_dispatchers_die(runs: list[Run], kafka: str, ns: str) -> None:
    reader = Consumer({"bootstrap.servers": kafka, "group.id": f"{ns}-reader", "auto.offset.reset": "earliest"})
    reader.subscribe([f"{ns}-ticks"])
    seen = list[dict[str, Any]]()

    def more(wanted: int) -> bool:
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            seen.append({name: value.decode() for name, value in message.headers()} | json.loads(message.value()))
        return len({headers["sluicegate-due-at"] for headers in seen}) >= wanted

    try:
        wait_until(lambda: more(3), 60.0, "three ticks")
        for number, run in enumerate(runs):
            pid = run.wait("dispatcher.started")[0]["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda number=number: more(6 + 3 * number), 60.0, "ticks after a death")  # type: ignore[misc]
    finally:
        reader.close()
    due = sorted({headers["sluicegate-due-at"]: headers["sluicegate-id"] for headers in seen}.items())
    assert len({headers["sluicegate-id"] for headers in seen}) == len(due)  # a copy of a message has its id
    times = [datetime.fromisoformat(at) for at, _ in due]
    assert all((later - earlier) % timedelta(seconds=1) == timedelta(0) for earlier, later in pairwise(times))
    assert all(record["tick"] for record in seen)
