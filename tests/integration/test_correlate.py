"""Orders and their payments on a real broker, whose topics have 4 and 6 partitions. All worker processes are killed
twice. Each order that was paid gives one match, each other order one absence, and none is false."""

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

ORDERS, KILLS = 2_000, 2
TOPICS = {"orders": 4, "payments": 6, "settled": 4, "unpaid": 4, "orphans": 4, "dead": 4}
AGENTS = 3  # two legs and the correlation, a process each
PARTITIONS = 4 + 6 + 6
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000, heartbeat.interval.ms: 500}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  settle:
    correlate:
      legs:
        order: {from: NS-orders, key: id}
        payment: {from: NS-payments, key: order_id, keep: last}
      timeout: TIMEOUT
    to:
      - {topic: NS-unpaid, where: has(order) && !has(payment)}
      - {topic: NS-orphans, where: has(payment) && !has(order)}
      - {topic: NS-settled}
"""


class Answer(NamedTuple):
    """A result; `fits` tells whether its legs are of one order."""

    key: str
    reason: str
    fits: bool


def answer(document: dict[str, Any]) -> Answer:
    order, payment = (document.get(leg) or {} for leg in ("order", "payment"))
    numbers = {order.get("total"), payment.get("amount")} - {None}
    key = document.get("key", "")  # a dead letter has the record
    return Answer(key, document.get("reason", ""), numbers == {int(key[2:] or 0)})


class Scene:
    def __init__(self, url: str, kafka: str, ns: str, folder: Path, timeout: str = "20s") -> None:
        admin = AdminClient({"bootstrap.servers": kafka})
        made = admin.create_topics([NewTopic(f"{ns}-{name}", many, 1) for name, many in TOPICS.items()])
        for each in made.values():
            each.result(30)
        path = folder / "shop.yaml"
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url)
        path.write_text(text.replace("TIMEOUT", timeout))
        self.path, self.ns, self.feed = path, ns, Producer({"bootstrap.servers": kafka, "log_level": 0, "linger.ms": 5})
        self.readers: dict[str, Consumer] = {
            name: reader(kafka, f"{ns}-{name}") for name in ("settled", "unpaid", "orphans", "dead")
        }
        self.found: dict[str, dict[bytes, Answer]] = {name: {} for name in self.readers}
        self.run = self.start()
        self.run.wait("partition.claimed", PARTITIONS, 60)

    def start(self) -> Run:
        return Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(self.path))

    def put(self, records: list[tuple[str, bytes, dict[str, Any]]]) -> None:
        for topic, key, value in records:
            while len(self.feed) > 50_000:
                self.feed.poll(0.1)
            self.feed.produce(f"{self.ns}-{topic}", json.dumps(value).encode(), key)
        assert self.feed.flush(60) == 0

    def kill(self, times: int) -> None:
        """All worker processes at once; all partitions are claimed again."""
        for pid in self.run.pids(AGENTS * times)[-AGENTS:]:
            os.kill(pid, signal.SIGKILL)
        self.run.wait("partition.claimed", PARTITIONS * (times + 1), 120)

    def read(self) -> int:
        for name, consumer in self.readers.items():
            for message in consumer.consume(5_000, 0.1):
                headers = dict(message.headers())
                if headers["sluicegate-id"] not in self.found[name]:
                    self.found[name][headers["sluicegate-id"]] = answer(json.loads(message.value()))
        return sum(map(len, self.found.values()))

    def close(self) -> None:
        self.run.close()
        for each in self.readers.values():
            each.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    url = f"sqlite:///{tmp_path / 'state.db'}" if request.param == "sqlite" else request.getfixturevalue(request.param)
    made = Scene(url, kafka, ns, tmp_path)
    yield made
    made.close()


def history(
    rnd: random.Random, orders: int = ORDERS, apart: int = 200
) -> tuple[list[tuple[str, bytes, dict[str, Any]]], set[str]]:
    """Records out of order: a payment may come up to `apart` orders before its own, or after it. Also the orders that
    are paid, 95 of 100."""
    placed, paid = list[tuple[float, str, bytes, dict[str, Any]]](), set[str]()
    for number in range(orders):
        order = f"o-{number}"
        placed.append((number, "orders", b"x%d" % number, {"id": order, "total": number}))
        if rnd.random() < 0.95:
            paid.add(order)
            at = number + rnd.uniform(-apart, apart)
            placed.append((at, "payments", b"p%d" % number, {"order_id": order, "amount": number}))
    return [record for _, *record in sorted(placed)], paid  # type: ignore[misc]


def judge(scene: Scene, orders: int, paid: set[str]) -> None:
    """Each paid order has one match, each other order one absence, and nothing else came."""
    settled, unpaid = list(scene.found["settled"].values()), list(scene.found["unpaid"].values())
    assert scene.found["orphans"] == scene.found["dead"] == {}
    assert Counter(each.key for each in settled) == Counter(paid)
    assert Counter(each.key for each in unpaid) == Counter({f"o-{n}" for n in range(orders)} - paid)
    assert all(each.fits for each in (*settled, *unpaid))
    assert {each.reason for each in settled} == {"until"}
    assert {each.reason for each in unpaid} == {"timeout"}


@pytest.mark.parametrize("scene", ["sqlite", "postgres_url", "redis_url"], indirect=True)
def test_each_paid_order_is_one_match_and_each_other_one_absence(scene: Scene) -> None:
    records, paid = history(random.Random(7))
    share = -(-len(records) // (KILLS + 1))
    for turn in range(KILLS + 1):
        scene.put(records[turn * share : (turn + 1) * share])
        if turn < KILLS:
            scene.kill(turn + 1)
    wait_until(lambda: scene.read() >= ORDERS, 90, "a result of each order", pause=0.5)
    judge(scene, ORDERS, paid)
