"""First and next offsets of partitions, read without joining a group."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.admin import TIMEOUT, open_admin
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.contracts.stores import TopicPartition


def ends(kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT) -> dict[TopicPartition, int]:
    """The next offset of each partition. Raises SystemNotReady within `timeout` seconds."""
    return offsets(open_admin(kafka), partitions, OffsetSpec.latest(), timeout)


def readable_ends(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """As `ends`, for a reader of committed records: the first offset of an open transaction ends a partition."""
    return offsets(open_admin(kafka), partitions, OffsetSpec.latest(), timeout, IsolationLevel.READ_COMMITTED)


def bounds(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, tuple[int, int]]:
    """The first and the next offset of each partition. Raises SystemNotReady within twice `timeout` seconds."""
    admin, specs = open_admin(kafka), (OffsetSpec.earliest(), OffsetSpec.latest())
    low, high = (offsets(admin, partitions, spec, timeout) for spec in specs)
    return {place: (low[place], high[place]) for place in partitions}


def since(
    kafka: Settings, partitions: Sequence[TopicPartition], moment: float, timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """The number of offsets of each partition from the first record at or after `moment` (seconds since 1970) on.
    Raises SystemNotReady."""
    begins = offsets(open_admin(kafka), partitions, OffsetSpec.for_timestamp(max(0, int(moment * 1000))), timeout)
    return {
        place: end - begins[place] if begins[place] >= 0 else 0
        for place, end in ends(kafka, partitions, timeout).items()
    }


def offsets(
    admin: Any,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec,
    timeout: float = TIMEOUT,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset of each partition that `spec` describes; -1: no record is at or after its time. Raises SystemNotReady
    within `timeout` seconds. `admin` must live until the end: the futures of a client that was collected never end."""
    if not partitions:
        return {}
    wanted = {Position(topic, number): spec for topic, number in partitions}
    answers = {}
    for partition, future in admin.list_offsets(wanted, request_timeout=timeout, isolation_level=isolation).items():
        doing = f"asking for the offsets of {partition.topic}/{partition.partition}"
        answer = problems.answer(future, timeout + 1, doing, admin.turned_away)
        answers[partition.topic, partition.partition] = int(answer.offset)
    return answers
