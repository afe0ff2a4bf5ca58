"""The clock of a running store is an hour ahead, then right again, and the worker is killed: open groups fire in time.

The servers are on this machine's clock, so each process of the product adds the step to the time that its store tells.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.chaos.tap import Tap
from tests.integration.supervised.run import Run, patch_processes
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = str(Path(sys.executable).with_name("sluicegate"))
AFTER, BUSY = 6, 30  # seconds: the timeout of a group; the time to find the kill, start again, and claim
KEYS = 5
STORES = ("sqlite", "redis", "postgres", "mariadb", "mongodb")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", session.timeout.ms: 6000}}
store: {store}
http: false
agents:
  sums:
    from: {ns}-in
    {scope}
    aggregate: {{count: 1000, timeout: {{after: {after}s}}, compute: {{n: count}}}}
    to: {{topic: {ns}-out}}
"""
STEPPED = """
import sys
sys.path.insert(0, {project!r})
from datetime import timedelta
from pathlib import Path
import pytest
from sluicegate.streams.ownership.store_clock import StoreClock
from tests.contracts import stepping

class FromFile(stepping.Stepped):
    @property
    def step(self):
        return timedelta(seconds=float(Path({file!r}).read_text()))

    @step.setter
    def step(self, value):
        pass

    def _redis(self, patch):
        run = stepping.connection.run_script
        micros = lambda: int(self.step.total_seconds() * 1e6)
        ahead = lambda text: text.replace(stepping._LUA, f"{{stepping._LUA}} + {{micros()}}")
        patch.setattr(stepping.connection, "run_script", lambda server, text, *more: run(server, ahead(text), *more))

clock, begin, answered = FromFile(), StoreClock.__init__, StoreClock.answered
clock.take_over(pytest.MonkeyPatch())
StoreClock.__init__ = lambda self, at, monotonic: begin(self, at + clock.step.total_seconds(), monotonic)
StoreClock.answered = lambda self, at, *more: answered(self, at + clock.step.total_seconds(), *more)
"""
WAITS = """
from sluicegate.streams.aggregation.groups import Groups
Groups.set_back = lambda self, now: None
"""
SHARED_WAITS = """
from sluicegate.connectors.sql.leased import buffer_seals
buffer_seals.set_deadlines_back = lambda at, gate: None
"""


def step(folder: Path, seconds: float) -> None:
    (folder / "step.new").write_text(str(seconds))
    (folder / "step.new").replace(folder / "step")


@pytest.fixture
def start(
    tmp_path: Path, kafka: str, ns: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(store: str, scope: str, more: str) -> Run:
        for topic in (f"{ns}-in", f"{ns}-out", f"{ns}.dead"):
            make_topic(topic, partitions=1)
        text = STEPPED.format(project=str(PROJECT), file=str(tmp_path / "step"))
        patch_processes(tmp_path, monkeypatch, text + more)
        file = tmp_path / "app.yaml"
        file.write_text(FILE.format(ns=ns, kafka=kafka, store=store, scope=scope, after=AFTER))
        subprocess.run([COMMAND, "migrate", str(file)], check=True, capture_output=True, timeout=60)
        runs.append(Run(COMMAND, "run", str(file)))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()
        print("\n".join(map(str, run.lines[-20:])), *run.noise[-20:])


def address(store: str, request: pytest.FixtureRequest, folder: Path) -> str:
    return f"sqlite:///{folder}/state.db" if store == "sqlite" else str(request.getfixturevalue(f"{store}_url"))


def counted(kafka: str, ns: str) -> Callable[[], int]:
    """How many records the results in the topic were made of, so far."""
    tap, results = Tap(kafka, [f"{ns}-out"]), dict[str, int]()

    def count() -> int:
        results.update({seen.id: json.loads(seen.value or b"{}")["n"] for seen in tap.draw(0.1)})
        return sum(results.values())

    return count


def fires(run: Run, folder: Path, kafka: str, ns: str) -> bool:
    """Groups are opened while the clock is ahead, and the clock is set right: does each fire in time?"""
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    run.wait("worker.running", 1, 60.0)
    count = counted(kafka, ns)

    def send() -> None:
        for number in range(KEYS):
            producer.produce(f"{ns}-in", b"{}", f"k{number}")
        assert producer.flush(30) == 0

    send()
    wait_until(lambda: count() == KEYS, AFTER + 60, "the results of the clock that is ahead")
    send()
    time.sleep(AFTER / 4)  # so that they are taken: a group of the clock that is right would show nothing
    step(folder, 0)
    for pid in run.pids(1):
        os.kill(pid, SIGKILL)
    try:
        wait_until(lambda: count() == 2 * KEYS, AFTER + BUSY, "the results of the clock that is right")
    except TimeoutError:
        return False
    return True


CASES: list[Any] = [
    *(pytest.param(store, "scope: shared", "", True, id=f"shared-{store}") for store in STORES),
    *(pytest.param(store, "", "", True, id=f"partition-{store}") for store in ("sqlite", "redis")),
    pytest.param("sqlite", "", WAITS, False, id="partition-twin: open groups are not set back"),
    pytest.param("sqlite", "scope: shared", SHARED_WAITS, False, id="shared-twin: deadlines are not set back"),
]


@pytest.mark.parametrize(("store", "scope", "more", "in_time"), CASES)
def test_open_groups_fire_in_time_after_the_clock_was_an_hour_ahead(
    start: Callable[..., Run],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kafka: str,
    ns: str,
    store: str,
    scope: str,
    more: str,
    in_time: bool,
) -> None:
    step(tmp_path, 3600)
    run = start(address(store, request, tmp_path), scope, more)
    assert fires(run, tmp_path, kafka, ns) is in_time
