"""First and next offsets of partitions, read without joining a group."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.admin import TIMEOUT, open_admin
from sluicegate.connectors.kafka.clusters.asking import by_place
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.contracts.stores import TopicPartition

EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()


def readable_ends(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """The next offset of each partition for a reader of committed records: a partition ends at the first offset of an
    open transaction. Raises SystemNotReady within `timeout` seconds."""
    readable = IsolationLevel.READ_COMMITTED
    return by_place(kafka, partitions, lambda of, own: offsets(open_admin(of), own, [LATEST], timeout, readable)[0])


def bounds_of(
    kafka: Settings, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, tuple[int, int]]:
    """Same as `bounds`, for partitions of several clusters."""
    return by_place(kafka, partitions, lambda of, own: bounds(open_admin(of), own, timeout))


def bounds(
    admin: Any, partitions: Sequence[TopicPartition], timeout: float = TIMEOUT
) -> dict[TopicPartition, tuple[int, int]]:
    """The first and the next offset of each partition. Records behind an open transaction count. Raises SystemNotReady
    within `timeout` seconds."""
    low, high = offsets(admin, partitions, [EARLIEST, LATEST], timeout)
    return {place: (low[place], high[place]) for place in partitions}


def since(
    kafka: Settings, partitions: Sequence[TopicPartition], moment: float, timeout: float = TIMEOUT
) -> dict[TopicPartition, int]:
    """The number of offsets of each partition from `moment` (seconds since 1970) to the end. Raises SystemNotReady."""
    specs = [OffsetSpec.for_timestamp(max(0, int(moment * 1000))), LATEST]

    def ask(of: Settings, own: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        begins, high = offsets(open_admin(of), own, specs, timeout)
        return {place: high[place] - begins[place] if begins[place] >= 0 else 0 for place in own}

    return by_place(kafka, partitions, ask)


def offsets(
    admin: Any,
    partitions: Sequence[TopicPartition],
    specs: Sequence[OffsetSpec],
    timeout: float = TIMEOUT,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> list[dict[TopicPartition, int]]:
    """The offset of each partition for its query in `specs`; -1: no record is at or after the time. All queries are
    sent at once. Raises SystemNotReady within `timeout` seconds. `admin` must live until the end: the futures of a
    garbage-collected client never complete."""
    if not partitions:
        return [{} for _ in specs]
    places = [Position(topic, number) for topic, number in partitions]
    requests = [
        admin.list_offsets(dict.fromkeys(places, spec), request_timeout=timeout, isolation_level=isolation)
        for spec in specs
    ]
    return [
        {(place.topic, place.partition): _offset(admin, place, future, timeout) for place, future in request.items()}
        for request in requests
    ]


def _offset(admin: Any, place: Position, future: Any, timeout: float) -> int:
    doing = f"asking for the offsets of {place.topic}/{place.partition}"
    return int(problems.answer(future, timeout + 1, doing, admin.turned_away).offset)
