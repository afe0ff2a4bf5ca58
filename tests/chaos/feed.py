"""The load: records that come steadily while everything else happens, some of them bad."""

import json
import threading
from typing import Any

from confluent_kafka import Producer

KEYS = 10  # that complete by their count
SLOW = 16  # one record in so many has a key that never does
PIECE, PAUSE = 10, 0.04  # records at once, seconds between
AGAIN = 120  # records after which a forgetful producer writes one again


class Feed:
    """Produces to a topic from `start` to `stop`; keys stay in their partitions. When it `repeats` it writes each
    record twice, some at once and the others AGAIN records later, and names them in the header `message-id`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, pause: float = PAUSE) -> None:
        self._topic, self._partitions, self._pause = topic, partitions, pause
        self._producer: Any = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "log_level": 0})
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.sent = 0
        self.repeats = False
        self.spread = False  # the records of a key go to all partitions

    def start(self) -> "Feed":
        self._thread.start()
        return self

    def send(self, count: int) -> None:
        """So many records at once, and all of them in the log when it returns."""
        self._piece(count)
        assert self._producer.flush(30) == 0

    def one(self, key: bytes, value: bytes, partition: int) -> None:
        """This record, now, between whatever else is sent."""
        self._producer.produce(self._topic, value, key, partition)
        assert self._producer.flush(30) == 0

    def stop(self) -> None:
        """Everything sent is in the log when it returns."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        for number in range(max(0, self.sent - AGAIN), self.sent) if self.repeats else ():
            self._write(number)
        self.repeats = False
        assert self._producer.flush(180) == 0  # brokers may still be starting

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            self._piece(PIECE)
            self._producer.poll(0)

    def _piece(self, count: int) -> None:
        with self._lock:
            for number in range(self.sent, self.sent + count):
                self._write(number)
                if self.repeats and number % 3 == 0:
                    self._write(number)
                if self.repeats and number >= AGAIN:
                    self._write(number - AGAIN)
            self.sent += count

    def _write(self, number: int) -> None:
        key, value, partition = record(number)
        partition = number if self.spread else partition
        headers = [("message-id", b"%d" % number)] if self.repeats else None
        self._producer.produce(self._topic, value, key, partition % self._partitions, headers=headers)


def record(number: int) -> tuple[bytes | None, bytes | None, int]:
    """Key, value, and a number that its partition follows from; about one in fifty is bad, in one of four ways. The
    values tell any two sets of records apart."""
    source = number % KEYS
    key = b"k%d" % source
    value = json.dumps({"v": 7**11 * number % 999_999_937, "n": number}).encode()
    if number % SLOW == SLOW - 1:
        source = number // SLOW % 60
        return b"slow%d" % source, value, source
    bad: dict[int, tuple[bytes | None, bytes | None]] = {
        17: (key, b"{no json"),
        68: (None, value),
        120: (key, None),
        170: (key, b'{"v": "text"}'),
    }
    return *bad.get(number % 204, (key, value)), source
