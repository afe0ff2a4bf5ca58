"""Windows over a repartitioned topic on a real broker: a worker that re-keys stands still under load, all fall silent
while the owner of the windows is killed, and another program writes time marks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_windows import moments, stamp
from tests.mutation import twins
from tests.waiting import wait_until

IDLE, STOPPED = 10.0, 6.0  # seconds
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"TIMES}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  sums:
    from: NS-in
    key: user
    repartition: NS-by-user
    aggregate: {window: {tumbling: 1s, idle: 10s}, compute: {total: {sum: amount}}}
    to: {topic: NS-out}
"""
QUICK = ", session.timeout.ms: 6000, heartbeat.interval.ms: 500"
WORKERS = 2  # of the agent that re-keys, and of the one that has the windows


class Scene:
    """A running app, its input and its results. `put` counts what it wrote."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path, times: str = "") -> None:
        create(kafka, *(f"{ns}-{name}" for name in ("in", "by-user", "out", "dead")))
        self.path = folder / "shop.yaml"
        text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url).replace("TIMES", times)
        self.path.write_text(text)
        self.topic, self.feed = (
            f"{ns}-in",
            Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0}),
        )
        self.results: Consumer = reader(kafka, f"{ns}-out")
        self.letters: Consumer = reader(kafka, f"{ns}-dead")
        self.found: dict[bytes, dict[str, Any]] = {}
        self.late, self.sent = 0, 0
        self.sluicegate = str(Path(sys.executable).with_name("sluicegate"))
        self.run = Run(self.sluicegate, "run", str(self.path), "--workers", str(WORKERS))
        self.run.wait("partition.claimed", 2 * PARTITIONS, 90)

    def put(self, seconds: float) -> float:
        """A hundred records a second and partition, each of amount 1. Returns when the broker has the last one."""
        end = time.time() + seconds
        while time.time() < end:
            for number in range(PARTITIONS):
                value = json.dumps({"user": f"u{self.sent % 7}", "amount": 1}).encode()
                self.feed.produce(self.topic, value, b"any", number, timestamp=round(1000 * time.time()))
                self.sent += 1
            self.feed.poll(0)
            time.sleep(0.01)
        assert self.feed.flush(20) == 0
        return time.time()

    def read(self) -> int:
        """Reads results and dead letters. Returns how many records the results count."""
        for message in self.results.consume(2_000, 0.1):
            self.found.setdefault(dict(message.headers())["sluicegate-id"], json.loads(message.value()))
        self.late += len(self.letters.consume(2_000, 0.05))
        return sum(finding["total"] for finding in self.found.values())

    def pids(self, agent: str) -> list[int]:
        return [line["pid"] for line in self.run.events("worker.started", agent=agent)]

    def why(self, key: str) -> str:
        command = [self.sluicegate, "groups", "why", str(self.path), "sums", key]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    def close(self) -> None:
        for agent in ("sums.repartition", "sums"):
            for pid in self.pids(agent):
                with_suppressed(pid)
        self.run.close()
        for consumer in (self.results, self.letters):
            consumer.close()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


def with_suppressed(pid: int) -> None:
    """Let a worker that was stopped go on, if it is there."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


@contextmanager
def scene_of(*arguments: Any) -> Iterator[Scene]:
    made = Scene(*arguments)
    try:
        yield made
    finally:
        made.close()


def stopped(scene: Scene) -> str:
    """One of the two workers that re-key stands still under load. Returns what `why` said meanwhile."""
    scene.put(2.0)
    victim = scene.pids("sums.repartition")[0]
    os.kill(victim, signal.SIGSTOP)
    scene.put(STOPPED)
    reason = scene.why("u1")
    os.kill(victim, signal.SIGCONT)
    scene.put(1.0)
    wait_until(lambda: scene.read() + scene.late >= scene.sent, 90, "every record in a result or late", pause=0.2)
    return reason


def test_an_origin_that_stood_still_has_no_late_record_and_why_names_it(kafka: str, ns: str, tmp_path: Path) -> None:
    with scene_of(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path) as scene:
        reason = stopped(scene)
        assert scene.late == 0
        assert scene.read() == scene.sent
        assert f"held back by {ns}-in/" in reason
        assert "sums.repartition said at" in reason


def test_twin_without_origins_has_late_ones(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("origins", log).items():
        monkeypatch.setenv(name, value)
    with scene_of(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path) as scene:
        stopped(scene)
        assert scene.late > 0
        print(f"{scene.late} of {scene.sent} records late")
        pids = [line["pid"] for line in scene.run.events("worker.started")]
        command = scene.run.process.pid
    twins.check("origins", log, [command, *pids])


@pytest.mark.parametrize("store", ["redis_url", "postgres_url"])
def test_silence_closes_the_last_windows_in_time_also_on_another_worker(
    request: pytest.FixtureRequest, store: str, kafka: str, ns: str, tmp_path: Path
) -> None:
    with scene_of(request.getfixturevalue(store), kafka, ns, tmp_path, QUICK) as scene:
        last = scene.put(1.5)
        wait_until(lambda: time.time() > last + IDLE / 2, 30, "half of the silence")
        claims = len(scene.run.events("partition.claimed"))
        os.kill(scene.pids("sums")[-1], signal.SIGKILL)  # the newest: an earlier one may have ended at its start
        wait_until(lambda: scene.read() + scene.late >= scene.sent, 60, "every record in a result", pause=0.2)
        assert scene.late == 0
        closed = max(moments([finding for finding in scene.found.values() if finding["window"]["closed_by"] == "idle"]))
        taken_over = max(stamp(line) for line in scene.run.events("partition.claimed")[claims:])
        bound = max(last + IDLE + 1, taken_over) + 2  # the end of a window is up to 1 s after its records
        print(f"closed {closed - last:.1f} s after the last record, taken over after {taken_over - last:.1f} s")
        assert closed <= bound


def forged(scene: Scene, kafka: str, ns: str) -> None:
    """Another program writes time marks to the internal topic: every origin is half an hour ahead, as max_ahead
    allows."""
    scene.put(2.0)
    ahead, now = round(1000 * (time.time() + 1_800)), round(1000 * time.time())
    other = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    for number in range(PARTITIONS):
        for origin in range(PARTITIONS):
            says = {
                "agent": "sums.repartition",
                "origin": f"{ns}-in/{origin}/0",
                "time": ahead,
                "state": f"at-end/{now}",
            }
            headers = [(f"sluicegate-{name}", str(value).encode()) for name, value in says.items()]
            other.produce(f"{ns}-by-user", None, None, number, headers=headers)
    assert other.flush(20) == 0
    time.sleep(1.0)
    scene.put(3.0)
    wait_until(lambda: scene.read() + scene.late >= scene.sent, 90, "every record in a result or late", pause=0.2)


def test_forged_time_marks_make_no_record_late_and_are_told_of(kafka: str, ns: str, tmp_path: Path) -> None:
    with scene_of(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path) as scene:
        forged(scene, kafka, ns)
        assert scene.late == 0
        assert scene.read() == scene.sent
        assert {line["reason"] for line in scene.run.events("headers.refused")} == {"unproven"}


def test_twin_that_believes_any_time_mark_has_late_records(
    kafka: str, ns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "twin"
    for name, value in twins.environment("no-proof", log).items():
        monkeypatch.setenv(name, value)
    with scene_of(f"sqlite:///{tmp_path / 'state.db'}", kafka, ns, tmp_path) as scene:
        forged(scene, kafka, ns)
        assert scene.late > 0
        pids = [line["pid"] for line in scene.run.events("worker.started")]
        command = scene.run.process.pid
    twins.check("no-proof", log, [command, *pids])
