"""Whether brokers admit the clients of the product."""

from collections.abc import Mapping
from typing import Any

from sluicegate.connectors.kafka import admin
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.producer import open_producer
from sluicegate.streams.contracts.values import OutboxRow
from tests.waiting import wait_until


def goes_through(settings: Mapping[str, Any], topic: str, group: str) -> None:
    """The clients of the product with these settings find the topic, send a record to it, and read it."""
    assert admin.existing(settings, [topic]) == {topic: 1}
    producer, consumer, reports = open_producer(settings), KafkaInput(settings, group, [topic], "m"), []
    try:
        row = OutboxRow(1, "l", "id", topic, 0, b"k", b"v", [])
        assert producer.produce(row, lambda *report: reports.append(report))
        wait_until(lambda: producer.flush(0.1) == 0, 30, "the report")
        assert reports == [("delivered", "")]
        wait_until(lambda: consumer.poll(0.05) is None and consumer.assigned(), 30, "the assignment")
        consumer.start(topic, 0, 0, -1)
        assert wait_until(lambda: consumer.poll(0.1), 30, "the record").value() == b"v"
    finally:
        producer.close()
        consumer.close()
