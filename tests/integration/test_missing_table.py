"""A lookup whose table is missing: the run names it at any time, everywhere, although its claims succeed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.integration.supervised.run import Run
from tests.servers.process import free_port
from tests.waiting import wait_until

FILE = """\
app: shop
kafka: {bootstrap.servers: embedded, session.timeout.ms: 6000}
store: sqlite:///state.db
dead_letters: dead
http: {port: PORT}
agents:
  a:
    from: in
    start: earliest
    aggregate: {count: 2, compute: {n: count}}
    lookup: {customer: {table: customers, column: id, key: key, fields: [name]}}
    to: {topic: out}
"""
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
REASON = "lookup-failed: customer (table customers): no such table"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FILE.replace("PORT", str(free_port())))
    return tmp_path / "shop.yaml"


@pytest.fixture
def run(path: Path) -> Iterator[Run]:
    made = Run(SLUICEGATE, "run", str(path))
    made.wait("partition.claimed", 4, timeout=40)
    producer = Producer(
        {
            "bootstrap.servers": made.events("broker.embedded")[0]["bootstrap"],
            "enable.idempotence": True,
            "log_level": 0,
        }
    )
    for number in (0, 1, 0, 1):
        producer.produce("in", b"{}", key=f"k{number}", partition=number)
    assert producer.flush(10) == 0
    yield made
    made.close()


def _reasons(run: Run) -> list[str]:
    return [reason["reason"] for reason in json.loads(run.get("/readyz")[1])["reasons"]]


def test_its_name_is_in_health_status_and_log(run: Run, path: Path) -> None:
    run.wait("partition.unavailable", 2)
    wait_until(lambda: len(_reasons(run)) == 2, 10, "a report after the failures of both partitions")
    samples: list[list[str]] = []
    wait_until(lambda: samples.append(_reasons(run)) or len(samples) == 12, 60, "twelve samples", pause=0.5)
    for reasons in samples:
        assert {reason.partition("in/")[2][:1] for reason in reasons} == {"0", "1"}, samples
        assert all(REASON in reason for reason in reasons), samples
    shown = subprocess.run([SLUICEGATE, "status", str(path)], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0
    for number in (0, 1):
        assert f"in/{number} of a: retrying: {REASON}" in shown.stdout
        events = run.events("partition.unavailable", partition=number)
        assert [line["level"] for line in events] == ["warning"]
        assert REASON in events[0]["error"]
