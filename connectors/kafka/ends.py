"""First and next offsets of partitions, read without joining a group."""

from collections.abc import Sequence

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.admin import TIMEOUT, open_admin
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.contracts.stores import TopicPartition


def ends(kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT) -> dict[TopicPartition, int]:
    """The next offset of each partition. Raises SystemNotReady within `timeout` seconds."""
    return _asked(kafka, partitions, OffsetSpec.latest(), timeout)


def readable_ends(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """As `ends`, for a reader of committed records: the first offset of an open transaction ends a partition."""
    return _asked(kafka, partitions, OffsetSpec.latest(), timeout, IsolationLevel.READ_COMMITTED)


def bounds(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, tuple[int, int]]:
    """The first and the next offset of each partition. Raises SystemNotReady within twice `timeout` seconds."""
    low, high = (_asked(kafka, partitions, spec, timeout) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
    return {place: (low[place], high[place]) for place in partitions}


def since(
    kafka: Settings, partitions: Sequence[TopicPartition], moment: float, timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """The number of offsets of each partition from the first record at or after `moment` (seconds since 1970) on.
    Raises SystemNotReady."""
    begins = _asked(kafka, partitions, OffsetSpec.for_timestamp(max(0, int(moment * 1000))), timeout)
    return {
        place: end - begins[place] if begins[place] >= 0 else 0
        for place, end in ends(kafka, partitions, timeout).items()
    }


def _asked(
    kafka: Settings,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec,
    timeout: float,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    asked = {Position(topic, number): spec for topic, number in partitions}
    offsets = {}
    admin = open_admin(kafka)  # kept until the end: the futures of a client that was collected never end
    for partition, future in admin.list_offsets(asked, request_timeout=timeout, isolation_level=isolation).items():
        place = partition.topic, partition.partition
        doing = f"reading where {partition.topic}/{partition.partition} begins and ends"
        offsets[place] = int(problems.answer(future, timeout + 1, doing).offset)
    return offsets
