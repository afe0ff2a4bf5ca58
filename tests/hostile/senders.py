"""The two producers: a steady one of good records, and the attacker."""

import threading
import time
from collections import Counter
from random import Random
from typing import Any

from confluent_kafka import Producer

from tests.hostile.agents import ATTACKED, HALTS, PARTITIONS, agents, good
from tests.hostile.records import CODECS, LATER, Kind, kinds

Place = tuple[str, int, int]
"""Topic, partition and offset."""
WIDE = {"message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 1_000_000, "linger.ms": 5}


class Good:
    """A good record of each agent and partition in turn, so many a second. `sent` is when the broker had them."""

    def __init__(self, bootstrap: str, name: str, rate: float) -> None:
        self._producer: Any = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        places = [(agent, number) for agent in agents(name) for number in range(PARTITIONS)]
        self._places = [place for place in places if place != (HALTS, ATTACKED)]
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
    """Each kind of hostile record in each codec, so many a second, in an order that the seed chooses."""

    def __init__(self, bootstrap: str, name: str, rate: float, seed: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "log_level": 0, **WIDE}
        self._producers: dict[str, Any] = {codec: Producer({**settings, "compression.type": codec}) for codec in CODECS}
        self._name, self._pause, self._random = name, 1 / rate, Random(seed)
        self.sent: dict[bytes, tuple[str, str]] = {}
        """By key: the agent, and kind and codec."""
        self.places: dict[Place, bytes] = {}
        self.kinds: Counter[str] = Counter()

    def run(self, ended: threading.Event) -> None:
        assert LATER.isdisjoint(kind.name for kind in kinds())
        number = 0
        while True:
            turn = [(kind, codec) for kind in kinds() for codec in CODECS]
            self._random.shuffle(turn)
            for kind, codec in turn:
                if ended.wait(self._pause):
                    for producer in self._producers.values():
                        producer.flush(30)
                    return
                self._one(number, kind, codec)
                number += 1

    def _one(self, number: int, kind: Kind, codec: str) -> None:
        key, topic = b"hostile-%d" % number, f"{self._name}.{kind.agent}.in"
        value, headers = kind.make(self._random, codec)

        def delivered(error: Any, message: Any) -> None:
            if error is None:  # the broker refuses what is too large for it
                self.sent[key] = kind.agent, f"{kind.name}, {codec}"
                self.kinds[kind.name] += 1
                self.places[topic, ATTACKED, message.offset()] = key

        producer = self._producers[codec]
        producer.produce(topic, value, key, ATTACKED, delivered, headers=list(headers))
        producer.poll(0)
