"""The two producers: a steady one of good records, and the attacker."""

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.hostile.agents import ATTACKED, FORGED, PARTITIONS, STANDS, agents, good
from tests.hostile.kinds import CODECS, SIZE, Headers, Kind, Turn

Place = tuple[str, int, int]
"""Topic, partition and offset."""
WIDE = {"message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 1_000_000, "log_level": 0}
SINGLES, BATCHES = 8.0, 0.5
"""Sends a second, at most."""
UNPACKED_BYTES = 20e6
"""What batches unpack to in a second. Two cores make dead letters of about 30 MB a second of one partition. More than
that is load (docs/attacker.md)."""
NICE = 15
"""An attacker compresses on another machine, so here it takes the time that the worker and the broker leave. The
clients' threads inherit it (Linux)."""
ONE_BATCH = {"linger.ms": 60_000, "batch.size": 2_000_000_000}


class Hostile(NamedTuple):
    """A record that the broker has, since `at`, in seconds of this machine."""

    agent: str
    partition: int
    kind: str
    at: float


class Good:
    """A good record of each agent and partition in turn, so many a second. `sent` is when the broker had them."""

    def __init__(self, bootstrap: str, name: str, rate: float) -> None:
        self._producer: Any = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        places = [(agent, number) for agent in agents(name) for number in range(PARTITIONS)]
        self._places = [place for place in places if place not in STANDS]
        self._name, self._rate = name, rate
        self.sent: dict[bytes, tuple[str, int, float]] = {}
        """By key: the agent, the partition, and the broker's time in seconds."""

    def run(self, ended: threading.Event) -> None:
        began, number = time.monotonic(), 0
        while not ended.wait(0.05):
            while number < (time.monotonic() - began) * self._rate:
                self._one(number)
                number += 1
            self._producer.poll(0)
        self._producer.flush(30)

    def _one(self, number: int) -> None:
        agent, partition = self._places[number % len(self._places)]
        key = b"good-%d" % number

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.sent[key] = agent, partition, message.timestamp()[1] / 1000

        self._producer.produce(f"{self._name}.{agent}.in", good(agent, number), key, partition, delivered)


class Attacker:
    """Each kind of hostile record in each of its codecs, in an order that the seed chooses: single records and batches
    beside one another, so many a second."""

    def __init__(self, bootstrap: str, name: str, kinds: Sequence[Kind], seed: int) -> None:
        self._bootstrap, self._name, self._random = bootstrap, name, Random(seed)
        sends = [(kind, codec) for kind in kinds for codec in kind.batch]
        self._once = [send for send in sends if send[0].once]
        self._singles = [(kind, codec) for kind, codec in sends if not kind.once and kind.batch[codec] == 1]
        self._batches = [(kind, codec) for kind, codec in sends if kind.batch[codec] > 1]
        self._producers: dict[str, Any] = {}
        self._seen: Headers = ()
        self._numbers = count()
        self.sent: dict[bytes, Hostile] = {}
        self.places: dict[Place, bytes] = {}
        self.kinds: Counter[str] = Counter()

    def _producer(self, codec: str, more: dict[str, Any]) -> Any:
        return Producer({"bootstrap.servers": self._bootstrap, "compression.type": codec, **WIDE, **more})

    def run(self, ended: threading.Event) -> None:
        """In a thread of its own."""
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        self._producers = {codec: self._producer(codec, {"linger.ms": 5}) for codec in CODECS}
        threads = [threading.Thread(target=self._send, args=send) for send in self._once]
        threads.append(threading.Thread(target=self._turns, args=(self._batches, BATCHES, ended)))
        for thread in threads:
            thread.start()
        self._turns(self._singles, SINGLES, ended)
        for thread in threads:
            thread.join()
        for producer in self._producers.values():
            producer.flush(30)

    def _turns(self, sends: Sequence[tuple[Kind, str]], rate: float, ended: threading.Event) -> None:
        turn = list(sends)
        with closing(self._reader()) as reader:
            while not ended.is_set():
                self._random.shuffle(turn)
                for kind, codec in turn:
                    if ended.wait(max(1 / rate, (kind.batch[codec] - 1) * SIZE / UNPACKED_BYTES)):
                        break
                    self._read(reader)
                    self._send(kind, codec)

    def _reader(self) -> Any:
        reader = Consumer({"bootstrap.servers": self._bootstrap, "group.id": f"{self._name}-attacker", "log_level": 0})
        reader.assign([TopicPartition(f"{self._name}.{FORGED}.by", ATTACKED, 0)])
        return reader

    def _read(self, reader: Any) -> None:
        """The newest record of the internal topic that the attacker did not write."""
        for message in reader.consume(1_000, 0.0):
            if message.error() is None and (message.key() or b"").startswith(b"good-"):
                self._seen = message.headers() or ()

    def _send(self, kind: Kind, codec: str) -> None:
        turn = Turn(self._random, codec, self._name, self._seen)
        records = kind.batch[codec]
        alone = kind.once or records > 1
        producer = self._producer(codec, ONE_BATCH) if alone else self._producers[codec]
        for _ in range(records):
            self._one(producer, kind, turn)
        if alone:
            producer.flush(60)
        producer.poll(0)

    def _one(self, producer: Any, kind: Kind, turn: Turn) -> None:
        key, topic = b"hostile-%d" % next(self._numbers), f"{self._name}.{kind.agent}.{kind.topic}"
        value, headers = kind.make(turn)

        def delivered(error: Any, message: Any) -> None:
            if error is None:  # the broker refuses what is too large for it
                self.sent[key] = Hostile(kind.agent, kind.partition, f"{kind.name}, {turn.codec}", time.time())
                self.kinds[kind.name] += 1
                self.places[topic, kind.partition, message.offset()] = key

        producer.produce(topic, value, key, kind.partition, delivered, headers=list(headers))
