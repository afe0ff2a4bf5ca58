"""Reads whole topics from their first record on, and notices any missing record."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sluicegate.connectors.kafka import problems, settings
from sluicegate.streams.errors import SystemNotReady


class TailReader(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Tail:
    """Reads every record of these topics once. Offsets must be 0, 1, 2 ... in each partition. A gap, as after records
    that the broker dropped, raises SystemNotReady."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        """`topics` maps names to numbers of partitions."""
        kafka: settings.Settings = {"bootstrap.servers": bootstrap}
        self._next = {(topic, number): 0 for topic, partitions in topics.items() for number in range(partitions)}
        self._consumer: Any = Consumer(settings.consumer(kafka, "tail", "tail", lambda _error: None))
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in self._next])

    def take(self, timeout: float = 0.0) -> list[TailReader]:
        """The records since the last call; waits up to `timeout` seconds for the first one."""
        first = self._consumer.poll(timeout)
        messages = [] if first is None else [first, *self._consumer.consume(10_000, 0)]
        return [self._read(message) for message in messages if self._is_record(message)]

    def at_the_end(self) -> bool:
        """Whether every record that is in the topics now was taken. Raises SystemNotReady."""
        try:
            return all(
                self._consumer.get_watermark_offsets(TopicPartition(*at), timeout=5)[1] == next_
                for at, next_ in self._next.items()
            )
        except KafkaException as error:
            raise problems.not_ready("asking for the end of a topic failed", error) from error

    def close(self) -> None:
        self._consumer.close()

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if problems.is_transient(error) and error.code() != KafkaError._AUTO_OFFSET_RESET:
            return False
        raise problems.not_ready(f"reading {message.topic()}/{message.partition()} failed", error)

    def _read(self, message: Any) -> TailReader:
        topic, number, offset = message.topic(), message.partition(), message.offset()
        if offset != self._next[topic, number]:
            raise SystemNotReady(
                f"{topic}/{number} goes from offset {self._next[topic, number] - 1} to {offset}: records were dropped"
            )
        self._next[topic, number] = offset + 1
        return TailReader(topic, number, offset, message.key(), message.value(), message.headers() or [])
