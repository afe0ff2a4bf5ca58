"""What failed for good, what stands behind a result, and a gap that is accepted: on three live workers and a real
broker."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.supervised.run import Run
from tests.integration.test_commands_live import SLUICEGATE, Results, sluicegate
from tests.waiting import wait_until

FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: {store}
http: false
agents:
  sums:
    from: {ns}-in
    aggregate:
      count: 3
      timeout: {{after: 10m, since: first}}
      compute: {{total: {{sum: v}}, all: collect}}
    to: {{topic: {ns}-out}}
"""
PARTITIONS, SMALL, LARGE = 6, 2_000, 1_000_000  # bytes that `out` takes in one message
NOISE = random.Random(7).randbytes(SMALL).hex()  # larger than SMALL even when it is compressed
Sent = dict[bytes, list[tuple[int, int]]]
"""By key, partition and offset of each record."""


@pytest.fixture
def file(tmp_path: Path, kafka: str, postgres_url: str, ns: str) -> str:
    path = tmp_path / "app.yaml"
    path.write_text(FILE.format(ns=ns, kafka=kafka, store=postgres_url))
    sluicegate("topics", str(path), "--create", "--partitions", str(PARTITIONS), "--json")
    assert CliRunner().invoke(main, ["migrate", str(path)]).exit_code == 0
    return str(path)


@contextmanager
def running(file: str, claimed: int = PARTITIONS) -> Iterator[Run]:
    run = Run(str(SLUICEGATE), "run", file, "--workers", "3")
    try:
        run.wait("partition.claimed", claimed, 90.0)
        yield run
    finally:
        run.close()
        print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])


def largest(kafka: str, topic: str, size: int) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": kafka})  # its futures never end when it is collected before them
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def send(kafka: str, topic: str, *pairs: tuple[bytes, bytes]) -> Sent:
    results: Sent = {}
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for key, value in pairs:
        producer.produce(
            topic,
            value,
            key,
            on_delivery=lambda _, m: results.setdefault(m.key(), []).append((m.partition(), m.offset())),
        )
    assert producer.flush(30) == 0
    return results


def record(value: int, text: str = "") -> bytes:
    return json.dumps({"v": value, "text": text}).encode()


def dead(file: str) -> list[tuple[str, str]]:
    return [
        (letter["kind"], letter["id"]) for letter in sluicegate("dead", "ls", file, "sums", "--all", "--json")["dead"]
    ]


def result_id(kafka: str, topic: str, key: bytes) -> str:
    from sluicegate.streams.agent import App
    from sluicegate.streams.cli.letters import BrokerTopics

    topics = BrokerTopics(App("any", "memory://", (), {"bootstrap.servers": kafka}))
    records, _ = topics.newest([topic], 1000)
    return next(
        (value or b"").decode()
        for m in records
        if m.key() == key
        for name, value in m.headers() or ()
        if name == "sluicegate-id"
    )


def retry_the_dead(file: str, kafka: str, ns: str, results: Results) -> None:
    """A record that cannot be decoded, and a result that is too large until the topic takes more."""
    huge = [(b"huge", record(2, NOISE))] * 3
    sent = send(
        kafka, f"{ns}-in", *[(b"good", record(n)) for n in range(3)], (b"bad", b"{"), *huge, (b"good", record(9))
    )
    wait_until(lambda: len(dead(file)) == 2, 90, "a dead row and a dead letter")
    [(_, row), (_, letter)] = dead(file)
    [(partition, offset)] = sent[b"bad"]
    end = 1 + max(at for places in sent.values() for number, at in places if number == partition)
    assert letter == f"{ns}-in/{partition}/{offset}"
    assert sluicegate("dead", "show", file, "sums", letter, "--payload", "--json")["value"] == "{"
    largest(kafka, f"{ns}-out", LARGE)
    retry = "dead", "retry", file, "sums", row, letter, "--why", "mended", "--json"
    killed = subprocess.run(
        [SLUICEGATE, *retry], env={**os.environ, "SLUICEGATE_FAILPOINTS": "retry-sent=kill"}, timeout=90
    )
    assert killed.returncode == -signal.SIGKILL
    # the row was retried by the command that was killed, the record is found
    finished = CliRunner().invoke(main, retry)
    assert (finished.exit_code, json.loads(finished.stdout)) == (
        5,
        {"rows": 0, "sent": 0, "groups": 0, "found": 1, "refused": [row], "left_out": []},
    )
    wait_until(lambda: results.draw() == [("good", "count", 3), ("huge", "count", 6)], 90, "the row that was dead")
    wait_until(lambda: len(dead(file)) == 2, 90, "the record to fail again")
    again = CliRunner().invoke(main, ["dead", "retry", file, "sums", letter, "--json"])
    assert (again.exit_code, json.loads(again.stdout)["refused"]) == (5, [letter])
    assert [id for _, id in dead(file)] == [letter, f"{ns}-in/{partition}/{end}"]  # it came once
    for key, id in ((b"good", result_id(kafka, f"{ns}-out", b"good")), (b"huge", row)):
        explanation = sluicegate("explain", file, id, "--json")
        assert (explanation["complete"], explanation["count"]) == (True, 3)
        assert [(explanation["partition"], offset) for offset in explanation["offsets"]] == sent[key][:3]
    added = sluicegate("timeouts", "add", file, f"{ns}-in", "1h", "--null", "--json", "--why", "a try")["id"]
    assert CliRunner().invoke(main, ["timeouts", "cancel", file, added]).exit_code == 0
    assert {("dead retry", letter), ("dead retry", row), ("timeouts cancel", added)} <= audited(file, "key")


def lose_what_comes_next(kafka: str, topic: str) -> tuple[int, int]:
    """Records for the group of `good` that retention takes before they are read: their partition, and where it begins
    then."""
    places = send(kafka, topic, *[(b"good", record(10))] * 4)[b"good"]
    partition, last = places[-1]
    admin: Any = AdminClient({"bootstrap.servers": kafka})
    [gone] = admin.delete_records([TopicPartition(topic, partition, last + 1)]).values()
    gone.result(30)
    return partition, last + 1


def accept_the_gap(file: str, kafka: str, topic: str, live: Run, partition: int, begin: int) -> None:
    live.wait("partition.halted", 1, 60.0)
    assert {(event["partition"], event["code"]) for event in live.events("partition.halted")} == {
        (partition, "retention-passed")
    }
    before = len(live.events("partition.claimed", partition=partition))
    place = f"{topic}/{partition}"
    done = sluicegate("accept-gap", file, "sums", place, "--yes", "--why", "retention was too short", "--json")
    [done] = done["accepted"]
    assert (done["code"], done["offset"], done["groups_forgotten"]) == ("retention-passed", begin, 0)
    live.wait("partition.claimed", before + 1, 60.0, partition=partition)
    send(kafka, topic, *[(b"good", record(100))] * 2)
    assert CliRunner().invoke(main, ["accept-gap", file, "sums", place, "--yes"]).exit_code == 2
    assert ("accept-gap", "retention was too short") in audited(file, "why")


def audited(file: str, field: str) -> set[tuple[str, str]]:
    return {(change["what"], change[field]) for change in sluicegate("audit", file, "--json")["changes"]}


def test_the_dead_results_and_gaps_while_three_workers_run(file: str, kafka: str, ns: str) -> None:
    largest(kafka, f"{ns}-out", SMALL)
    results = Results(kafka, f"{ns}-out")
    with running(file) as first:
        retry_the_dead(file, kafka, ns, results)
        assert not first.events("partition.halted")
        first.process.terminate()
        assert first.exit_code(60) == 0
    partition, begin = lose_what_comes_next(kafka, f"{ns}-in")
    with running(file, PARTITIONS - 1) as second:
        accept_the_gap(file, kafka, f"{ns}-in", second, partition, begin)
        wait_until(lambda: ("good", "count", 209) in results.draw(), 60, "the group, without what was deleted")
