"""Windows on a real broker: every partition falls silent, and the last windows still close in time; also when their
owner is killed just then."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.waiting import wait_until

BOUND = 6.0  # seconds: idle, and the second that the rule promises
FILE = (
    HEAD
    + """\
agents:
  sums:
    from: NS-in
    where: amount < 100
    aggregate: {window: {tumbling: 1s, idle: 5s}, compute: {total: {sum: amount}}}
    to: {topic: NS-out}
"""
)


class Scene:
    """A running app with WORKERS workers, its input and its results."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path, workers: int) -> None:
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
        path = folder / "shop.yaml"
        path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
        self.topic, self.feed = (
            f"{ns}-in",
            Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0}),
        )
        self.results: Consumer = reader(kafka, f"{ns}-out")
        self.found: dict[bytes, dict[str, Any]] = {}
        sluicegate = str(Path(sys.executable).with_name("sluicegate"))
        self.run = Run(sluicegate, "run", str(path), "--workers", str(workers))
        self.run.wait("partition.claimed", PARTITIONS, 60)

    def put(self, *amounts: int, age: float = 0.0) -> float:
        """One record for each amount, in each partition. Returns the time at which the broker has all of them."""
        for amount in amounts:
            for number in range(PARTITIONS):
                value = json.dumps({"amount": amount}).encode()
                at = round(1000 * (time.time() - age))
                self.feed.produce(self.topic, value, b"k%d" % number, number, timestamp=at)
        assert self.feed.flush(20) == 0
        return time.time()

    def closed(self, count: int) -> list[dict[str, Any]]:
        def enough() -> bool:
            for message in self.results.consume(1_000, 0.2):
                headers = dict(message.headers())
                self.found.setdefault(headers["sluicegate-id"], json.loads(message.value()))
            return len(self.found) >= count

        wait_until(enough, 60, f"{count} results")
        return list(self.found.values())

    def close(self) -> None:
        self.run.close()
        self.results.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


@pytest.fixture
def scene(request: pytest.FixtureRequest, kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    store, workers = request.param
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    made = Scene(url, kafka, ns, tmp_path, workers)
    yield made
    made.close()


def moments(results: list[dict[str, Any]]) -> list[float]:
    """When the owners closed them."""
    return [datetime.fromisoformat(result["closed_at"]).timestamp() for result in results]


@pytest.mark.parametrize("scene", [("sqlite", 1)], indirect=True)
def test_the_last_windows_of_silent_partitions_close_in_time(scene: Scene) -> None:
    last = scene.put(1, 2, 100, age=2.0)
    windows = scene.closed(PARTITIONS)
    assert {(window["total"], window["window"]["closed_by"]) for window in windows} == {(3, "idle")}
    assert max(moments(windows)) <= last + BOUND
    assert min(moments(windows)) >= last + BOUND - 2  # silence is not seen before `idle` has passed


@pytest.mark.parametrize("scene", [("redis_url", 2), ("postgres_url", 2)], indirect=True)
def test_the_next_owner_closes_the_windows_of_an_owner_that_is_killed(scene: Scene) -> None:
    last = scene.put(1, 2, 100, age=2.0)
    wait_until(lambda: committed(scene) >= 3 * PARTITIONS, 30, "the commits")
    victim = scene.run.pids(2)[0]
    os.kill(victim, signal.SIGKILL)
    windows = scene.closed(PARTITIONS)
    taken_over = max(stamp(line) for line in scene.run.events("partition.claimed"))
    assert {(window["total"], window["window"]["closed_by"]) for window in windows} == {(3, "idle")}
    assert max(moments(windows)) <= max(last + BOUND, taken_over + 1.0)


def committed(scene: Scene) -> int:
    """The records that the workers have committed, as their metrics say."""
    _, text = scene.run.get("/metrics")
    lines = [line for line in text.splitlines() if line.startswith("sluicegate_records_consumed_total{")]
    return sum(round(float(line.rpartition(" ")[2])) for line in lines)


def stamp(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(str(line["timestamp"])).timestamp()


def test_twin_without_the_end_of_the_partition_never_closes_them(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("window-end", log).items():
        monkeypatch.setenv(name, value)
    scene = Scene(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path, 1)
    try:
        scene.put(1, 2, age=2.0)
        with pytest.raises(TimeoutError):
            wait_until(lambda: scene.results.consume(1, 0.2), 2 * BOUND, "a result")
        pids = [line["pid"] for line in scene.run.events("worker.started")]
    finally:
        scene.close()
    twins.check("window-end", log, [scene.run.process.pid, *pids])
