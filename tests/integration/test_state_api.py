"""The state API on a real broker and PostgreSQL: each of two runs answers for all keys, also while a worker is dead."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from sluicegate import Client, ClientError
from sluicegate.streams.cli import main
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
TOKEN = "0123456789abcdef"
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: {store}
http: {{port: 0, state: true, token: {token}}}
agents:
  baskets:
    from: {ns}-in
    aggregate:
      count: 1000
      timeout: {{after: 60m, since: first}}
      compute: {{total: {{sum: v}}}}
    to: {{topic: {ns}-out}}
"""
KEYS = [f"customer/{number}" for number in range(40)]


@pytest.fixture
def runs(tmp_path: Path, kafka: str, postgres_url: str, ns: str) -> Iterator[list[Run]]:
    file = tmp_path / "app.yaml"
    file.write_text(FILE.format(ns=ns, kafka=kafka, store=postgres_url, token=TOKEN))
    for command in (["topics", str(file), "--create", "--partitions", "4"], ["migrate", str(file)]):
        assert CliRunner().invoke(main, command).exit_code == 0
    with ExitStack() as stack:
        started = [Run(SLUICEGATE, "run", str(file)) for _ in range(2)]
        for process in started:
            stack.callback(process.close)
        yield started


def client(run: Run) -> Client:
    return Client(f"http://127.0.0.1:{run.wait('http.listening')[0]['port']}", token=TOKEN, timeout=20)


def feed(kafka: str, ns: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for key in KEYS:
        for value in (b'{"v": 1}', b'{"v": 2}'):
            producer.produce(f"{ns}-in", value, key.encode())
    assert producer.flush(60) == 0


def totals(asking: Client) -> list[int | None]:
    groups = [asking.group("baskets", key, fresh=number == 0) for number, key in enumerate(KEYS)]
    return [None if group is None else group.values["total"] for group in groups]


def test_each_run_answers_for_all_keys_also_while_a_worker_is_dead(runs: list[Run], kafka: str, ns: str) -> None:
    feed(kafka, ns)
    one, other = map(client, runs)
    wait_until(lambda: totals(one) == [3] * len(KEYS), 60.0, "all groups")
    assert totals(other) == totals(one)
    [pid] = runs[0].pids(1)
    os.kill(pid, signal.SIGKILL)
    assert totals(one) == totals(other) == [3] * len(KEYS)
    assert one.group("baskets", "nobody") is None
    with pytest.raises(ClientError) as refused:
        Client(one._url).group("baskets", KEYS[0])
    assert refused.value.status == 401
