"""What the tests of the connector have in common: raw clients on one side, our own on the other."""

from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.streams.contracts.values import OutboxRow
from tests.waiting import wait_until

COOPERATIVE: dict[str, Any] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
EAGER: dict[str, Any] = {**COOPERATIVE, "partition.assignment.strategy": "range"}
BY_THE_BROKER: dict[str, Any] = {"group.protocol": "consumer"}
PROTOCOLS = {"cooperative": COOPERATIVE, "eager": EAGER, "kip-848": BY_THE_BROKER}


def fill(bootstrap: str, topic: str, partition: int, values: Sequence[bytes]) -> None:
    """Produce `values` to one partition, all delivered when this returns."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    for value in values:
        producer.produce(topic, value, b"k", partition)
    assert producer.flush(20) == 0


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def joined(bootstrap: str, group: str, topic: str, partitions: int = 1, **kafka: Any) -> KafkaInput:
    """A consumer that was assigned all partitions of the topic, none of them started."""
    starts: list[tuple[str, int]] = []
    consumer = KafkaInput({"bootstrap.servers": bootstrap, **(kafka or COOPERATIVE)}, group, [topic], "tester")

    def complete() -> bool:
        assert consumer.poll(0.05) is None
        starts.extend(consumer.assigned())
        return len(starts) == partitions

    wait_until(complete, 30, "the assignment")
    return consumer


def read(consumer: KafkaInput, count: int, timeout: float = 20) -> list[tuple[int, int]]:
    """(partition, offset) of the next `count` records, by poll and consume in turn."""
    records: list[tuple[int, int]] = []

    def enough() -> bool:
        first = consumer.poll(0.05)
        for record in [] if first is None else [first, *consumer.consume(min(50, count - len(records) - 1))]:
            records.append((record.partition(), record.offset()))
        return len(records) >= count

    wait_until(enough, timeout, f"{count} records")
    return records


def failure(consumer: KafkaInput, timeout: float = 20) -> tuple[tuple[str, int], str, str]:
    """The next failure of a partition; records before it are read away."""

    def failures() -> list[tuple[tuple[str, int], str, str]]:
        consumer.poll(0.05)
        return consumer.failures()

    return wait_until(failures, timeout, "a failure")[0]


def turned(consumer: KafkaInput, condition: Callable[[], Any], timeout: float = 20) -> Any:
    """What `condition` gives when it is true, the consumer being polled meanwhile."""

    def check() -> Any:
        consumer.poll(0.02)
        return condition()

    return wait_until(check, timeout)


def everything(bootstrap: str, topic: str, partition: int, count: int, timeout: float = 20) -> list[Any]:
    """The first `count` messages of a partition, read by a raw consumer."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "raw", "auto.offset.reset": "error", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    records: list[Any] = []

    def enough() -> bool:
        records.extend(message for message in consumer.consume(count - len(records), 0.1) if message.error() is None)
        return len(records) >= count

    try:
        wait_until(enough, timeout, f"{count} messages in {topic}/{partition}")
    finally:
        consumer.close()
    return records


def row(number: int, topic: str, value: bytes | None = b"v", partition: int = 0, key: bytes | None = b"k") -> OutboxRow:
    return OutboxRow(
        number,
        "lineage",
        f"id-{number}",
        topic,
        partition,
        key,
        value,
        (("sluicegate-seq", b"%d" % number), ("empty", None)),
    )
