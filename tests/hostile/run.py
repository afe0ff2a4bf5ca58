"""One attack: the app, its producers, a reader of all that comes out, and half-open connections to the port."""

import os
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import yaml
from confluent_kafka import Consumer, TopicPartition

from sluicegate.connectors import open_store
from tests.bench.processes import others_seconds, peak_mib
from tests.chaos.memory import MemoryGroup, Watcher
from tests.chaos.worker import Worker
from tests.conftest import create_topic
from tests.hostile.agents import LIST, UNPACKED, agents, claims, document, schemas, topics
from tests.hostile.counts import Counts
from tests.hostile.kinds import Kind
from tests.hostile.senders import Attacker, Good
from tests.hostile.verdict import MEMORY, SAME, Verdict, endless, judge
from tests.waiting import wait_until

CONNECTIONS = 64


@dataclass
class Plan:
    """How long, how many good records a second, what the attacker sends. `memory`: MiB of all processes of the agent
    UNPACKED together. `patience`: seconds in which the last records end. `without`: as in Worker."""

    seconds: float
    rate: float
    kinds: Sequence[Kind]
    seed: int
    memory: int = int(MEMORY) - 64
    patience: float = SAME
    without: str = ""


def logged(workers: Sequence[Worker], event: str) -> list[dict[str, Any]]:
    return [line for worker in workers for line in worker.events(event)]


def halted(workers: Sequence[Worker]) -> set[tuple[str, int]]:
    """Agents and partitions."""
    return {(str(line["agent"]), int(line["partition"])) for line in logged(workers, "partition.halted")}


@dataclass
class Report:
    """What was sent, how it ended, and the verdict. `others`: the share of the machine that other programs used."""

    good: int
    hostile: int
    kinds: dict[str, int]
    letters: int
    refused: dict[str, float]
    halted: set[tuple[str, int]]
    deaths: int
    memory: dict[str, float]
    others: float
    verdict: Verdict


class Attack:
    """On a real broker and a real store of keys."""

    def __init__(self, folder: Path, bootstrap: str, store: str, name: str, plan: Plan) -> None:
        self.folder, self.bootstrap, self.store, self.name, self.plan = folder, bootstrap, store, name, plan
        self.good = Good(bootstrap, name, plan.rate)
        self.attacker = Attacker(bootstrap, name, plan.kinds, plan.seed)
        self.results: dict[bytes, float] = {}
        self.ended: set[bytes] = set()
        self.letters = self.unanswered = 0
        self.memory: dict[str, float] = {}
        self.others = 0.0
        self.counts = Counts()
        self._feeding, self._watching = threading.Event(), threading.Event()

    def run(self) -> Report:
        self._prepare()
        with ExitStack() as opened:
            workers = [
                self._worker(opened, [agent for agent in agents(self.name) if agent != UNPACKED]),
                self._worker(opened, [UNPACKED], bounded=True),
            ]
            consumer = opened.enter_context(closing(self._consumer()))
            wait_until(lambda: len(logged(workers, "partition.claimed")) >= claims(), 120, "all claims")
            senders = [self._thread(self.good.run, self._feeding), self._thread(self.attacker.run, self._feeding)]
            watch = self._thread(lambda ended: self._watch(workers, ended), self._watching)
            begin, others = time.monotonic(), others_seconds()
            self._until(consumer, begin + self.plan.seconds, lambda: False)
            self.others = (others_seconds() - others) / (time.monotonic() - begin) / (os.cpu_count() or 1)
            self._feeding.set()
            for sender in senders:
                sender.join(60)
            self._until(consumer, time.monotonic() + self.plan.patience, lambda: self._complete(workers))
            self._watching.set()
            watch.join(30)
            return self._report(workers)

    def _worker(self, opened: ExitStack, agents: Sequence[str], bounded: bool = False) -> Worker:
        """One `run` of these agents. `bounded`: the kernel, or a thread, ends what takes too much memory."""
        options = [option for agent in agents for option in ("--agent", agent)]
        name, enter = f"{self.name}-{len(agents)}", lambda: None
        group: MemoryGroup | None = None
        if bounded:
            with suppress(OSError):
                group = opened.enter_context(closing(MemoryGroup(f"{self.name}-{os.getpid()}", self.plan.memory << 20)))
                enter = group.join
        worker = Worker(self.folder / "app.yaml", "", name, without=self.plan.without, enter=enter, options=options)
        opened.enter_context(closing(worker))
        if bounded and group is None:
            opened.enter_context(closing(Watcher(worker.process.pid, self.plan.memory)))
        return worker

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
        outputs = [topic for topic in topics(self.name) if not topic.endswith((".in", ".by"))]
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
            topic, partition, offset = (headers[f"sluicegate-dead-{name}"] for name in ("topic", "partition", "offset"))
            key = self.attacker.places.get((topic.decode(), int(partition), int(offset)), key)
        elif key.startswith(b"good-"):
            self.results.setdefault(key, message.timestamp()[1] / 1000)
        if key is not None and key.startswith(b"hostile-"):
            self.ended.add(key)

    def _complete(self, workers: Sequence[Worker]) -> bool:
        waiting = endless(self.attacker.sent, self.ended, halted(workers), self.counts)
        return not waiting and self.good.sent.keys() <= self.results.keys()

    # -- what is watched meanwhile -------------------------------------------------------------------------------------

    def _watch(self, workers: Sequence[Worker], ended: threading.Event) -> None:
        """The memory of each process, and the answer of the probe beside half-open connections."""
        port = int(workers[0].wait("http.listening")[0]["port"])
        sockets: list[socket.socket] = []
        while not ended.wait(1.0):
            processes = {int(line["pid"]): str(line["agent"]) for line in logged(workers, "worker.started")}
            for pid, name in {**processes, **{worker.process.pid: "supervisor" for worker in workers}}.items():
                with suppress(OSError, StopIteration):
                    self.memory[name] = max(self.memory.get(name, 0.0), peak_mib(pid))
            for item in sockets:
                item.close()
            with suppress(OSError):
                sockets = [socket.create_connection(("127.0.0.1", port), 2) for _ in range(CONNECTIONS)]
            try:
                self._ask(port, "livez")
                self.counts.read(self._ask(port, "metrics"), time.time())
            except OSError:
                self.unanswered += 1
        for item in sockets:
            item.close()

    def _ask(self, port: int, path: str) -> str:
        """Raises OSError where it is not answered in time, or not well."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def _report(self, workers: Sequence[Worker]) -> Report:
        stands = halted(workers)
        verdict = judge(
            self.good.sent,
            self.results,
            self.attacker.sent,
            self.ended,
            stands,
            self.counts,
            self.memory,
            self.unanswered,
        )
        return Report(
            good=len(self.good.sent),
            hostile=len(self.attacker.sent),
            kinds=dict(self.attacker.kinds),
            letters=self.letters,
            refused=dict(self.counts.refused),
            halted=stands,
            deaths=len(logged(workers, "worker.ended")),
            memory={name: round(size) for name, size in self.memory.items()},
            others=round(self.others, 2),
            verdict=verdict,
        )
