"""A second consumer that reads one partition in place of the worker's consumer. It keeps fetched records while the
partition is paused.

librdkafka's `pause` throws away records that were fetched and not read. That is little, unless a batch unpacks to much
more than is asked for: such a batch is fetched and unpacked again after each pause. The worker's consumer has one queue
for all its partitions, so a partition that waits cannot leave its records there. This consumer has no other partition,
so here it can.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.apart import ONE_BATCH, REPLACED
from sluicegate.connectors.kafka.seeking import position, seek
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition

MOST = 2  # partitions of a worker at once: each holds a batch
CALM = 60.0
"""Seconds without a pause, after which the worker's consumer reads the partition again. A sender of one large batch
often sends more, and while one is unpacked no other partition of the consumer gets records."""


class AloneRecords:
    """The records of `place` from `offset` on. At most one batch is in memory. `sort` handles messages that are
    errors."""

    ended = False

    def __init__(
        self, wanted: dict[str, Any], place: TopicPartition, offset: int, epoch: int, sort: Callable[[Any], None]
    ) -> None:
        """`wanted` are the settings of the worker's consumer. Raises SystemNotReady."""
        self.place, self.next, self.epoch = place, offset, epoch
        self._sort, self._paused, self._calm_at = sort, False, time.monotonic() + CALM
        self._at_end = False
        kept = {name: value for name, value in wanted.items() if name not in REPLACED}
        self._consumer: Any = problems.client(Consumer, {**kept, **ONE_BATCH, "enable.partition.eof": True})
        target = position(*place, offset, epoch)
        try:
            self._consumer.incremental_assign([target])
            if epoch >= 0:
                seek(self._consumer, target, again=True)
        except KafkaException as error:
            self.close()
            raise problems.not_ready(f"starting {place[0]}/{place[1]} at {offset} failed", error) from error

    @property
    def paused(self) -> bool:
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused, self._calm_at = paused, time.monotonic() + CALM

    def take(self, most: int) -> list[Record]:
        """Up to `most` fetched records. Raises SystemNotReady."""
        if self._paused:
            return []
        try:
            messages: list[Any] = self._consumer.consume(most, 0.0)
        except KafkaException as error:
            raise problems.not_ready("reading failed", error) from error
        errors = [message for message in messages if message.error() is not None]
        for message in errors:
            self._sort(message)
        records = [message for message in messages if message.error() is None] if errors else messages
        if records:
            last = records[-1]
            self.next, self.epoch = last.offset() + 1, -1 if (epoch := last.leader_epoch()) is None else epoch
        if messages:
            self._at_end = messages[-1].error() is not None
        return cast(list[Record], records)

    @property
    def calm(self) -> bool:
        """Whether the worker's consumer can read the partition again: it was read to its end, and was not paused for
        CALM seconds."""
        return self._at_end and not self._paused and time.monotonic() >= self._calm_at

    def look_again(self) -> None:
        """Same as KafkaInput.look_again."""
        where = [Position(*self.place)]
        self._consumer.pause(where)
        self._consumer.resume(where)

    def high(self) -> int:
        """Same as KafkaInput.high."""
        return high(self._consumer, self.place)

    def close(self) -> None:
        """Closes in a thread, so the caller does not wait for brokers."""
        threading.Thread(target=self._consumer.close, name="alone-close", daemon=True).start()


def high(consumer: Any, place: TopicPartition) -> int:
    """The next offset according to the consumer's last fetch, without a request; -1: unknown."""
    try:
        _, offset = consumer.get_watermark_offsets(Position(*place), cached=True)
    except KafkaException:
        return -1
    return int(offset) if offset >= 0 else -1
