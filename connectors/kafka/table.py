"""Reads a topic from its first record on, in all its partitions, and follows it. It joins no group and commits
nothing."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import problems, settings
from sluicegate.connectors.kafka.admin import TIMEOUT, TopicDescription, described, open_admin, topic_of
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import SystemNotReady

MOST = 5_000  # records of one call
LOOK_EVERY = 15.0  # seconds between two looks whether the topic is still the same and has no more partitions


class KafkaTable:
    """Satisfies sluicegate.streams.contracts.stores.TableFeed."""

    def __init__(self, kafka: settings.Settings, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises SystemNotReady for a topic that does not exist, and ConfigurationError."""
        self._topic, self._clock, self._admin = topic, clock, open_admin(kafka)
        description = described(self._admin, [topic])[topic]
        if description is None:
            raise SystemNotReady(f"Kafka: there is no topic {topic}")
        self._description: TopicDescription = description
        self._next = dict.fromkeys(range(description.partitions), 0)
        self._unread = set(self._next)
        self._complaints = settings.Complaints()
        self._asked: Any = None
        self._look_at = clock() + LOOK_EVERY
        self._consumer: Any = problems.client(
            Consumer, settings.consumer(kafka, "sluicegate", "table", self._on_error, ends=True)
        )
        self._consumer.assign([Position(topic, number, OFFSET_BEGINNING) for number in self._next])

    @property
    def complete(self) -> bool:
        return not self._unread

    def take(self) -> Sequence[Record]:
        try:
            page = self._consumer.consume(MOST, 0)
        except KafkaException as error:
            raise problems.not_ready(f"reading {self._topic} failed", error) from error
        records = []
        for message in page:
            if message.error() is None:
                self._next[message.partition()] = message.offset() + 1
                records.append(message)
            else:
                self._sort(message)
        self._look()
        return records

    def lag(self) -> int:
        """As of the last fetch."""
        return sum(max(0, self._high(number) - next_) for number, next_ in self._next.items())

    def close(self) -> None:
        self._consumer.close()

    def _high(self, number: int) -> int:
        try:
            return int(self._consumer.get_watermark_offsets(Position(self._topic, number), cached=True)[1])
        except KafkaException:
            return 0

    def _sort(self, message: Any) -> None:
        """An end is noted, a passing error is logged. Any other error means that records were missed."""
        error, number = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            self._next[number] = message.offset()
            self._unread.discard(number)
        elif problems.halting(error) is not None or not problems.passes(error):
            raise problems.not_ready(f"reading {self._topic}/{number} failed", error)
        else:
            self._on_error(error)

    def _look(self) -> None:
        """Raises SystemNotReady when the topic was deleted, made anew, or has more partitions: a reader that goes on
        would miss rows. An answer that does not come is no reason."""
        now = self._clock()
        if self._asked is None and now >= self._look_at:
            names = TopicCollection([self._topic])
            self._asked = self._admin.describe_topics(names, request_timeout=TIMEOUT)[self._topic]
        if self._asked is None or not self._asked.done():
            return
        asked, self._asked, self._look_at = self._asked, None, now + LOOK_EVERY
        try:
            row = topic_of(asked.result())
        except KafkaException as error:
            if error.args[0].code() in problems.MISSING:
                raise problems.not_ready(f"reading {self._topic} failed", error) from error
            return
        if (row.id, row.partitions) != (self._description.id, self._description.partitions):
            raise SystemNotReady(f"Kafka: topic {self._topic} is another one, or has more partitions than before")

    def _on_error(self, error: Any) -> None:
        self._complaints.say(error, problems.said(error))
