"""Hopping windows on a real broker while workers are killed: each window once, with the records of the naive oracle."""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from sluicegate.streams.aggregation.results import rfc3339
from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.unit.windows.hopping_oracle import HoppingOracle
from tests.unit.windows.oracle import Step
from tests.waiting import wait_until

RECORDS, KILLS = 12_000, 4
SIZE, EVERY, GRACE = 4_000, 1_000, 1_000  # ms
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000, heartbeat.interval.ms: 500}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  sums:
    from: NS-in
    aggregate:
      window: {hopping: 4s, every: 1s, grace: 1s, time: {field: at, unit: ms}, idle: never}
      compute: {total: {sum: amount}}
    to: {topic: NS-out}
"""


class Input:
    """The records, and what the oracles of the partitions say about them."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.oracles = [HoppingOracle(SIZE, EVERY, 0, GRACE, inf, inf, inf, RECORDS) for _ in range(PARTITIONS)]
        self.records: list[tuple[int, bytes, int, int]] = []  # partition, key, time, amount
        self._offsets = [0] * PARTITIONS
        for number in range(RECORDS):
            time = 100_000 + 4 * number - chance.randint(0, chance.choice([100, 1_500, 7_000]))
            key = chance.randrange(20)
            self._add(key % PARTITIONS, b"k%d" % key, time, chance.randint(-5, 5))
        for number in range(PARTITIONS):
            self._add(number, b"last", 1_000_000, 0)

    def _add(self, partition: int, key: bytes, time: int, amount: int) -> None:
        self.records.append((partition, key, time, amount))
        self.oracles[partition].take(self._offsets[partition], Step(0.0, key, time, amount))
        self._offsets[partition] += 1

    @property
    def results(self) -> list[tuple[str, str, int, int]]:
        """Key, start of the window, number and sum of its records."""
        every = (each for oracle in self.oracles for each in oracle.results)
        return sorted((each.key.decode(), rfc3339(each.start / 1000), each.count, each.total) for each in every)

    @property
    def late(self) -> int:
        return sum(len(oracle.refused) for oracle in self.oracles)


@pytest.fixture(params=["sqlite", "redis_url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = f"sqlite:///{tmp_path / 'state.db'}"
    return sqlite if request.param == "sqlite" else str(request.getfixturevalue(request.param))


@pytest.fixture
def outputs(kafka: str, ns: str) -> Iterator[tuple[Consumer, Consumer]]:
    create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
    both = reader(kafka, f"{ns}-out"), reader(kafka, f"{ns}-dead")
    yield both
    for each in both:
        each.close()


def test_each_window_comes_once_though_workers_are_killed(
    store: str, kafka: str, ns: str, tmp_path: Path, outputs: tuple[Consumer, Consumer]
) -> None:
    given, feed = Input(7), Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    (tmp_path / "sums.yaml").write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store))
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(tmp_path / "sums.yaml"), "--workers", "2")
    results, dead = dict[bytes, Message](), dict[bytes, Message]()
    share = -(-len(given.records) // (KILLS + 1))
    try:
        for turn in range(KILLS + 1):
            for partition, key, time, amount in given.records[turn * share : (turn + 1) * share]:
                feed.produce(f"{ns}-in", json.dumps({"at": time, "amount": amount}).encode(), key, partition)
            assert feed.flush(30) == 0
            if turn < KILLS:
                known = len(results)
                wait_until(lambda known=known: taken(outputs[0], results) > known, 60, "a result of this part")
                os.kill(run.pids(2 + turn)[-1], signal.SIGKILL)
        wait_until(lambda: taken(outputs[0], results) >= len(given.results), 120, "all windows")
        wait_until(lambda: taken(outputs[1], dead) >= given.late, 60, "all late records")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        print(*run.lines[-10:], *run.noise[-10:], sep="\n")
    documents: list[dict[str, Any]] = [json.loads(each.value()) for each in results.values()]
    found = sorted((each["key"], each["window"]["start"], each["count"], each["total"]) for each in documents)
    assert found == given.results
    assert {dict(each.headers())["sluicegate-dead-reason"] for each in dead.values()} == {b"late"}
    assert len(dead) == given.late > 0
    assert sum(oracle.partly for oracle in given.oracles) > 0
