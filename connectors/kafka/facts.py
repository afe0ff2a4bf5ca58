"""Facts of a partition and of a group's offset in it, asked through a consumer that need not be a member.

The admin client asks for the ends of a partition. A consumer would send this request over the connection of its
fetches, and the broker would answer it after the fetch that waits for records (`fetch.wait.max.ms`).
"""

from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.admin import TIMEOUT, described
from sluicegate.connectors.kafka.ends import EARLIEST, LATEST, offsets
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.errors import SystemNotReady

T = TypeVar("T")


def facts(admin: Any, consumer: Any, topic: str, number: int) -> TopicFacts:
    """The facts of a partition. Every function of this file raises SystemNotReady."""
    description = described(admin, [topic])[topic]
    if description is None:
        raise SystemNotReady(f"Kafka: there is no topic {topic}")
    low, high = span(admin, topic, number)
    offset, metadata = committed(consumer, topic, number)
    return TopicFacts(description.id, description.partitions, low, high, offset, metadata)


def span(admin: Any, topic: str, number: int) -> tuple[int, int]:
    """The first offset, and the offset behind the last record that a reader of committed records may read."""
    low, high = _offsets(admin, topic, number, EARLIEST, LATEST)
    return low, high


def committed(consumer: Any, topic: str, number: int) -> tuple[int, str]:
    """The committed offset of the group and its metadata; -1: the group has none."""
    doing = f"asking for the group's offset of {topic}/{number}"
    answer = only_answer(lambda: consumer.committed([Position(topic, number)], timeout=TIMEOUT), doing)
    return (int(answer.offset), answer.metadata or "") if answer.offset >= 0 else (-1, "")


def offset_at(admin: Any, topic: str, number: int, start: float) -> int:
    """The offset of the first record at or after `start` (seconds since 1970); without one, the next offset."""
    first, end = _offsets(admin, topic, number, OffsetSpec.for_timestamp(int(start * 1000)), LATEST)
    return first if first >= 0 else end


def _offsets(admin: Any, topic: str, number: int, *specs: OffsetSpec) -> list[int]:
    answers = offsets(admin, [(topic, number)], specs, TIMEOUT, IsolationLevel.READ_COMMITTED)
    return [answer[topic, number] for answer in answers]


def ready_or_raise(ask: Callable[[], T], doing: str) -> T:
    try:
        return ask()
    except KafkaException as error:
        raise problems.not_ready(f"{doing} failed", error) from error


def only_answer(ask: Callable[[], Any], doing: str) -> Any:
    """The answer for a request about one partition."""
    [answer] = ready_or_raise(ask, doing)
    if answer.error is not None:
        raise problems.not_ready(f"{doing} failed", answer.error)
    return answer
