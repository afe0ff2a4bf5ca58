"""Reads ranges of partitions once, without a group, for commands."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import problems, settings
from sluicegate.connectors.kafka.clusters.asking import naming_cluster, of_places, renamed
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import SystemNotReady

PAGE, WAIT, PATIENCE = 1000, 0.5, 30.0  # records of a page; seconds to wait for a page, and without any record


def scan(
    kafka: settings.Settings, parts: Mapping[TopicPartition, tuple[int, int]], patience: float = PATIENCE
) -> Iterator[Record]:
    """The records of each partition from the first offset up to, and without, the second, in order within a partition.
    Records that were compacted or belong to an aborted transaction are missing. Raises SystemNotReady after `patience`
    seconds without a record, for example behind an open transaction."""
    for cluster, of, own in of_places(kafka, parts):
        with naming_cluster(of):
            for record in _scan(of, own, patience):
                yield renamed(record, cluster) if cluster else record


def _scan(
    kafka: settings.Settings, parts: Mapping[TopicPartition, tuple[int, int]], patience: float
) -> Iterator[Record]:
    ends = {place: end for place, (first, end) in parts.items() if first < end}
    if not ends:
        return
    wanted = {**settings.consumer(kafka, "sluicegate", "sluicegate", lambda _: None), "enable.partition.eof": True}
    consumer: Any = Consumer(wanted)
    try:
        consumer.assign([Position(*place, parts[place][0]) for place in ends])
        waited = 0.0
        while ends and waited < patience:
            page = consumer.consume(PAGE, WAIT)
            waited = 0.0 if page else waited + WAIT
            yield from _wanted(page, ends)
        if ends:
            behind = ", ".join(f"{topic}/{number}" for topic, number in sorted(ends))
            raise SystemNotReady(f"reading {behind}: nothing came for {patience:g} s (an open transaction?)")
    finally:
        consumer.close()


def _wanted(page: list[Any], ends: dict[TopicPartition, int]) -> Iterator[Record]:
    """The records before the end of their partition. A partition that has reached its end is removed from `ends`."""
    for message in page:
        place, error = (message.topic(), message.partition()), message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= ends.get(place, 0):
                    ends.pop(place, None)
            elif not problems.is_transient(error) or error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise problems.not_ready(f"reading {message.topic()}/{message.partition()} failed", error)
            continue
        end = ends.get(place, -1)
        if message.offset() + 1 >= end:
            ends.pop(place, None)
        if message.offset() < end:
            yield cast(Record, message)
