"""Windows that finish under their own rule, on a real broker and real stores, with kill -9 before and behind the
change: each window of a key has one result, of one rule, with each of its records."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sluicegate.streams.rules import rule_of
from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.integration.test_deploy import SLUICEGATE, deploy, lag, loaded
from tests.waiting import wait_until

KEYS, RECORDS = 12, 400
FILE = (
    HEAD
    + """\
agents:
  sums:
    from: NS-in
    aggregate:
      window: {tumbling: 1m, time: {field: at, unit: ms}, grace: 2m, idle: 1h}
      compute: {total: {sum: amount}}
    to: {topic: NS-out}
"""
)
Window = tuple[str, int]


class Scene:
    """`wanted` are the totals of each key and window by the rule that has it."""

    def __init__(self, store: str, kafka: str, ns: str, folder: Path) -> None:
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead")))
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store)
        self.files = folder / "old.yaml", folder / "new.yaml"
        self.files[0].write_text(text)
        self.files[1].write_text(text.replace("total: {sum: amount}", "total: {sum: twice}, n: count"))
        self.feed = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
        self.topic, self.begin = f"{ns}-in", (round(time.time()) // 60 - 60) * 60_000
        self.out, self.wanted, self.seen = (
            reader(kafka, f"{ns}-out"),
            Counter[Window](),
            list[tuple[Window, int, str]](),
        )
        self.run = Run(SLUICEGATE, "run", str(self.files[0]))
        self.run.wait("partition.claimed", PARTITIONS, 60)

    def put(self, window: int, rule: int, many: int = RECORDS) -> None:
        """Records of all keys, in this window, which has this rule."""
        for index in range(many):
            key = f"k{index % KEYS}"
            at = self.begin + 60_000 * window + index
            self.wanted[key, self.begin + 60_000 * window] += (1, 10)[rule]
            self._produce(key, index % KEYS % PARTITIONS, {"amount": 1, "twice": 10, "at": at})
        assert self.feed.flush(30) == 0

    def close_windows(self) -> None:
        """A late watermark in each partition."""
        for number in range(PARTITIONS):
            self._produce("end", number, {"amount": 0, "twice": 0, "at": self.begin + 3_000_000})
        assert self.feed.flush(30) == 0

    def _produce(self, key: str, number: int, value: dict[str, int]) -> None:
        self.feed.produce(self.topic, json.dumps(value).encode(), key.encode(), number)

    def kill(self, claims: int) -> None:
        os.kill(self.run.pids(claims)[-1], signal.SIGKILL)

    def results(self) -> Counter[Window]:
        for message in self.out.consume(5_000, 0.2):
            result, headers = json.loads(message.value()), dict(message.headers())
            start = round(1000 * datetime.fromisoformat(result["window"]["start"]).timestamp())
            self.seen.append(((result["key"], start), result["total"], headers["sluicegate-rule"].decode()))
        return Counter({window: total for window, total, _ in self.seen})

    def close(self) -> None:
        self.run.close()
        self.out.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


@pytest.fixture(params=["sqlite", "redis_url", "postgres_url"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> Iterator[Scene]:
    sqlite = request.param == "sqlite"
    store = f"sqlite:///{tmp_path / 'state.db'}" if sqlite else request.getfixturevalue(request.param)
    with closing(Scene(store, kafka, ns, tmp_path)) as made:
        yield made


def test_each_window_has_one_result_of_one_rule(scene: Scene) -> None:
    scene.put(0, 0)
    wait_until(lambda: lag(scene.files[0]) == 0, 60, "windows that are open")
    scene.kill(1)
    assert deploy(scene.files[1], "--open", "finish").returncode == 0
    scene.put(0, 0)
    scene.put(1, 1)
    scene.kill(2)
    scene.put(0, 0)
    scene.put(1, 1)
    scene.close_windows()
    wait_until(lambda: scene.results() == scene.wanted, 120, "the totals of all windows")
    short = [rule_of(loaded(str(file)).agents[0]).short for file in scene.files]
    assert {(window, rule) for window, _, rule in scene.seen} == {
        (window, short[window[1] > scene.begin]) for window in scene.wanted
    }
