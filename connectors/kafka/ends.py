"""Where partitions end, asked without joining a group."""

from collections.abc import Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from connectors.kafka import problems
from connectors.kafka.admin import TIMEOUT, open_admin
from connectors.kafka.settings import Settings


def ends(kafka: Settings, partitions: Sequence[tuple[str, int]], timeout: float = TIMEOUT) -> dict[tuple[str, int], int]:
    """The next offset of each partition. Raises SystemNotReady within `timeout` seconds."""
    if not partitions:
        return {}
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in partitions}
    found = {}
    admin = open_admin(kafka)  # its futures never end when it is collected before them
    for partition, future in admin.list_offsets(asked, request_timeout=timeout).items():
        try:
            found[partition.topic, partition.partition] = int(problems.answer(future, timeout + 1, "reading where partitions end").offset)
        except KafkaException as error:
            raise problems.not_ready(f"reading the end of {partition.topic}/{partition.partition} failed", error) from error
    return found
