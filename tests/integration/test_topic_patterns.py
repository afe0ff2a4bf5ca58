"""Topics that a pattern matches, on a real broker: they are made and deleted while workers run, and workers die."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.servers.process import free_port
from tests.waiting import wait_until

FILE = """\
app: NS
kafka:
  bootstrap.servers: KAFKA
  session.timeout.ms: 6000
  topic.metadata.refresh.interval.ms: 1000
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS.dead
http: {port: PORT}
agents:
  a:
    from: {pattern: "NS\\\\.in\\\\..*"}
    start: START
    aggregate: {count: 2, timeout: 1h, compute: {n: count, ids: {collect: id}}}
    to: {topic: NS.out}
"""
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
NO_TOPIC_YET = "correct the pattern, unless topics are still to come: the agent waits for them"

MakeTopic = Callable[..., None]


class Started:
    """A run of the file."""

    def __init__(self, folder: Path, kafka: str, ns: str, start: str, store: str = "sqlite:///state.db") -> None:
        self.kafka, self.ns, self.path = kafka, ns, folder / "patterns.yaml"
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("START", start).replace("STORE", store)
        self.path.write_text(text.replace("PORT", str(free_port())))
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        self.reader = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": f"{ns}.reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self.reader.subscribe([f"{ns}.out"])
        self.outputs: dict[bytes, Message] = {}
        self.run = Run(SLUICEGATE, "run", str(self.path))

    def close(self) -> None:
        self.run.close()
        self.reader.close()

    def topic(self, name: str) -> str:
        return f"{self.ns}.in.{name}"

    def send(self, name: str, ids: range, key: str = "k") -> None:
        for number in ids:
            self.producer.produce(self.topic(name), json.dumps({"id": number}), key=key)
        assert self.producer.flush(20) == 0

    def results(self, count: int, timeout: float = 60.0) -> list[dict[str, Any]]:
        wait_until(lambda: taken(self.reader, self.outputs) >= count, timeout, f"{count} results")
        return [json.loads(message.value() or b"") for message in self.outputs.values()]

    def groups(self, name: str) -> int | None:
        """How many are open in partition 0 of the topic."""
        rows = self.command("status", str(self.path))["partitions"]
        return next((row["open_groups"] for row in rows if row["topic"] == self.topic(name)), None)

    def command(self, *words: str) -> Any:
        done = subprocess.run([SLUICEGATE, *words, "--json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def started(
    kafka: str, ns: str, make_topic: MakeTopic, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Started]:
    for name in ("in.one", "out", "dead"):
        make_topic(f"{ns}.{name}")
    start, store = getattr(request, "param", ("earliest", ""))
    made = Started(tmp_path, kafka, ns, start, request.getfixturevalue(store) if store else "sqlite:///state.db")
    yield made
    print("\n".join(map(str, made.run.lines[-60:])), *made.run.noise[-20:])
    made.close()


def test_a_topic_that_is_made_while_a_worker_runs_gets_its_results(started: Started, make_topic: MakeTopic) -> None:
    started.send("one", range(2))
    assert [result["ids"] for result in started.results(1)] == [[0, 1]]
    make_topic(started.topic("two"))
    begin = time.monotonic()
    started.send("two", range(2, 4))
    assert [result["ids"] for result in started.results(2)] == [[0, 1], [2, 3]]
    assert time.monotonic() - begin < 20
    [appeared] = started.run.wait("topics.matched", appeared=[started.topic("two")])
    assert appeared["gone"] == []


def test_the_same_key_in_two_topics_is_two_groups(started: Started, make_topic: MakeTopic) -> None:
    make_topic(started.topic("two"))
    started.send("one", range(1))
    started.send("two", range(1, 3))
    assert [result["ids"] for result in started.results(1)] == [[1, 2]]
    started.send("one", range(3, 4))
    assert [result["ids"] for result in started.results(2)] == [[1, 2], [0, 3]]


def test_commands_know_the_topics_that_match(started: Started, make_topic: MakeTopic) -> None:
    make_topic(started.topic("two"))
    started.send("one", range(3))
    started.send("two", range(3, 6))
    started.results(2)
    [matches] = started.command("topics", str(started.path))["matches"].values()
    assert matches == [started.topic("one"), started.topic("two")]
    answer = started.command("check", str(started.path), "--connect")
    assert any(f"matches {', '.join(matches)}" in system["text"] for system in answer["systems"])
    for name in started.outputs:
        assert started.command("explain", str(started.path), name.decode())
    wait_until(lambda: (started.groups("one"), started.groups("two")) == (1, 1), 30, "a group is open in each topic")
    started.run.signal(signal.SIGTERM)
    assert started.run.exit_code(40) == 0
    shadowed = started.command("replay", str(started.path), "a", "--shadow", "--from", "earliest")
    assert (shadowed["identical"], shadowed["published"], shadowed["records"]) == (2, 2, 6)
    started.path.with_name("state.db").unlink()
    rebuilt = started.command("replay", str(started.path), "a", "--rebuild", "--why", "lost", "--from", "earliest")
    assert sorted(place["topic"] for place in rebuilt["rebuilt"]) == matches
    assert (started.groups("one"), started.groups("two")) == (1, 1)


def test_other_topics_go_on_when_one_is_deleted(started: Started, make_topic: MakeTopic, kafka: str) -> None:
    make_topic(started.topic("two"))
    started.send("one", range(1))
    started.send("two", range(1, 4))
    started.results(1)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([started.topic("two")])[started.topic("two")].result(30)
    started.run.wait("partition.revoked", timeout=60, topic=started.topic("two"))
    started.send("one", range(4, 5))
    assert [result["ids"] for result in started.results(2)] == [[1, 2], [0, 4]]
    assert not started.run.events("partition.halted")
    wait_until(started.run.ready, 30, "the run is ready")
    [one, two] = started.command("status", str(started.path))["partitions"]
    assert (one["topic"], one["note"]) == (started.topic("one"), None)
    assert (two["topic"], two["owner"], two["open_groups"]) == (started.topic("two"), None, 1)
    assert "gone" in two["note"]


def test_a_topic_that_is_made_again_halts_until_a_person_accepts_that_its_groups_are_forgotten(
    started: Started, make_topic: MakeTopic, kafka: str
) -> None:
    started.run.wait("partition.claimed", timeout=60)
    started.send("one", range(1))
    wait_until(lambda: started.groups("one") == 1, 60, "the group is open")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([started.topic("one")])[started.topic("one")].result(30)
    started.run.wait("partition.revoked", timeout=60, topic=started.topic("one"))
    make_topic(started.topic("one"))
    started.run.wait("partition.halted", timeout=60, code="topic-recreated")
    assert started.groups("one") == 1
    place = f"{started.topic('one')}/0"
    started.command("accept-gap", str(started.path), "a", place, "--forget", "--yes", "--why", "made again")
    started.send("one", range(1, 3))
    assert [result["ids"] for result in started.results(1)] == [[1, 2]]


@pytest.mark.parametrize("started", [("latest", store) for store in ("", "redis_url", "postgres_url")], indirect=True)
def test_kill_9_while_a_topic_appears_loses_and_repeats_nothing(started: Started, make_topic: MakeTopic) -> None:
    started.run.wait("partition.claimed", timeout=60, topic=started.topic("one"))
    for number in range(4):
        make_topic(started.topic(f"new{number}"))
        started.send(f"new{number}", range(10 * number, 10 * number + 5))
        if number % 2:
            started.run.wait("partition.claimed", 1, 60, topic=started.topic(f"new{number}"))
        os.kill(started.run.events("worker.started")[-1]["pid"], signal.SIGKILL)
        started.send(f"new{number}", range(10 * number + 5, 10 * number + 10))
        started.run.wait("worker.started", number + 2, 60)
    ids = Counter(item for result in started.results(20) for item in result["ids"])
    assert ids == Counter(range(40))


def test_a_run_without_a_topic_that_matches_is_ready_and_waits(
    kafka: str, ns: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    for name in ("out", "dead"):
        make_topic(f"{ns}.{name}")
    started = Started(tmp_path, kafka, ns, "earliest")
    try:
        wait_until(lambda: started.run.events("worker.running") and started.run.ready(), 60, "the run is ready")
        answer = started.command("check", str(started.path), "--connect")
        [finding] = [system for system in answer["systems"] if "matches no topic yet" in system["text"]]
        assert (finding["ok"], finding["hint"]) == (True, NO_TOPIC_YET)
        make_topic(started.topic("first"))
        started.send("first", range(2))
        assert [result["ids"] for result in started.results(1)] == [[0, 1]]
    finally:
        started.close()
