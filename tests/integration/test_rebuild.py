"""`sluicegate replay --rebuild` on a real broker: the store is gone, what its workers held is restored, and nothing is
sent twice."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.contracts.sql import database, execute
from tests.integration.supervised.run import Run
from tests.servers.valkey import Valkey
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: {store}
http: false
agents:
  fives:
    from: {ns}-in
    aggregate: {{{rule}, compute: {{all: {{collect: n}}}}}}
    to: {{topic: {ns}-out}}
"""
FIVES = "count: 5, timeout: {after: 2h, since: first}"
WINDOWS = "window: {tumbling: 10s, time: {field: at, unit: ms}, grace: 2s, idle: 2h}"
SESSIONS = "window: {session: 2s, time: {field: at, unit: ms}, grace: 2s, idle: 2h}"
KEYS, PARTITIONS = 23, 3
BEGAN = 1_790_000_000_000  # of the records' own times, in milliseconds since 1970
Wipe = Callable[[], object]


@pytest.fixture(params=["redis", "postgresql"])
def gone(request: pytest.FixtureRequest, ns: str) -> tuple[str, Wipe]:
    """A store of the test's own, and how it is lost."""
    if request.param == "redis":
        url = request.getfixturevalue("own_server")(Valkey).url
        return url, lambda: redis.Redis.from_url(url).flushall()
    server = request.getfixturevalue("postgres_url")
    url = database(server, ns)

    def dropped() -> None:
        execute(server, f"drop database {ns} with (force)")
        database(server, ns)

    return url, dropped


class Shop:
    """The file, its topics, and what is known of them. Records number 0, 1, 2 ... of key `k<n % KEYS>`."""

    rule = FIVES

    def __init__(self, folder: Path, ns: str, kafka: str, store: str) -> None:
        self.file, self.ns, self.kafka = str(folder / "app.yaml"), ns, kafka
        Path(self.file).write_text(FILE.format(ns=ns, kafka=kafka, store=store, rule=self.rule))
        self.fed = 0
        self.call("topics", self.file, "--create", "--partitions", str(PARTITIONS), "--json")
        self._consumer: Any = Consumer(
            {"bootstrap.servers": kafka, "group.id": f"{ns}-test", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([f"{ns}-out"])
        self.found: list[tuple[str, str, list[int]]] = []

    def call(self, *args: str) -> Any:
        """In this process: it starts a dozen times faster."""
        done = CliRunner().invoke(main, args)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        self._consumer.close()

    def migrate(self) -> None:
        assert CliRunner().invoke(main, ["migrate", self.file]).exit_code == 0

    def feed(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for n in range(self.fed, self.fed + count):
            producer.produce(f"{self.ns}-in", json.dumps({"n": n}).encode(), f"k{n % KEYS}".encode())
        self.fed += count
        assert producer.flush(20) == 0

    def results(self) -> list[tuple[str, str, list[int]]]:
        """Id, key and records of every message that was sent, repeats included."""
        for message in self._consumer.consume(1000, 0.3):
            if message.error() is None:
                document = json.loads(message.value())
                self.found.append((dict(message.headers())["sluicegate-id"].decode(), document["key"], document["all"]))
        return self.found

    def wanted(self) -> dict[str, list[list[int]]]:
        """What an oracle makes of all records: fives of each key in their order."""
        mine = {f"k{k}": list(range(k, self.fed, KEYS)) for k in range(KEYS)}
        return {key: [them[i : i + 5] for i in range(0, len(them) - 4, 5)] for key, them in mine.items()}

    def groups(self) -> list[tuple[str, int, int, int]]:
        open_groups = self.call("groups", "ls", self.file, "fives", "--json")["groups"]
        return sorted(
            (open_group["key"], open_group["count"], open_group["first"], open_group["last"])
            for open_group in open_groups
        )

    def closed(self) -> int:
        """How many groups have ended."""
        return sum(map(len, self.wanted().values()))

    def caught_up(self) -> bool:
        self.results()
        return self.closed() <= len({id for id, _, _ in self.found}) and self._lag() == 0

    def _lag(self) -> int:
        return sum(partition["lag"] for partition in self.call("status", self.file, "--json")["partitions"])

    def ended(self) -> dict[str, list[list[int]]]:
        """The records of the results of each key, in their order. No result came twice."""
        assert set(Counter(id for id, _, _ in self.results()).values()) == {1}
        results: dict[str, list[list[int]]] = {f"k{k}": [] for k in range(KEYS)}
        for _, key, numbers in sorted(self.found, key=lambda finding: finding[2]):
            results[key].append(numbers)
        return results

    def work(self) -> None:
        """A worker does all that is there, and leaves."""
        run = Run(str(SLUICEGATE), "run", self.file)
        try:
            wait_until(self.caught_up, 60, "all to be read")
            run.signal(signal.SIGTERM)
            assert run.exit_code(40) == 0
        finally:
            run.close()

    def halts(self, code: str) -> None:
        """A worker goes on nowhere, and says why."""
        run = Run(str(SLUICEGATE), "run", self.file)
        try:
            run.wait("partition.halted", PARTITIONS, 60, code=code)
            refused = CliRunner().invoke(main, ["replay", self.file, "fives", "--rebuild"])
            assert refused.exit_code == 2
            assert "1 members: stop them first" in refused.stderr
            run.signal(signal.SIGTERM)
            run.exit_code(40)
        finally:
            run.close()

    def replay(self) -> Any:
        return self.call("replay", self.file, "fives", "--rebuild", "--json")["rebuilt"]

    def replay_killed(self) -> int:
        environ = {**os.environ, "SLUICEGATE_FAILPOINTS": "replay-half-way=kill@2"}
        done = subprocess.run(
            [SLUICEGATE, "replay", self.file, "fives", "--rebuild"], env=environ, capture_output=True, timeout=60
        )
        return done.returncode


class WindowShop(Shop):
    """As Shop. The time of record n is up to 1.9 s before n tenths of a second. Each key has a record every 0.4 to
    4.2 s, in the order of their times."""

    rule = WINDOWS

    def time(self, n: int) -> int:
        return BEGAN + 100 * n - 100 * (n * 7 % 20)

    def feed(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for n in range(self.fed, self.fed + count):
            value = json.dumps({"n": n, "at": self.time(n)}).encode()
            producer.produce(f"{self.ns}-in", value, f"k{n % KEYS}".encode())
        self.fed += count
        assert producer.flush(20) == 0

    def windows(self, key: int) -> list[list[int]]:
        """The records of each window of the key, in the order of its windows."""
        numbers: dict[int, list[int]] = {}
        for n in range(key, self.fed, KEYS):
            numbers.setdefault(self.time(n) // 10_000, []).append(n)
        return [numbers[start] for start in sorted(numbers)]

    def wanted(self) -> dict[str, list[list[int]]]:
        """What an oracle makes of all records: every window but the last one of each key."""
        return {f"k{key}": self.windows(key)[:-1] for key in range(KEYS)}

    def closed(self) -> int:
        return 0


class SessionShop(WindowShop):
    rule = SESSIONS

    def windows(self, key: int) -> list[list[int]]:
        steps = [[key]]
        for n in range(key + KEYS, self.fed, KEYS):
            if self.time(n) - self.time(n - KEYS) <= 2_000:
                steps[-1].append(n)
            else:
                steps.append([n])
        return steps


@pytest.fixture
def shop(tmp_path: Path, kafka: str, ns: str, gone: tuple[str, Wipe]) -> Iterator[Shop]:
    made = Shop(tmp_path, ns, kafka, gone[0])
    yield made
    made.close()


def test_after_the_store_is_gone_it_is_rebuilt_equals_the_oracle_and_a_second_run_adds_nothing(
    shop: Shop, gone: tuple[str, Wipe]
) -> None:
    wipe = gone[1]
    shop.migrate()
    shop.feed(400)
    shop.work()
    before = shop.groups()
    wipe()
    shop.migrate()
    if gone[0].startswith("redis"):
        shop.halts("store-wiped")
    assert shop.replay_killed() == -signal.SIGKILL
    rebuilt = shop.replay()  # the killed one had finished a partition
    assert (len(rebuilt), {place["sent_anew"] for place in rebuilt}) == (PARTITIONS - 1, {0})
    assert shop.groups() == before
    assert shop.replay() == []
    assert shop.groups() == before
    shop.feed(200)
    shop.work()
    assert shop.ended() == shop.wanted()


@pytest.mark.parametrize("kind", [WindowShop, SessionShop])
def test_windows_whose_store_is_gone_are_rebuilt_and_each_record_is_in_the_one_result_of_its_window(
    kind: type[WindowShop], tmp_path: Path, kafka: str, ns: str, gone: tuple[str, Wipe]
) -> None:
    shop, wipe = kind(tmp_path, ns, kafka, gone[0]), gone[1]
    try:
        shop.migrate()
        shop.feed(1_000)
        shop.work()
        before = shop.groups()
        assert len(before) > KEYS // 2
        wipe()
        shop.migrate()
        assert shop.replay_killed() == -signal.SIGKILL
        assert {place["sent_anew"] for place in shop.replay()} == {0}
        assert shop.groups() == before
        shop.feed(1_000)
        shop.work()
        last = shop.fed
        shop.time = lambda n: BEGAN + 100 * n + (100_000 if n >= last else -100 * (n * 7 % 20))  # type: ignore[method-assign]
        shop.feed(KEYS)  # closes the windows of every partition
        shop.work()
        assert shop.ended() == shop.wanted()
    finally:
        shop.close()
