"""Three brokers: one may be killed, leaders move, and a way can be cut without the others noticing."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conftest import create_topic
from tests.servers.cluster import Cluster
from tests.servers.shared import own_folder
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(own_folder(), 3, ways=1)
    try:
        yield made.start()
    finally:
        made.close()


def write(bootstrap: str, topic: str, value: bytes) -> None:
    producer: Any = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []

    def all_there() -> bool:
        values.extend(message.value() for message in consumer.consume(10, 0.2) if message.error() is None)
        return len(values) >= count

    wait_until(all_there, 60, "the records", pause=0)
    consumer.close()
    return values


def leader(cluster: Cluster, topic: str) -> int:
    return int(
        AdminClient({"bootstrap.servers": cluster.url})
        .list_topics(topic, timeout=20)
        .topics[topic]
        .partitions[0]
        .leader
    )


def test_a_killed_leader_is_replaced_nothing_is_lost_and_it_leads_again_when_asked_for(
    cluster: Cluster, ns: str
) -> None:
    create_topic(cluster.url, ns, 1, {}, 3)
    write(cluster.url, ns, b"before")
    first = leader(cluster, ns)
    cluster.servers[first - 1].kill9()
    write(cluster.url, ns, b"without it")
    assert wait_until(lambda: (now := leader(cluster, ns)) not in (first, -1) and now, 30, "another leader")
    cluster.servers[first - 1].restart(120.0)
    wait_until(
        lambda: cluster.prefer_first_leaders() or leader(cluster, ns) == first, 60, "the first leader", pause=0.5
    )
    wait_until(lambda: leader(cluster, ns) == first, 30, "the first leader")
    assert read(cluster.url, ns, 2) == [b"before", b"without it"]


def test_who_comes_by_a_way_meets_its_proxies_on_every_broker(cluster: Cluster, ns: str) -> None:
    create_topic(cluster.url, ns, 1, {}, 3)
    write(cluster.url, ns, b"past the proxies")
    assert not any(proxy.connections for proxy in cluster.ways[0])
    assert read(cluster.bootstrap(0), ns, 1) == [b"past the proxies"]
    brokers = AdminClient({"bootstrap.servers": cluster.bootstrap(0)}).list_topics(timeout=20).brokers.values()
    assert {broker.port for broker in brokers} == {proxy.port for proxy in cluster.ways[0]}
