"""Orders and their payments on a real broker, whose topics have 4 and 6 partitions, by the times of the records. All
worker processes are killed twice. Each order that was paid gives one match, each other order one absence, and none is
false."""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

ORDERS, KILLS = 2_000, 2
TOPICS = {"orders": 4, "payments": 6, "settled": 4, "unpaid": 4, "orphans": 4, "dead": 4}
AGENTS = 3  # two legs and the correlation, a process each
PARTITIONS = 4 + 6 + 6
AFTER = 25 * 60  # seconds
TIMEOUT = f"{{after: {AFTER}s, idle: 5s, at_most: 1h}}"
APART = 60_000  # ms from an order to its payment, at most
EACH = 10  # ms from one order to the next
QUICK, SESSION = 20.0, 20.0  # seconds on a busy machine: idle and 2 s; and for the session of a killed worker to end
FILE = (
    HEAD
    + """\
agents:
  settle:
    correlate:
      legs:
        order: {from: NS-orders, key: id, time: {field: at, unit: ms}}
        payment: {from: NS-payments, key: order_id, keep: last, time: {field: at, unit: ms}}
      timeout: TIMEOUT
    to:
      - {topic: NS-unpaid, where: has(order) && !has(payment)}
      - {topic: NS-orphans, where: has(payment) && !has(order)}
      - {topic: NS-settled}
"""
)


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
    """`timeout` is that of the file."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path, timeout: str = TIMEOUT) -> None:
        admin = AdminClient({"bootstrap.servers": kafka})
        made = admin.create_topics([NewTopic(f"{ns}-{name}", many, 1) for name, many in TOPICS.items()])
        for case in made.values():
            case.result(30)
        path = folder / "shop.yaml"
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url)
        if "wall" in timeout:
            text = text.replace(", time: {field: at, unit: ms}", "")
        path.write_text(text.replace("TIMEOUT", timeout))
        self.path, self.ns, self.feed = (
            path,
            ns,
            Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0, "linger.ms": 5}),
        )
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
        for consumer in self.readers.values():
            consumer.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    url = f"sqlite:///{tmp_path / 'state.db'}" if request.param == "sqlite" else request.getfixturevalue(request.param)
    made = Scene(url, kafka, ns, tmp_path)
    yield made
    made.close()


def history(
    rnd: random.Random, orders: int = ORDERS, disorder: int = 200
) -> tuple[list[tuple[str, bytes, dict[str, Any]]], set[str]]:
    """Orders in the order of their times, and payments out of order: each is written up to `disorder` orders before or
    after its place. Also the orders that are paid, 95 of 100."""
    begin = (round(time.time()) - 3600) * 1000 - orders * EACH
    placed, paid = list[tuple[float, str, bytes, dict[str, Any]]](), set[str]()
    for number in range(orders):
        order, at = f"o-{number}", begin + number * EACH
        placed.append((number, "orders", b"x%d" % number, {"id": order, "total": number, "at": at}))
        if rnd.random() < 0.95:
            paid.add(order)
            later = rnd.randint(0, APART)
            place = number + later / EACH + rnd.uniform(-disorder, disorder)
            payment = {"order_id": order, "amount": number, "at": at + later}
            placed.append((place, "payments", b"p%d" % number, payment))
    return [record for _, *record in sorted(placed)], paid  # type: ignore[misc]


def judge(scene: Scene, orders: int, paid: set[str]) -> None:
    """Each paid order has one match, each other order one absence, and nothing else came."""
    settled, unpaid = list(scene.found["settled"].values()), list(scene.found["unpaid"].values())
    assert scene.found["orphans"] == scene.found["dead"] == {}
    assert Counter(result.key for result in settled) == Counter(paid)
    assert Counter(result.key for result in unpaid) == Counter({f"o-{n}" for n in range(orders)} - paid)
    assert all(result.fits for result in (*settled, *unpaid))
    assert {result.reason for result in settled} == {"until"}
    assert {result.reason for result in unpaid} == {"timeout"}


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


@pytest.fixture
def timed(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path, request.param)
    yield made
    made.close()


def pays_late(scene: Scene, seconds: float = 12) -> None:
    """The orders of 20 s. The worker that reads their payments stands still for so many seconds, or until a result
    comes."""
    [payments] = [line["pid"] for line in scene.run.events("worker.started", agent="settle.payment")]
    os.kill(payments, signal.SIGSTOP)
    try:
        records, paid = history(random.Random(8), ORDERS, 0)
        scene.put(records)
        end = time.monotonic() + seconds
        wait_until(
            lambda: scene.read() > 0 or time.monotonic() > end, seconds + 18, "a false absence, or none", pause=0.5
        )
        assert scene.read() == 0
    finally:
        os.kill(payments, signal.SIGCONT)
    wait_until(lambda: scene.read() >= ORDERS, 90, "a result of each order", pause=0.5)
    judge(scene, ORDERS, paid)


@pytest.mark.parametrize("timed", ["{after: 61s, idle: 3s, at_most: 1h}"], indirect=True)
def test_no_order_is_unpaid_while_its_payment_waits_to_be_read(timed: Scene) -> None:
    pays_late(timed)


@pytest.mark.parametrize("timed", ["{after: 6s, clock: wall}"], indirect=True)
def test_twin_with_the_clock_of_the_worker_absences_are_false(timed: Scene) -> None:
    with pytest.raises(AssertionError):
        pays_late(timed, 45)  # a busy machine takes longer to read the orders than the 6 s of the timeout
    assert timed.found["unpaid"]


@pytest.mark.parametrize("scene", ["sqlite", "redis_url"], indirect=True)
def test_when_all_legs_are_silent_the_last_absence_is_said_in_time(scene: Scene) -> None:
    """Also by another process, after the owner was killed: the session of the group lasts six seconds more."""
    for turn in range(2):
        at = round(time.time() - AFTER) * 1000
        scene.put([("orders", b"x", {"id": f"o-{turn}", "total": turn, "at": at})])
        begin = time.monotonic()
        if turn:
            scene.kill(1)
            begin = time.monotonic()
        wait_until(partial(said, scene, turn + 1), 60, "an absence", pause=0.05)
        spent = time.monotonic() - begin
        print(f"an absence after {spent:.1f} s of silence, idle is 5 s")
        assert spent < QUICK + (SESSION if turn else 0)
    assert [result.reason for result in scene.found["unpaid"].values()] == ["timeout"] * 2


def said(scene: Scene, many: int) -> bool:
    return scene.read() >= many
