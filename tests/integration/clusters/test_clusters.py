"""Two clusters on two real brokers: topics of one name in both, workers that are killed, and a broker that is down."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.servers import Server
from tests.servers.kafka import Kafka
from tests.servers.process import free_port
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
KILLS = 4
BRIDGE = """\
app: NS
kafka:
  default: east
  east: {bootstrap.servers: EAST, session.timeout.ms: 6000}
  west: {bootstrap.servers: WEST, session.timeout.ms: 6000}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS.dead
http: {port: PORT}
agents:
  sums:
    from: NS.t
    aggregate: {count: 4, timeout: 1h, compute: {ids: {collect: n}}}
    to: {cluster: west, topic: NS.t}
  back:
    from: {cluster: west, topic: NS.t}
    to: NS.back
"""
SPLIT = """\
app: NS
kafka:
  default: east
  east: {bootstrap.servers: EAST}
  west: {bootstrap.servers: WEST}
store: sqlite:///state.db
dead_letters: NS.dead
outbox: {lanes: 1}
start_timeout: 5s
http: {port: PORT}
agents:
  route:
    from: NS.in
    to:
      - {topic: NS.out, cluster: west, where: to == "west"}
      - NS.out
  timed:
    from: NS.timed
    handler: cluster_handlers:later
"""


@pytest.fixture(scope="module")
def west(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tests.servers.shared import own_folder

    server = Server(Kafka(), own_folder())
    yield server.start()
    server.destroy()


@pytest.fixture
def started(tmp_path: Path, kafka: str, west: Server, ns: str) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []
    shutil.copy(Path(__file__).with_name("cluster_handlers.py"), tmp_path)

    def start(text: str, *options: str) -> Run:
        for word, value in {"NS": ns, "EAST": kafka, "WEST": west.url, "PORT": str(free_port())}.items():
            text = text.replace(word, value)
        (tmp_path / "clusters.yaml").write_text(text)
        runs.append(Run(SLUICEGATE, "run", str(tmp_path / "clusters.yaml"), *options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()
        print(*run.lines[-30:], *run.noise[-10:], sep="\n")


def feed(bootstrap: str, topic: str, values: list[dict[str, Any]], key: Callable[[dict[str, Any]], bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, json.dumps(value).encode(), key(value), int(key(value)[1:]) % PARTITIONS)
    assert producer.flush(30) == 0


def numbers(messages: dict[bytes, Message]) -> Counter[int]:
    return Counter(n for message in messages.values() for n in json.loads(message.value())["ids"])


@pytest.mark.parametrize("store", ["sqlite", "redis_url", "postgres_url"])
def test_nothing_is_lost_or_repeated_from_one_cluster_to_the_other_while_workers_are_killed(
    started: Callable[..., Run], kafka: str, west: Server, ns: str, store: str, request: pytest.FixtureRequest
) -> None:
    url = "sqlite:///state.db" if store == "sqlite" else request.getfixturevalue(store)
    create(kafka, f"{ns}.t", f"{ns}.back", f"{ns}.dead")
    create(west.url, f"{ns}.t")
    there, back = reader(west.url, f"{ns}.t"), reader(kafka, f"{ns}.back")
    run = started(BRIDGE.replace("STORE", url), "--workers", "2")
    results, returned = dict[bytes, Message](), dict[bytes, Message]()
    share = 4_000
    for turn in range(KILLS + 1):
        part = [{"n": n} for n in range(turn * share, (turn + 1) * share)]
        feed(kafka, f"{ns}.t", part, lambda value: b"k%d" % (value["n"] % 20))
        if turn < KILLS:
            known = len(results)
            wait_until(lambda known=known: taken(there, results) > known, 60, "a result of this part")
            agent = ("sums", "back")[turn % 2]
            os.kill(run.wait("worker.started", 2, agent=agent)[-1]["pid"], signal.SIGKILL)
    every = (KILLS + 1) * share
    wait_until(lambda: taken(there, results) >= every // 4, 120, "all results in the west")
    wait_until(lambda: taken(back, returned) >= every // 4, 120, "all results back in the east")
    assert numbers(results) == Counter(range(every))
    assert numbers(returned) == Counter(range(every))
    headers = [dict(message.headers() or ()) for message in results.values()]
    assert all(header["sluicegate-shard"].startswith(f"{ns}/sums/{ns}.t/".encode()) for header in headers)
    assert all(b">%s.t#" % ns.encode() in header["sluicegate-shard"] for header in headers)  # the plain name
    ended(there, back)


def test_a_cluster_that_is_down_holds_up_no_row_of_another(
    started: Callable[..., Run], kafka: str, west: Server, ns: str, tmp_path: Path
) -> None:
    create(kafka, *(f"{ns}.{name}" for name in ("in", "out", "timed", "dead")))
    create(west.url, f"{ns}.out")
    here = reader(kafka, f"{ns}.out")
    run = started(SPLIT)
    outputs, messages = dict[bytes, Message](), dict[bytes, Message]()
    both = [{"n": n, "to": ("east", "west")[n % 2]} for n in range(2_000)]
    timed = [{"n": -1 - n, "to": f"{ns}.out{('', '@west')[n % 2]}"} for n in range(40)]
    # the workers and the dispatcher know the topics before
    feed(kafka, f"{ns}.in", both[:20], lambda value: b"k1")
    feed(kafka, f"{ns}.timed", timed[:20], lambda value: b"k1")
    wait_until(lambda: taken(here, outputs) >= 20, 60, "the first outputs")
    wait_until(lambda: _west(west, ns, messages) >= 20, 60, "the first outputs in the west")
    path = str(tmp_path / "clusters.yaml")
    ends, text = checked(path)
    assert (ends, f"cluster east: {kafka} answers" in text) == (0, True)
    assert f"cluster west: {west.url} answers" in text
    west.kill9()
    try:
        ends, text = checked(path)
        assert (ends, "cluster west: " in text) == (3, True)
        feed(kafka, f"{ns}.timed", timed[20:], lambda value: b"k1")
        for part in range(20, 2_000, 495):
            feed(kafka, f"{ns}.in", both[part : part + 495], lambda value: b"k%d" % (value["n"] % 8))
        wait_until(lambda: taken(here, outputs) >= 1_020, 30, "all outputs in the east")
    finally:
        west.restart()
    wait_until(lambda: _west(west, ns, messages) >= 1_020, 90, "all outputs in the west")
    assert Counter(json.loads(message.value())["n"] for message in outputs.values()) == Counter(
        [*range(0, 2_000, 2), *(-1 - n for n in range(0, 40, 2))]
    )
    assert Counter(json.loads(message.value())["n"] for message in messages.values()) == Counter(
        [*range(1, 2_000, 2), *(-1 - n for n in range(1, 40, 2))]
    )
    run.signal(signal.SIGTERM)
    assert run.exit_code(40) == 0
    ended(here)


def checked(path: str) -> tuple[int, str]:
    """The exit code of `check --connect`, and what it says."""
    done = subprocess.run([SLUICEGATE, "check", path, "--connect"], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def _west(west: Server, ns: str, messages: dict[bytes, Message]) -> int:
    consumer = reader(west.url, f"{ns}.out")
    try:
        wait_until(lambda: consumer.assignment(), 10, "an assignment")
        for _ in range(10):
            taken(consumer, messages)
    finally:
        consumer.close()
    return len(messages)


def ended(*consumers: Consumer) -> None:
    for consumer in consumers:
        consumer.close()
