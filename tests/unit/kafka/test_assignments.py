"""What the consumer notes of rebalances."""

from typing import Any

from confluent_kafka import TopicPartition

from sluicegate.connectors.kafka.consumer import KafkaInput


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
