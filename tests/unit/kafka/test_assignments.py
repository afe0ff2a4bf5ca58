"""What the consumer notes of rebalances."""

from functools import partial
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from sluicegate.connectors.kafka import consumer as consumer_module
from sluicegate.connectors.kafka.admin import described
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.settings import INSTANCE
from tests.unit.kafka.clients import COOPERATIVE


class Group:
    """Takes what the callbacks answer."""

    def incremental_assign(self, places: Any) -> None: ...
    def incremental_unassign(self, places: Any) -> None: ...


def test_a_partition_given_and_taken_within_one_poll_is_not_ours() -> None:
    consumer = KafkaInput({"bootstrap.servers": "127.0.0.1:1"}, "group", ["topic"], "member")
    place = [TopicPartition("topic", 0)]
    consumer._on_assign(Group(), place)
    consumer._on_revoke(Group(), place)
    assert (consumer.assigned(), consumer.revoked()) == ([], [("topic", 0)])
    consumer._on_revoke(Group(), place)
    consumer._on_assign(Group(), place)
    assert (consumer.assigned(), consumer.revoked()) == ([("topic", 0)], [("topic", 0)])
    consumer.close()


def test_a_process_that_begins_while_the_brokers_are_away_says_that_it_is_no_static_member(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_module, "described", partial(described, timeout=0.1))
    away = {"bootstrap.servers": "127.0.0.1:1", **COOPERATIVE}
    consumer = KafkaInput(away, "shop.sums", ["topic"], "member", instance="0-run")
    assert INSTANCE not in consumer._wanted
    assert any(
        line.startswith("group shop.sums: this process is no static member of it: Kafka: describing topic topic")
        for line in caplog.messages
    )
    consumer.close()
