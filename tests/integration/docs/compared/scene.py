"""The program of a page and our file of the same page, on the same records of a real Kafka."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.load import PARTITIONS, create
from tests.chaos.worker import COMMAND
from tests.integration.docs.compared import pages
from tests.integration.supervised.run import Run
from tests.servers.process import die_with_parent
from tests.waiting import wait_until

SOON = 90.0
TOPICS = ("orders", "baskets", "entered", "our-baskets", "our-entered", "shop.dead")


class Result(NamedTuple):
    """A record of a topic of results, and when it was written, in milliseconds."""

    key: str
    value: Mapping[str, Any]
    at: int


class Scene:
    """Topics of a test's own, and processes that end with it. All orders are in one partition."""

    def __init__(self, kafka: str, ns: str, folder: Path) -> None:
        self.kafka, self.ns, self.folder = kafka, ns, folder
        create(kafka, *map(self.named, TOPICS))
        self._results: dict[str, list[Result]] = {}
        self._consumers: dict[str, Consumer] = {}
        self._running: list[subprocess.Popen[bytes]] = []
        self._opened = ExitStack()

    def close(self) -> None:
        """What is printed is seen when a test fails."""
        self._opened.close()
        for log in self.folder.glob("*.log"):
            print(log.name, *log.read_text(errors="replace").splitlines()[-25:], sep="\n")

    def named(self, topic: str) -> str:
        return f"{self.ns}-{topic}"

    def send(self, key: str, value: Any, times: int = 1, at: int = 0) -> None:
        """`at`: the time of the records, in milliseconds."""
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for _ in range(times):
            producer.produce(self.named("orders"), json.dumps(value), key, partition=0, timestamp=at)
        assert producer.flush(30) == 0

    def run_ours(self, page: str, handler: str = "") -> None:
        """`sluicegate run` of the file of the page, with this function in place of the handler."""
        folder = self.folder / "ours"
        folder.mkdir()
        for name, text in pages.programs(page).items():
            (folder / name).write_text(text, encoding="utf-8")
        text = pages.ours(page, self.ns, self.kafka, folder)
        (folder / "shop.yaml").write_text(text.replace("shop:enter", handler or "shop:enter"), encoding="utf-8")
        run = Run(str(COMMAND), "run", str(folder / "shop.yaml"))
        self._opened.callback(lambda: print(*run.lines[-25:], *run.noise[-25:], sep="\n"))
        self._opened.callback(run.close)

    def write(self, page: str, name: str, more: str = "", redis: str = "") -> None:
        """The program of this name of the page, and what the page leaves to its reader."""
        text = pages.theirs(pages.programs(page)[name], self.ns, self.kafka, redis)
        (self.folder / name).write_text(text + more, encoding="utf-8")

    def run(self, name: str, *command: str | Path) -> None:
        """Nothing of this environment's own Python is seen by the process."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        log = self._opened.enter_context((self.folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [*map(str, command)],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        self._running.append(process)
        self._opened.callback(_end, process)

    def results(self, topic: str, number: int) -> list[Result]:
        """The records of this topic, when there are so many."""
        wait_until(lambda: self._read(topic, 0.2) >= number, SOON, f"{number} records of {topic}")
        return self._results[topic]

    def quiet(self, topic: str, seconds: float) -> None:
        """No record of this topic comes for so long."""
        before = self._read(topic, 0.0)
        assert self._read(topic, seconds) == before, self._results[topic]

    def _read(self, topic: str, seconds: float) -> int:
        """How many records were read, after one more was awaited."""
        assert not any(process.poll() for process in self._running), "a program failed"
        results = self._results.setdefault(topic, [])
        record = self._consumer(topic).poll(seconds)
        if record is not None and record.error() is None:
            results.append(Result(record.key().decode(), json.loads(record.value()), record.timestamp()[1]))
        return len(results)

    def _consumer(self, topic: str) -> Consumer:
        if topic not in self._consumers:
            consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.ns})
            consumer.assign([TopicPartition(self.named(topic), number, 0) for number in range(PARTITIONS)])
            self._consumers[topic] = consumer
            self._opened.callback(consumer.close)
        return self._consumers[topic]


def _end(process: subprocess.Popen[bytes]) -> None:
    """With the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
