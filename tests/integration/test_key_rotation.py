"""`sluicegate keys rotate` beside a run with traffic, on real stores: processes follow without a restart, every record
between the agents is proven, and each has one result."""

import json
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.versions import mac_keys
from sluicegate.streams.versions.mac_keys import SIGNS_AFTER, SWITCHED
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_proof import FILE
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
RATE = 40
"""Records a second."""


class Feed:
    """Records with numbers, until it is stopped."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._producer: Any = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
        self._topic, self._ended, self.sent = topic, threading.Event(), 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(1 / RATE):
            self._producer.produce(self._topic, b'{"n": %d}' % self.sent, b"k%d" % self.sent)
            self.sent += 1
            self._producer.poll(0)

    def close(self) -> int:
        self._ended.set()
        self._thread.join(20)
        assert self._producer.flush(30) == 0
        return self.sent


def keys(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([SLUICEGATE, "keys", *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(params=["redis_url", "postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.mark.timeout(400)
def test_running_workers_follow_a_new_key_and_no_record_is_refused(
    kafka: str, url: str, ns: str, tmp_path: Path
) -> None:
    create(kafka, *(f"{ns}-{name}" for name in ("in", "mid", "out", "dead")))
    path = tmp_path / "app.yaml"
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
    run = Run(SLUICEGATE, "run", str(path))
    between, results = reader(kafka, f"{ns}-mid"), reader(kafka, f"{ns}-out")
    try:
        run.wait("partition.claimed", 8, 120)
        first = only(url, ns)
        feed = Feed(kafka, f"{ns}-in")
        wait_until(lambda: feed.sent > 3 * RATE, 30, "records under the first key")
        began = time.monotonic()
        made = keys("rotate", str(path), "--keep", "1h", "--why", "as planned")
        assert (made.returncode, made.stdout.count("a new key signs from 20")) == (0, 1), made.stderr
        assert "the keys before it (1) prove until 20" in made.stdout
        listed = json.loads(keys("ls", str(path), "--json").stdout)["keys"]
        assert [letter["state"] for letter in listed] == ["waits", "signs"]
        wait_until(lambda: time.monotonic() > began + SIGNS_AFTER + SWITCHED, 150, "the new key signs everywhere")
        switched = feed.sent
        second = only(url, ns)
        wait_until(lambda: feed.sent > switched + 3 * RATE, 30, "records under the second key")
        check(between, results, feed.close(), switched, (first, second))
        assert not run.events("headers.refused")
        assert not run.events("worker.ended")
        assert [key["state"] for key in json.loads(keys("ls", str(path), "--json").stdout)["keys"]] == [
            "signs",
            "proves",
        ]
    finally:
        run.close()
        between.close()
        results.close()


def only(url: str, app: str) -> Mac:
    """The key that signs now, alone."""
    with closing(open_store(url)) as store:
        signing_keys = mac_keys.read(store, app)
    assert signing_keys is not None
    return Mac(app, signing_keys._keys[:1])


def check(between: Any, results: Any, sent: int, switched: int, signers: tuple[Mac, Mac]) -> None:
    """Each record between the agents is signed by one of the keys, the first by the one and the last by the other; each
    record has one result."""
    records = taken(between, sent)
    of_first, of_second = ({number(record) for record in records if mac.proves(record)} for mac in signers)
    assert of_first | of_second == set(range(sent))
    assert not of_first & of_second
    assert 0 in of_first
    assert max(of_first) < switched < sent
    assert sorted(map(number, taken(results, sent))) == list(range(sent))


def number(message: Any) -> int:
    return int(message.key()[1:])


def taken(consumer: Any, enough: int) -> list[Any]:
    """So many messages, and those that come within 2 s after."""
    text = list[Any]()

    def complete() -> bool:
        text.extend(consumer.consume(500, 0.5))
        return len(text) >= enough

    wait_until(complete, 120, f"{enough} messages")
    return [*text, *consumer.consume(500, 2.0)]
