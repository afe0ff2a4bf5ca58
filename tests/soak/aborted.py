"""Transactions that are never committed, among the load: nobody may see what was in them."""

import itertools
import json
import threading
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.chaos.feed import KEYS

PAUSE = 0.7  # seconds between two transactions


class Aborted:
    """Writes records with keys of the load and values below zero, and takes them back, from `start` to `stop`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aborted", daemon=True)
        self.count = 0  # transactions that were aborted with records in them

    def start(self) -> "Aborted":
        self._thread.start()
        return self

    def stop(self) -> None:
        """What is open is aborted when it returns."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(KafkaException):
                self._with_one_producer()
        for _ in range(3):
            with suppress(KafkaException):
                self._producer()
                return

    def _with_one_producer(self) -> None:
        """Until it is to end, or the broker fails: the next producer's first call aborts what this one left open."""
        producer = self._producer()
        while not self._ended.wait(PAUSE):
            producer.begin_transaction()
            for _ in range(5):
                number = next(self._numbers)
                producer.produce(
                    self._topic,
                    json.dumps({"v": -number}).encode(),
                    b"k%d" % (number % KEYS),
                    number % self._partitions,
                )
            if producer.flush(10):
                return
            producer.abort_transaction(10)
            self.count += 1

    def _producer(self) -> Any:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "transactional.id": f"{self._topic}.aborted",
            "transaction.timeout.ms": 10_000,
        }
        producer = Producer(settings | {"linger.ms": 1, "log_level": 0})
        producer.init_transactions(20)
        return producer
