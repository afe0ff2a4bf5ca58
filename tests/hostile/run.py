"""One attack: the app, its producers, a reader of all that comes out, and half-open connections to the port."""

import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import yaml
from confluent_kafka import Consumer, TopicPartition

from sluicegate.connectors import open_store
from tests.bench.processes import peak_mib
from tests.chaos.worker import Worker
from tests.conftest import create_topic
from tests.hostile.agents import HALTS, LIST, document, schemas, topics
from tests.hostile.senders import Attacker, Good
from tests.hostile.verdict import SAME, Verdict, judge

CONNECTIONS = 64


@dataclass
class Report:
    """What was sent, how it ended, and the verdict."""

    good: int
    hostile: int
    kinds: dict[str, int]
    letters: int
    halted: bool
    deaths: int
    peak: float
    verdict: Verdict


class Attack:
    """On a real broker and a real store of keys."""

    def __init__(self, folder: Path, bootstrap: str, store: str, name: str, rate: float, seed: int) -> None:
        self.folder, self.bootstrap, self.store, self.name = folder, bootstrap, store, name
        self.good, self.attacker = Good(bootstrap, name, rate), Attacker(bootstrap, name, 8.0, seed)
        self.results: dict[bytes, float] = {}
        self.ended: set[bytes] = set()
        self.letters = self.unanswered = 0
        self.memory: dict[int, float] = {}
        self._feeding, self._watching = threading.Event(), threading.Event()

    def run(self, seconds: float) -> Report:
        self._prepare()
        with ExitStack() as opened:
            worker = opened.enter_context(closing(Worker(self.folder / "app.yaml", "", self.name)))
            consumer = opened.enter_context(closing(self._consumer()))
            worker.wait("partition.claimed", count=24, timeout=90)
            senders = [self._thread(self.good.run, self._feeding), self._thread(self.attacker.run, self._feeding)]
            watch = self._thread(lambda ended: self._watch(worker, ended), self._watching)
            self._until(consumer, time.monotonic() + seconds, lambda: False)
            self._feeding.set()
            for each in senders:
                each.join(60)
            self._until(consumer, time.monotonic() + SAME, lambda: self._complete(worker))
            self._watching.set()
            watch.join(30)
            return self._report(worker)

    def _prepare(self) -> None:
        for topic, (partitions, settings) in topics(self.name).items():
            create_topic(self.bootstrap, topic, partitions, settings)
        schemas(self.folder)
        (self.folder / "app.yaml").write_text(yaml.safe_dump(document(self.name, self.bootstrap, self.store)))
        store = open_store(self.store)
        store.migrate()
        store.close()
        with closing(redis.Redis.from_url(self.store)) as client:
            client.hset("customer:ann", mapping={"name": "Ann"})
            client.delete(f"customer:{LIST}")
            client.lpush(f"customer:{LIST}", "x")

    def _thread(self, target: Callable[[threading.Event], None], ended: threading.Event) -> threading.Thread:
        thread = threading.Thread(target=target, args=(ended,), daemon=True)
        thread.start()
        return thread

    # -- what comes out ------------------------------------------------------------------------------------------------

    def _consumer(self) -> Any:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "log_level": 0})
        outputs = [topic for topic in topics(self.name) if not topic.endswith(".in")]
        consumer.assign([TopicPartition(topic, 0, 0) for topic in outputs])
        return consumer

    def _until(self, consumer: Any, deadline: float, complete: Callable[[], bool]) -> None:
        while time.monotonic() < deadline and not complete():
            for message in consumer.consume(1_000, 0.5):
                if message.error() is None:
                    self._take(message)

    def _take(self, message: Any) -> None:
        key = message.key()
        if message.topic().endswith("dead"):
            self.letters += 1
            headers = dict(message.headers() or ())
            topic, partition, offset = (headers[f"sluicegate-dead-{each}"] for each in ("topic", "partition", "offset"))
            key = self.attacker.places.get((topic.decode(), int(partition), int(offset)), key)
        elif key.startswith(b"good-"):
            self.results.setdefault(key, message.timestamp()[1] / 1000)
        if key is not None and key.startswith(b"hostile-"):
            self.ended.add(key)

    def _complete(self, worker: Worker) -> bool:
        missing = self.attacker.sent.keys() - self.ended
        left = [key for key in missing if self.attacker.sent[key][0] != HALTS or not self._halted(worker)]
        return not left and self.good.sent.keys() <= self.results.keys()

    def _halted(self, worker: Worker) -> bool:
        return any(HALTS in str(line.get("agent")) for line in worker.events("partition.halted"))

    # -- what is watched meanwhile -------------------------------------------------------------------------------------

    def _watch(self, worker: Worker, ended: threading.Event) -> None:
        """The memory of each process, and the answer of the probe beside half-open connections."""
        port = int(worker.wait("http.listening")[0]["port"])
        held: list[socket.socket] = []
        while not ended.wait(1.0):
            for pid in [worker.process.pid, *(line["pid"] for line in worker.events("worker.started"))]:
                with suppress(OSError, StopIteration):
                    self.memory[pid] = max(self.memory.get(pid, 0.0), peak_mib(pid))
            for each in held:
                each.close()
            with suppress(OSError):
                held = [socket.create_connection(("127.0.0.1", port), 2) for _ in range(CONNECTIONS)]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=10) as answer:
                    self.unanswered += answer.status != 200
            except OSError:
                self.unanswered += 1
        for each in held:
            each.close()

    def _report(self, worker: Worker) -> Report:
        halted = self._halted(worker)
        verdict = judge(
            self.good.sent, self.results, self.attacker.sent, self.ended, halted, self.memory, self.unanswered
        )
        return Report(
            good=len(self.good.sent),
            hostile=len(self.attacker.sent),
            kinds=dict(self.attacker.kinds),
            letters=self.letters,
            halted=halted,
            deaths=len(worker.events("worker.ended")),
            peak=max(self.memory.values(), default=0.0),
            verdict=verdict,
        )
