"""Whether records wait behind an offset. Offsets alone do not tell: transactions take some for their markers, and for
the records of those that were aborted."""

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import settings
from sluicegate.connectors.kafka.admin import TIMEOUT
from sluicegate.connectors.kafka.clusters.asking import of_places
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.topic_names import on_cluster

WAIT = 0.1  # seconds


def read_to_the_end(
    kafka: settings.Settings, offsets: Mapping[TopicPartition, int], timeout: float = TIMEOUT
) -> set[TopicPartition]:
    """The partitions without a record from this offset to their end, for a reader of committed records. Reads up to the
    first record of each, without a group. A partition that does not answer within `timeout` seconds is left out."""
    at_end = set[TopicPartition]()
    for cluster, of, own in of_places(kafka, offsets):
        at_end |= {(on_cluster(topic, cluster), number) for topic, number in _at_end(of, own, timeout)}
    return at_end


def _at_end(kafka: settings.Settings, offsets: Mapping[TopicPartition, int], timeout: float) -> set[TopicPartition]:
    reader = settings.consumer(kafka, "sluicegate", "sluicegate", lambda _: None, ends=True)
    consumer: Any = Consumer({**reader, "queued.min.messages": 1})
    asked, at_end, deadline = set(offsets), set[TopicPartition](), time.monotonic() + timeout
    try:
        consumer.assign([Position(*place, offset) for place, offset in offsets.items()])
        while asked and time.monotonic() < deadline:
            message = consumer.poll(WAIT)
            place = None if message is None else (message.topic(), message.partition())
            if place not in asked:
                continue
            asked.discard(place)
            consumer.pause([Position(*place)])
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                at_end.add(place)
    finally:
        consumer.close()
    return at_end
