"""Where partitions end, asked without joining a group."""

from collections.abc import Sequence

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from connectors.kafka import problems
from connectors.kafka.admin import TIMEOUT, open_admin
from connectors.kafka.settings import Settings


def ends(kafka: Settings, partitions: Sequence[tuple[str, int]], timeout: float = TIMEOUT) -> dict[tuple[str, int], int]:
    """The next offset of each partition. Raises SystemNotReady within `timeout` seconds."""
    return _offsets(kafka, partitions, OffsetSpec.latest(), timeout)


def since(kafka: Settings, partitions: Sequence[tuple[str, int]], moment: float, timeout: float = TIMEOUT) -> dict[tuple[str, int], int]:
    """How many offsets each partition has from the first record at or after `moment` (seconds since 1970) on. Raises SystemNotReady."""
    begins = _offsets(kafka, partitions, OffsetSpec.for_timestamp(max(0, int(moment * 1000))), timeout)
    return {place: end - begins[place] if begins[place] >= 0 else 0 for place, end in ends(kafka, partitions, timeout).items()}


def _offsets(
    kafka: Settings, partitions: Sequence[tuple[str, int]], wanted: OffsetSpec, timeout: float
) -> dict[tuple[str, int], int]:
    if not partitions:
        return {}
    asked = {TopicPartition(topic, number): wanted for topic, number in partitions}
    found = {}
    admin = open_admin(kafka)  # its futures never end when it is collected before them
    for partition, future in admin.list_offsets(asked, request_timeout=timeout).items():
        try:
            found[partition.topic, partition.partition] = int(problems.answer(future, timeout + 1, "reading where partitions end").offset)
        except KafkaException as error:
            raise problems.not_ready(f"reading the end of {partition.topic}/{partition.partition} failed", error) from error
    return found
