"""Late records on a real broker, with kill -9 in between: each record is in exactly one further result of its window,
and in the last revision of it. When windows close depends on the clock here; what they add up to does not."""

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
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.waiting import wait_until

SIZE, KEYS, RECORDS, KILLS, AGENTS = 10_000, 20, 2_000, 2, 2
FILE = (
    HEAD
    + """\
agents:
  revised:
    from: NS-in
    aggregate:
      window: {tumbling: 10s, time: {field: at, unit: ms}, idle: 1s, late: {amend: 1d, every: 1s}}
      compute: {total: {sum: amount}}
    to: {topic: NS-revised}
  further:
    from: NS-in
    aggregate:
      window: {tumbling: 10s, time: {field: at, unit: ms}, idle: 1s, late: {new: 1s}}
      compute: {total: {sum: amount}}
    to: {topic: NS-further}
"""
)

Sums = Counter[tuple[str, str]]
"""The total of each key and window."""


class Scene:
    """A running app, its input, and what its results add up to."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path) -> None:
        create(kafka, *(f"{ns}-{name}" for name in ("in", "revised", "further", "dead")))
        path = folder / "shop.yaml"
        path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
        self.topic, self.feed = (
            f"{ns}-in",
            Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0}),
        )
        self.revised, self.further, self.dead = (
            reader(kafka, f"{ns}-{name}") for name in ("revised", "further", "dead")
        )
        self.last: dict[tuple[str, str], tuple[int, int]] = {}
        self.added: dict[bytes, tuple[tuple[str, str], int]] = {}
        self.wanted: Sums = Counter()
        self.begin = time.time() // 10 * 10 - 3_600
        self.run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
        self.run.wait("partition.claimed", 2 * PARTITIONS, 60)

    def put(self, chance: random.Random, first: int, last: int) -> None:
        """These records, 0.1 s of event time apart, and up to 100 s out of order."""
        for index in range(first, last):
            key, amount = f"k{chance.randrange(KEYS)}", chance.randrange(1, 100)
            at = round(1000 * (self.begin + index / 10 - 100 * chance.random() ** 4))
            start = at - at % SIZE
            self.wanted[key, stamp(start)] += amount
            value = json.dumps({"amount": amount, "at": at}).encode()
            self.feed.produce(self.topic, value, key.encode(), int(key[1:]) % PARTITIONS)
        assert self.feed.flush(30) == 0

    def read(self) -> tuple[Sums, Sums]:
        """The totals of the last revisions, and the sums of all further results."""
        for message in self.revised.consume(5_000, 0.2):
            name, total, revision = told(message.value())
            if revision > self.last.get(name, (0, 0))[0]:  # else it is a repeat
                self.last[name] = (revision, total)
        for message in self.further.consume(5_000, 0.2):
            name, total, _ = told(message.value())
            self.added.setdefault(dict(message.headers())["sluicegate-id"], (name, total))
        further: Sums = Counter()
        for name, total in self.added.values():
            further[name] += total
        return Counter({name: total for name, (_, total) in self.last.items()}), further

    def revisions(self) -> int:
        self.read()
        return sum(revision - 1 for revision, _ in self.last.values())

    def settled(self, seconds: float) -> None:
        wait_until(lambda: self.read() == (self.wanted, self.wanted), seconds, "the sums of all windows")

    def close(self) -> None:
        self.run.close()
        for consumer in (self.revised, self.further, self.dead):
            consumer.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


def told(value: bytes) -> tuple[tuple[str, str], int, int]:
    result = json.loads(value)
    return (result["key"], result["window"]["start"]), result["total"], result["window"]["revision"]


def stamp(milliseconds: int) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds / 1000))
    return f"{moment}.000Z"


def revised_since(scene: Scene, known: int) -> bool:
    return scene.revisions() > known


def storm(scene: Scene) -> None:
    """Records in bursts, and after each one the workers die: each agent has one."""
    chance = random.Random(19)
    for burst in range(KILLS):
        scene.put(chance, burst * RECORDS, (burst + 1) * RECORDS)
        known = scene.revisions()
        wait_until(partial(revised_since, scene, known), 30, "a revised result")
        for pid in scene.run.pids(AGENTS * (burst + 1))[-AGENTS:]:
            os.kill(pid, signal.SIGKILL)
        scene.run.wait("partition.claimed", AGENTS * PARTITIONS * (burst + 2), 60)
    scene.put(chance, KILLS * RECORDS, (KILLS + 1) * RECORDS)


@pytest.fixture(params=["sqlite", "redis_url", "postgres_url"])
def scene(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    sqlite = request.param == "sqlite"
    made = Scene(
        f"sqlite:///{tmp_path / 'state.db'}" if sqlite else request.getfixturevalue(request.param), kafka, ns, tmp_path
    )
    yield made
    made.close()


def test_late_records_are_in_the_last_revision_and_in_one_further_result(scene: Scene) -> None:
    storm(scene)
    scene.settled(120)
    assert max(revision for revision, _ in scene.last.values()) > 1
    assert len(scene.added) > len(scene.wanted)
    scene.run.signal(signal.SIGTERM)
    assert scene.run.exit_code(60) == 0
    assert scene.read() == (scene.wanted, scene.wanted)
    assert not scene.dead.consume(1, 1.0)


def test_twin_without_the_closed_windows_in_the_changelog_is_found(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("closed-windows", log).items():
        monkeypatch.setenv(name, value)
    scene = Scene(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path)
    try:
        storm(scene)
        with pytest.raises(TimeoutError):
            scene.settled(15)
        pids: list[Any] = [line["pid"] for line in scene.run.events("worker.started")]
    finally:
        scene.close()
    twins.check("closed-windows", log, pids[:1])
