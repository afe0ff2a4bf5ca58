"""Without a crash, a takeover or a fault of a server, each row is in its topic once: whatever ends owners in a living
process.

Over a real broker and the product's own `run`, on every store: handlers that raise, with and without a session, bad
items, outages, transactions that the store refuses, and an operator whose command claims the partition.
"""

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from sluicegate.connectors import open_store
from tests.chaos.record import Seen
from tests.chaos.tap import Tap
from tests.integration.once_handlers import failing
from tests.integration.supervised.run import Run, patch_processes
from tests.waiting import wait_until

STORES = {"redis": "redis_url", "postgresql": "postgres_url", "mariadb": "mariadb_url", "mongodb": "mongodb_url"}
RATES = (0, 10, 50)
RECORDS, PARTITIONS, KEYS = 200, 2, 10
COMMAND = str(Path(sys.executable).with_name("sluicegate"))
BUFFERED = {"aggregate": {"count": 4, "timeout": {"after": "1s"}, "compute": {"all": "collect"}}}
CONTENDED = {"handler": "contended", "session": True}
THREE_ATTEMPTS = {"handler": "send", "attempts": 3}  # the last one follows the one before it in the same commit
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"handler": "send"},
    "session": {"handler": "send", "session": True},
    "outage": {"handler": "away"},
    "refused": {"handler": "refused", "session": True},
    "bad-items": {"handler": "groups", **BUFFERED},
    "fired": BUFFERED,
}


class App:
    """An agent for each rate over one topic; each has its own topics for results and dead letters."""

    def __init__(
        self, agent: dict[str, Any], name: str, folder: Path, bootstrap: str, store: str, records: int
    ) -> None:
        self.given, self.name, self.bootstrap, self.file, self.records = (
            agent,
            name,
            bootstrap,
            folder / "app.yaml",
            records,
        )
        shutil.copy(Path(__file__).with_name("once_handlers.py"), folder / "once_handlers.py")
        self.tap = Tap(bootstrap, [f"{name}.{text}{rate}" for text in ("out", "dead") for rate in RATES])
        document = {
            "app": name,
            "kafka": {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000},
            "store": store,
            "http": {"port": 0},
            "outbox": False,
            "timeouts": False,
            "agents": {f"agent{rate}": self._agent(rate) for rate in RATES},
        }
        self.file.write_text(yaml.safe_dump(document))

    def _agent(self, rate: int) -> dict[str, Any]:
        settings = dict(self.given)
        if "handler" in settings:
            retry = {"attempts": settings.pop("attempts", 2), "backoff": "20ms..50ms"}
            settings |= {"handler": f"once_handlers:{settings['handler']}_{rate}", "retry": retry}
        return settings | {
            "from": f"{self.name}.in",
            "to": {"topic": f"{self.name}.out{rate}"},
            "dead_letters": f"{self.name}.dead{rate}",
        }

    def feed(self, first: int, count: int, pause: float = 0.0) -> None:
        """`pause`: so many seconds after each twenty records."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(first, first + count):
            producer.produce(f"{self.name}.in", json.dumps({"n": number}), f"k{number % KEYS}", number % PARTITIONS)
            if pause and number % 20 == 0:
                time.sleep(pause)
        assert producer.flush(20) == 0

    def run(self) -> Run:
        return Run(COMMAND, "run", str(self.file))

    def numbers(self, topic: str) -> Counter[int]:
        """The input records that the outputs in this topic, each once, are made of."""
        counts: Counter[int] = Counter()
        for message in {message.id: message for message in self.tap.seen(topic)}.values():
            value = json.loads(message.value or b"null")
            counts.update(number["n"] for number in value.get("all", [value]))
        return counts

    def done(self) -> bool:
        self.tap.draw(0.1)
        return all(self.outcomes(rate).total() >= self.records for rate in RATES)

    def outcomes(self, rate: int) -> Counter[int]:
        return self.numbers(f"{self.name}.out{rate}") + self.numbers(f"{self.name}.dead{rate}")

    def copies(self) -> dict[str, tuple[int, int, int]]:
        """Of each topic: its records, and how many are left without repeats by number, and by id; only where they
        differ."""
        self.tap.finish()
        results = {}
        for topic in (f"{self.name}.{name}{rate}" for name in ("out", "dead") for rate in RATES):
            seen: list[Seen] = self.tap.seen(topic)
            counts = len(seen), len({record.number for record in seen}), len({record.id for record in seen})
            if len(set(counts)) > 1:
                results[topic] = counts
        return results

    def fire(self, rate: int, number: int) -> None:
        """As an operator does; the group may have ended meanwhile."""
        command = [COMMAND, "groups", "fire", str(self.file), f"agent{rate}", f"k{number % KEYS}", "--json"]
        subprocess.run(command, capture_output=True, timeout=60, check=False)


@pytest.fixture
def made(
    request: pytest.FixtureRequest, tmp_path: Path, ns: str, kafka: str, make_topic: Callable[..., str]
) -> Iterator[Any]:
    apps: list[App] = []

    def make(kind: str, store: str, records: int = RECORDS) -> App:
        make_topic(f"{ns}.in", PARTITIONS)
        for rate in RATES:
            make_topic(f"{ns}.out{rate}", PARTITIONS)
            make_topic(f"{ns}.dead{rate}")
        url = f"sqlite:///{tmp_path}/state.db" if store == "sqlite" else str(request.getfixturevalue(STORES[store]))
        opened = open_store(url)
        opened.migrate()
        opened.close()
        agents = {**KINDS, "contended": CONTENDED, "three-attempts": THREE_ATTEMPTS}
        apps.append(App(agents[kind], ns, tmp_path, kafka, url, records))
        return apps[-1]

    yield make
    for app in apps:
        app.tap.close()


def whole(app: App, meanwhile: Callable[[], None] = lambda: None) -> Run:
    """Run it over all records, and stop it."""
    half = app.records // 2
    app.feed(0, half)
    run = app.run()
    try:
        meanwhile()
        app.feed(half, app.records - half)
        with suppress(TimeoutError):
            wait_until(app.done, 90, "an outcome of every record", pause=0)
        run.signal(SIGTERM)
        assert run.exit_code(60) == 0
    finally:
        run.close()
    return run


@pytest.mark.parametrize("store", ["sqlite", *STORES])
@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_written_twice(made: Callable[..., App], kind: str, store: str) -> None:
    app = made(kind, store)

    def fired() -> None:
        for number in range(6):
            app.fire(RATES[number % 3], number)

    whole(app, fired if kind == "fired" else lambda: None)
    assert app.copies() == {}
    for rate in RATES:
        assert app.outcomes(rate) == Counter(range(RECORDS)), f"at {rate} %"
    if "handler" in KINDS[kind] and kind != "refused":
        for rate in RATES:
            assert set(app.numbers(f"{app.name}.dead{rate}")) == {n for n in range(RECORDS) if failing(n, rate)}


def test_sessions_that_conflict_write_no_row_twice(made: Callable[..., App]) -> None:
    """Three agents write the same documents: the server ends transactions with WriteConflict all the time."""
    app = made("contended", "mongodb", 1_000)
    whole(app)
    assert app.copies() == {}
    for rate in RATES:
        assert app.outcomes(rate) == Counter(range(app.records)), f"at {rate} %"


def test_much_more_of_it_is_written_once_too(made: Callable[..., App]) -> None:
    """Without a kill, at three rates of failing messages: some seconds of full load."""
    app = made("plain", "redis", 20_000)
    whole(app)
    assert app.copies() == {}
    for rate in RATES:
        assert app.outcomes(rate) == Counter(range(app.records)), f"at {rate} %"


ENDS = """
from sluicegate.streams.ownership.owner import Owner

def ends(self, items, error):
    raise error

Owner._hold = ends
"""
NO_HAND_OVER = """
from sluicegate.streams.engine.worker import Worker
Worker._finish = lambda self, places: None
"""
FORGETS = """
from sluicegate.streams.outbox.relay import Shard
Shard.follow = lambda self, last: None
"""


@pytest.mark.parametrize(
    ("patched", "once"), [(ENDS, True), (ENDS + FORGETS, False)], ids=["owners end", "and nothing is remembered"]
)
def test_if_every_failed_call_ended_its_owner(
    made: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patched: str, once: bool
) -> None:
    """Then what the relay remembers is all that is between the rows and their copies."""
    patch_processes(tmp_path, monkeypatch, patched)
    app = made("three-attempts", "redis")
    whole(app)
    assert (app.copies() == {}) is once


def come_and_go(app: App, times: int) -> None:
    """Under load a second `run` of the file joins its groups, takes over partitions, and is stopped, again and again.
    The number of records is as many as were sent until then."""
    ended = threading.Event()

    def load() -> None:
        app.records = 0
        while not ended.is_set():
            app.feed(app.records, 100, pause=0.1)
            app.records += 100

    run = app.run()
    try:
        run.wait("partition.claimed", 2 * len(RATES), 60.0)
        feeder = threading.Thread(target=load)
        feeder.start()
        for _ in range(times):
            guest = app.run()
            guest.wait("partition.claimed", len(RATES), 60.0)
            guest.signal(SIGTERM)
            assert guest.exit_code(60) == 0
            guest.close()
        ended.set()
        feeder.join()
        wait_until(app.done, 90, "an outcome of every record", pause=0)
        run.signal(SIGTERM)
        assert run.exit_code(60) == 0
    finally:
        ended.set()
        run.close()


@pytest.mark.parametrize(
    ("patched", "times", "once"), [("", 2, True), (NO_HAND_OVER, 6, False)], ids=["", "twin: nothing is handed over"]
)
def test_workers_that_join_and_leave_write_no_row_twice(
    made: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patched: str, times: int, once: bool
) -> None:
    """The twin has more rounds: a round in which no row was on its way when the partitions moved shows nothing."""
    patch_processes(tmp_path, monkeypatch, patched)
    app = made("plain", "redis")
    come_and_go(app, times)
    assert (app.copies() == {}) is once
    for rate in RATES:
        assert app.outcomes(rate) == Counter(range(app.records)), f"at {rate} %"
