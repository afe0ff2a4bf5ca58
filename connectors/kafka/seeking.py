"""Makes a consumer read an assigned partition from an offset on."""

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position

UNSEEKABLE = frozenset({KafkaError._STATE, KafkaError._PREV_IN_PROGRESS})
SEEK_ATTEMPTS, PATIENCE, SEEK_PAUSE = 200, 4, 0.01


def position(topic: str, number: int, offset: int, epoch: int) -> Position:
    return Position(topic, number, offset, leader_epoch=epoch) if epoch >= 0 else Position(topic, number, offset)


def seek(consumer: Any, target: Position, again: bool) -> None:
    """Seeks `target`. librdkafka refuses a seek while its thread still starts the partition, and after an error of its
    offset; the seek is then tried again. Waiting does not poll, so nothing is lost. With `again`, a new assignment
    starts a partition that an error stopped. Raises KafkaException."""
    for attempt in range(SEEK_ATTEMPTS):
        try:
            consumer.seek(target)
            return
        except KafkaException as error:
            if error.args[0].code() not in UNSEEKABLE or attempt == SEEK_ATTEMPTS - 1:
                raise
            if again and attempt == PATIENCE:
                consumer.incremental_unassign([target])
                consumer.incremental_assign([target])
            time.sleep(SEEK_PAUSE)
