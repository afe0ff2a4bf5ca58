"""Feeds a topic no faster than a group reads it, because the embedded broker drops old records of a long partition."""

import time
from array import array
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from sluicegate.connectors.kafka import problems, settings
from sluicegate.streams.errors import SystemNotReady

OVERHEAD = 32  # bytes of a record besides key and value, rounded up
LOOK_EVERY = 0.02
COMPARE_EVERY = 0.25


class Feed:
    """Writes records to explicit partitions of an empty topic, at most `window` bytes ahead of the group's offset.

    Raises SystemNotReady when offsets are not in the order of `send`, when the low offset of a partition passes the
    group's offset, and when Kafka fails.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, group: str, window: int) -> None:
        self._topic, self._window = topic, window
        self._ends = [array("Q", [0]) for _ in range(partitions)]  # bytes up to each offset
        self._delivered = [0] * partitions
        self._committed = [0] * partitions
        self._looked = self._compared = float("-inf")
        self._wrong = ""
        kafka: settings.Settings = {"bootstrap.servers": bootstrap, "linger.ms": 5}
        self._producer: Any = Producer(settings.producer(kafka, self._on_error))
        self._consumer: Any = Consumer(
            settings.consumer({"bootstrap.servers": bootstrap}, group, "feed", self._on_error)
        )

    def send(self, partition: int, key: bytes, value: bytes) -> bool:
        """Hand over a record. False: try again later, the group is too far behind or the queue is full."""
        ends = self._ends[partition]
        if ends[-1] - ends[self._committed[partition]] > self._window:
            return False
        try:
            self._producer.produce(self._topic, value, key, partition, self._on_delivery)
        except BufferError:
            return False
        ends.append(ends[-1] + len(key) + len(value) + OVERHEAD)
        return True

    def turn(self) -> int:
        """Serves reports and reads the group's offsets. Returns the total number of records that the group has
        committed."""
        self._producer.poll(0)
        now = time.monotonic()
        if now - self._looked >= LOOK_EVERY:
            self._looked = now
            self._look()
        if now - self._compared >= COMPARE_EVERY:
            self._compared = now
            self._compare()
        if self._wrong:
            raise SystemNotReady(self._wrong)
        return sum(self._committed)

    def delivered(self) -> int:
        return sum(self._delivered)

    def close(self) -> None:
        self._producer.flush(5)
        self._consumer.close()

    def _look(self) -> None:
        places = [TopicPartition(self._topic, number) for number in range(len(self._ends))]
        try:
            for place in self._consumer.committed(places, timeout=5):
                self._committed[place.partition] = max(self._committed[place.partition], place.offset)
        except KafkaException as error:
            raise problems.not_ready("asking where the group is failed", error) from error

    def _compare(self) -> None:
        for number, committed in enumerate(self._committed):
            place = TopicPartition(self._topic, number)
            try:
                low, _ = self._consumer.get_watermark_offsets(place, timeout=5, cached=False)
            except KafkaException as error:
                raise problems.not_ready("asking for the low offset failed", error) from error
            if low > committed:
                self._look()  # the group's offset may have moved since
                if low > self._committed[number]:
                    self._wrong = (
                        f"the broker dropped records of {self._topic}/{number} below {low}, the group is at {committed}"
                    )

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._wrong = self._wrong or f"feeding {self._topic} failed: {problems.error_text(error)}"
            return
        number = message.partition()
        if message.offset() != self._delivered[number]:
            self._wrong = self._wrong or f"{self._topic}/{number} has other records than ours"
        self._delivered[number] += 1

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self._wrong = problems.error_text(error)
