"""The consumer of one partition that is fetched apart from others, one batch of records at a time.

The client unpacks all batches of an answer before the first record is read. So an answer must not hold records that can
be read together with a batch that ends the process. A broker gives at least one whole batch, however small the limit.
The next batch is not fetched before the owner has committed this one.
"""

from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import problems, settings
from sluicegate.streams.contracts.stores import TopicPartition

REPLACED = frozenset({"max.partition.fetch.bytes", "group.protocol", "group.remote.assignor"})
WHOLE = 100_000  # records, at most, that are taken of a batch at once
ONE_BATCH: settings.Settings = {"fetch.message.max.bytes": 1, "queued.min.messages": 1, "queued.max.messages.kbytes": 1}


class ApartConsumer:
    """Reads `place` from `offset`. It is no member of the group."""

    def __init__(
        self,
        kafka: settings.Settings,
        group: str,
        member: str,
        on_error: settings.ErrorHook,
        place: TopicPartition,
        offset: int,
    ) -> None:
        self.place = place
        kept = {name: value for name, value in kafka.items() if name not in REPLACED}
        wanted = {**settings.consumer(kept, group, member, on_error, ends=True), **ONE_BATCH}
        self._position = Position(*place, offset)
        self._consumer: Any = problems.client(Consumer, wanted)
        self._consumer.assign([self._position])
        self._batch: list[Any] = []
        self._waits = False

    def consume(self, most: int) -> list[Any]:
        """Records that were fetched, and errors. After the last one nothing is fetched before `resume`."""
        if not self._waits:
            self._batch = self._consumer.consume(WHOLE, 0.0)
            if self._batch:
                self.pause()
        taken, self._batch = self._batch[:most], self._batch[most:]
        return taken

    def pause(self) -> None:
        self._consumer.pause([self._position])
        self._waits = True

    def resume(self) -> None:
        if self._waits and not self._batch:
            self._consumer.resume([self._position])
            self._waits = False

    def high(self) -> int:
        """As KafkaInput.high."""
        _, high = self._consumer.get_watermark_offsets(self._position, cached=True)
        return int(high) if high >= 0 else -1

    def close(self) -> None:
        self._consumer.close()
