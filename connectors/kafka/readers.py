"""The consumer groups that read a topic, without joining one."""

import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions

from sluicegate.connectors.kafka import problems
from sluicegate.connectors.kafka.admin import TIMEOUT, open_admin
from sluicegate.connectors.kafka.clusters.asking import naming_cluster, settings_of
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.topic_names import cluster_of, plain


def readers(kafka: Settings, topics: Collection[str], timeout: float = TIMEOUT) -> dict[str, str]:
    """Same as `_readers`, for topics of several clusters. Groups of the same name in two clusters count as one
    reader."""
    groups: dict[str, str] = {}
    for cluster in dict.fromkeys(map(cluster_of, topics)):
        of, own = settings_of(kafka, cluster), {plain(topic) for topic in topics if cluster_of(topic) == cluster}
        with naming_cluster(of):
            groups |= _readers(of, own, timeout)
    return groups


def _readers(kafka: Settings, topics: Collection[str], timeout: float) -> dict[str, str]:
    """The groups that committed an offset of one of these topics, each with the metadata of such a commit.

    A reader that commits nothing to Kafka is unknown to the brokers, and is missing here. Raises SystemNotReady within
    `timeout` seconds, or when the brokers refuse the request.
    """
    admin, deadline = open_admin(kafka), time.monotonic() + timeout
    future = admin.list_consumer_groups(request_timeout=timeout)
    listed = problems.answer(future, timeout + 1, "listing consumer groups", admin.turned_away)
    groups = {}
    for group in sorted(listing.group_id for listing in listed.valid):
        metadata = _commit(admin, group, topics, max(0.1, deadline - time.monotonic()))
        if metadata is not None:
            groups[group] = metadata
    return groups


def _commit(admin: Any, group: str, topics: Collection[str], timeout: float) -> str | None:
    """The metadata of the group's commit of one of the topics; None: the group has committed none of them."""
    what = f"reading the offsets of consumer group {group}"
    [future] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=timeout
    ).values()
    offsets = problems.answer(future, timeout + 1, what, admin.turned_away).topic_partitions
    return next((offset.metadata or "" for offset in offsets if offset.topic in topics and offset.offset >= 0), None)
