"""Forged lanes and timeouts on a real broker, with the dispatcher: who reads and writes the inputs of a handler that
schedules, and of an agent that takes what programs send, drops nothing genuine, and is counted."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.headers import TIMEOUT_ID
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.record import Header
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
http: {port: 0}
outbox: {poll: 100ms}
timeouts: {poll: 100ms}
agents:
  callers: {from: NS-calls, handler: "callers:answer", to: {topic: NS-answers}}
  orders:
    from: {topic: NS-orders, dedupe: sluicegate}
    aggregate: {count: 1, compute: {done: {last: done}}}
    to: {topic: NS-booked}
"""
HANDLER = """
def answer(value, context, send):
    if "again" in value:
        context.schedule({"done": value["again"]}, after=0.2, key="k")
    else:
        send(value, key="k")
"""
GENUINE = 20
AHEAD = 300
"""Numbers behind the last one of a lane that the attacker writes before they come: more than the genuine ones need."""
REFUSED = re.compile(
    r'^sluicegate_headers_refused_total\{agent="(\w+)",reason="unproven",\S*\} ([\d.]+)$', re.MULTILINE
)


class Scene:
    """A run of FILE, its program, and the attacker, who may read and write both inputs."""

    def __init__(self, kafka: str, ns: str, folder: Path) -> None:
        self.ns = ns
        create(kafka, *(f"{ns}-{name}" for name in ("calls", "orders", "answers", "booked", "dead")))
        (folder / "callers.py").write_text(HANDLER)
        url, path = f"sqlite:///{folder / 'state.db'}", folder / "app.yaml"
        path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
        self.run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
        self.producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
        self.readers: dict[str, Consumer] = {
            name: reader(kafka, f"{ns}-{name}") for name in ("calls", "orders", "answers", "booked")
        }
        self.run.wait("partition.claimed", 8, 120)
        self.run.wait("dispatcher.running", 1, 60)
        self.store: Any = open_store(url, app=ns)

    def call(self, number: int) -> None:
        self.producer.produce(f"{self.ns}-calls", json.dumps({"again": number}), b"k")
        assert self.producer.flush(20) == 0

    def order(self, number: int) -> None:
        with self.store.transaction() as session:
            row = OutboxMessage(f"{self.ns}-orders", key=b"k", value=json.dumps({"done": number}).encode())
            self.store.outbox.add(session, [row])

    def seen(self, name: str) -> Any:
        """The first record of a lane in this input."""

        def of_a_lane() -> Any:
            message = self.readers[name].poll(0.5)
            return message if message and dict(message.headers() or ()).get("sluicegate-shard") else None

        return wait_until(of_a_lane, 60, f"a record of a lane in {name}")

    def forge(self, name: str) -> int:
        """How many records of the attacker say that the lane sent them."""
        one = self.seen(name)
        fields = dict(one.headers())
        last = int(fields["sluicegate-seq"])
        numbers = [*range(last + 1, last + AHEAD), 10**17, 10**30]
        for number in numbers:
            headers: list[Header] = [
                ("sluicegate-id", b"forged-%d" % number),
                ("sluicegate-shard", fields["sluicegate-shard"]),
                ("sluicegate-seq", b"%d" % number),
                (TIMEOUT_ID, fields.get(TIMEOUT_ID, b"x")),
                ("sluicegate-mac", fields["sluicegate-mac"]),
            ]
            self._write(one, b'{"done": "forged"}', headers)
        self._write(one, one.value(), one.headers())  # a copy is a repeat
        assert self.producer.flush(30) == 0
        return len(numbers) - 1  # the number of 31 digits is none: that record is of no lane

    def _write(self, one: Any, value: bytes, headers: list[Header]) -> None:
        self.producer.produce(one.topic(), value, one.key(), one.partition(), headers=headers)

    def taken(self, name: str, enough: int, timeout: float) -> Counter[Any]:
        """What came out, by its number; the attacker's own records count as those of any producer."""
        count = Counter[Any]()

        def complete() -> bool:
            for message in self.readers[name].consume(500, 0.2):
                count[json.loads(message.value())["done"]] += 1
            return sum(count[number] for number in range(enough)) >= enough

        with suppress(TimeoutError):
            wait_until(complete, timeout, "all genuine ones")
        for _ in range(10):
            complete()
        return count

    def refused(self) -> dict[str, float]:
        return {agent: float(number) for agent, number in REFUSED.findall(self.run.get("/metrics")[1])}

    def pids(self) -> list[int]:
        return [self.run.process.pid, *(line["pid"] for line in self.run.events("worker.started"))]

    def close(self) -> None:
        self.run.close()
        self.store.close()
        for consumer in self.readers.values():
            consumer.close()


@pytest.fixture
def scene(kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, ns, tmp_path)
    yield made
    made.close()


def attacked(scene: Scene, timeout: float) -> tuple[Counter[Any], Counter[Any], int]:
    """The timeouts and the orders that were taken, and how many forged records name each lane."""
    scene.call(0)
    scene.order(0)
    forged = {scene.forge(name) for name in ("calls", "orders")}
    for number in range(1, GENUINE):
        scene.call(number)
        scene.order(number)
    [count] = forged
    return scene.taken("answers", GENUINE, timeout), scene.taken("booked", GENUINE, timeout), count


def test_no_timeout_and_no_message_of_a_lane_is_dropped_and_the_forged_are_counted(scene: Scene) -> None:
    answers, booked, forged = attacked(scene, 60)
    once = dict.fromkeys(range(GENUINE), 1)
    assert {number: answers[number] for number in once} == once
    assert {number: booked[number] for number in once} == once
    assert answers["forged"] == booked["forged"] == forged + 1
    wait_until(lambda: scene.refused() == {"callers": forged, "orders": forged}, 20, "the counts")
    assert {line["topic"] for line in scene.run.events("headers.refused")} == {
        f"{scene.ns}-calls",
        f"{scene.ns}-orders",
    }
    assert not scene.run.events("worker.ended")


def test_twin_whoever_needs_no_proof_loses_them(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("no-proof", log).items():
        monkeypatch.setenv(name, value)
    scene = Scene(kafka, ns, tmp_path)
    try:
        answers, booked, _ = attacked(scene, 15)
        assert [sum(counts[n] for n in range(1, GENUINE)) for counts in (answers, booked)] == [0, 0]
        assert scene.refused() == {}
        twins.check("no-proof", log, scene.pids())
    finally:
        scene.close()
