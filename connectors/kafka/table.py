"""Reads a topic from its first record on, in all its partitions, and follows it. It joins no group and commits
nothing.

A process of its own reads the topic first. A batch that is larger than the memory when it is unpacked would end this
one before it claims a partition, and again after each restart: no row of the store tells the next process of it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import problems, settings
from sluicegate.connectors.kafka.admin import TIMEOUT, TopicDescription, described, open_admin, topic_of
from sluicegate.connectors.kafka.probe import ApartSource, KafkaProbe, table_fetchable
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import SystemNotReady

log = logging.getLogger("sluicegate.connectors.kafka")
MOST = 5_000  # records of one call
GROUP = "sluicegate"  # it is in no request
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
        self._wanted = settings.consumer(kafka, GROUP, "table", self._on_error, ends=True)
        self._consumer: Any = None
        self._probe = KafkaProbe(
            ApartSource(kafka, GROUP, (topic, description.partitions)), OFFSET_BEGINNING, table_fetchable
        )

    @property
    def complete(self) -> bool:
        return not self._unread

    def take(self) -> Sequence[Record]:
        if self._consumer is None and not self._begin():
            return []
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
                self._take_error(message)
        self._look()
        return records

    def lag(self) -> int:
        """As of the last fetch."""
        if self._consumer is None:
            return 0
        return sum(max(0, self._high(number) - next_) for number, next_ in self._next.items())

    def close(self) -> None:
        self._probe.close()
        if self._consumer is not None:
            self._consumer.close()

    def _begin(self) -> bool:
        """Whether this process may read the topic now. Raises SystemNotReady if it would end of it."""
        fetchable = self._probe.result()
        if fetchable is None:
            return False
        if fetchable.why:
            raise SystemNotReady(
                f"unfetchable: topic {self._topic} cannot be read beyond {fetchable.until:,} records: {fetchable.why}; "
                "unpacked, a batch may be larger than the memory: give the worker more"
            )
        if fetchable.failure:
            log.warning("%s is read without a process that reads it first: %s", self._topic, fetchable.failure)
        self._consumer = problems.client(Consumer, self._wanted)
        self._consumer.assign([Position(self._topic, number, OFFSET_BEGINNING) for number in self._next])
        return True

    def _high(self, number: int) -> int:
        try:
            return int(self._consumer.get_watermark_offsets(Position(self._topic, number), cached=True)[1])
        except KafkaException:
            return 0

    def _take_error(self, message: Any) -> None:
        """An end is noted, a passing error is logged. Any other error means that records were missed."""
        error, number = message.error(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            self._next[number] = message.offset()
            self._unread.discard(number)
        elif problems.halting(error) is not None or not problems.is_transient(error):
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
        self._complaints.say(error, problems.error_text(error))
