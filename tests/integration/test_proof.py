"""Forged headers on a real broker: a record that names another agent, and numbers that are still to come."""

import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.waiting import wait_until

FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: false
agents:
  first:
    from: NS-in
    aggregate: {count: 1}
    to: {topic: NS-mid}
  second:
    from: NS-mid
    key: key
    aggregate: {count: 1}
    to: {topic: NS-out}
"""
RECORDS = 20


def attacked(kafka: str, ns: str, folder: Path) -> tuple[int, list[int]]:
    """How many results follow from RECORDS genuine records behind the attack, one of which names another agent; and the
    processes of the app. The attacker reads one record between the agents, and writes the numbers that follow."""
    create(kafka, *(f"{ns}-{name}" for name in ("in", "mid", "out", "dead")))
    path = folder / "app.yaml"
    text = FILE.replace("NS", ns).replace("KAFKA", kafka)
    path.write_text(text.replace("STORE", f"sqlite:///{folder / 'state.db'}"))
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    between, results = reader(kafka, f"{ns}-mid"), reader(kafka, f"{ns}-out")
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
    try:
        run.wait("partition.claimed", 2, 90)
        producer.produce(f"{ns}-in", b'{"n": 0}', b"bob", 0)
        producer.flush(20)
        seen = wait_until(lambda: between.poll(0.5), 60, "the first record between the agents")
        shard = dict(seen.headers())["sluicegate-shard"]
        wait_until(lambda: results.poll(0.5), 60, "its result")
        for number in range(2, 500):
            headers = [("sluicegate-shard", shard), ("sluicegate-seq", b"%d" % number)]
            producer.produce(f"{ns}-mid", b"forged", b"bob", seen.partition(), headers=headers)
        producer.flush(20)
        wait_until(
            lambda: len(run.events("headers.refused")) or len(reader_letters(kafka, ns)) >= 498, 60, "the forged"
        )
        hidden = [("sluicegate-retried-for", b"another/agent")]
        for number in range(RECORDS):
            producer.produce(f"{ns}-in", b'{"n": 1}', b"bob", 0, headers=hidden if number == 0 else [])
        producer.flush(20)
        count = 0
        for _ in range(40):
            count += results.poll(0.25) is not None
        pids = [line["pid"] for line in run.events("worker.started")]
        return count, [run.process.pid, *pids]
    finally:
        run.close()
        between.close()
        results.close()


def reader_letters(kafka: str, ns: str) -> list[object]:
    letters = reader(kafka, f"{ns}-dead")
    try:
        return [message for _ in range(60) for message in letters.consume(100, 0.1)]
    finally:
        letters.close()


def test_forged_numbers_and_a_forged_addressee_leave_out_no_record(kafka: str, ns: str, tmp_path: Path) -> None:
    assert attacked(kafka, ns, tmp_path)[0] == RECORDS


def test_twin_that_needs_no_proof_leaves_them_out(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("no-proof", log).items():
        monkeypatch.setenv(name, value)
    problems, pids = attacked(kafka, ns, tmp_path)
    assert problems == 0
    twins.check("no-proof", log, pids)
