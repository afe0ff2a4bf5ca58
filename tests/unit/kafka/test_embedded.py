import subprocess
import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from sluicegate.connectors.kafka.admin import durability, existing, open_admin
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.connectors.kafka.producer import open_producer
from sluicegate.streams.errors import SystemNotReady
from tests.unit.kafka.clients import BY_THE_BROKER, PROTOCOLS, everything, failure, fill, joined, numbers, read, row
from tests.waiting import wait_until


def test_it_has_the_topics_it_was_made_with(broker: EmbeddedBroker) -> None:
    assert existing({"bootstrap.servers": broker.bootstrap}, ["one", "four"]) == {"one": 1, "four": 4}


def test_its_settings_cannot_be_read_so_nothing_is_said_of_insync_replicas(broker: EmbeddedBroker) -> None:
    assert durability({"bootstrap.servers": broker.bootstrap}, ["four"]) == {"four": (1, None)}


def test_two_brokers_do_not_know_each_other(broker: EmbeddedBroker) -> None:
    other = EmbeddedBroker({"one": 2})
    try:
        assert other.bootstrap != broker.bootstrap
        assert existing({"bootstrap.servers": other.bootstrap}, ["one"]) == {"one": 2}
    finally:
        other.close()


def test_beyond_five_mebibytes_a_partition_loses_its_oldest_records_and_reading_them_is_a_loud_gap(
    broker: EmbeddedBroker,
) -> None:
    noise = bytes(range(256)) * 40
    fill(broker.bootstrap, "one", 0, [noise] * 600)
    consumer = joined(broker.bootstrap, "g", "one")
    facts = consumer.facts("one", 0)
    assert 0 < facts.low < facts.high == 600
    assert (facts.high - facts.low) * len(noise) < 6 * 1024 * 1024
    consumer.start("one", 0, 0, -1)
    assert failure(consumer)[:2] == (("one", 0), "out-of-range")
    consumer.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_of_all_protocols_are_served(broker: EmbeddedBroker, protocol: str) -> None:
    fill(broker.bootstrap, "one", 0, numbers(0, 10))
    consumer = joined(broker.bootstrap, "g", "one", **PROTOCOLS[protocol])
    consumer.start("one", 0, 4, 0)
    assert read(consumer, 6) == [(0, offset) for offset in range(4, 10)]
    consumer.close()


VANISHING = """
import os, sys
from tests.unit.kafka.clients import joined
joined(sys.argv[1], "g", "one", **{"session.timeout.ms": 1000, "heartbeat.interval.ms": 100})
os._exit(0)
"""


def test_the_session_of_a_member_that_vanishes_ends_and_another_takes_its_partitions(broker: EmbeddedBroker) -> None:
    subprocess.run([sys.executable, "-c", VANISHING, broker.bootstrap], check=True, timeout=30)
    heir = joined(broker.bootstrap, "g", "one", **{"session.timeout.ms": 1000, "heartbeat.interval.ms": 100})
    heir.close()


def test_offsets_of_a_group_are_kept_with_their_text(broker: EmbeddedBroker) -> None:
    consumer = joined(broker.bootstrap, "g", "four", 4)
    consumer.inform("four", 2, 7, "incarnation")
    wait_until(lambda: consumer.facts("four", 2).committed == 7)
    facts = consumer.facts("four", 2)
    assert (facts.metadata, facts.partitions, bool(facts.topic_id)) == ("incarnation", 4, True)
    assert consumer.facts("four", 1).committed == -1
    consumer.close()


def test_an_idempotent_producer_writes_to_it_in_order(broker: EmbeddedBroker) -> None:
    producer = open_producer({"bootstrap.servers": broker.bootstrap})
    outcomes: list[str] = []
    for number in range(300):
        assert producer.produce(row(number, "one", b"%d" % number), lambda outcome, _text: outcomes.append(outcome))
    assert producer.flush(10) == 0
    assert outcomes == ["delivered"] * 300
    assert [message.value() for message in everything(broker.bootstrap, "one", 0, 300)] == numbers(0, 300)
    producer.close()


def test_after_its_end_clients_say_that_kafka_does_not_answer(broker: EmbeddedBroker) -> None:
    bootstrap = broker.bootstrap
    broker.close()
    with pytest.raises(SystemNotReady, match="topic one"):
        existing({"bootstrap.servers": bootstrap}, ["one"], 1.0)


def test_a_consumer_by_the_brokers_protocol_leaves_and_another_follows(broker: EmbeddedBroker) -> None:
    first = joined(broker.bootstrap, "g", "one", **BY_THE_BROKER)
    first.close()
    second = joined(broker.bootstrap, "g", "one", **BY_THE_BROKER)
    second.start("one", 0, 0, -1)
    fill(broker.bootstrap, "one", 0, [b"x"])
    assert read(second, 1) == [(0, 0)]
    second.close()


def test_a_search_by_time_finds_nothing(broker: EmbeddedBroker) -> None:
    fill(broker.bootstrap, "one", 0, numbers(0, 3))
    raw = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    assert raw.offsets_for_times([TopicPartition("one", 0, 1)], timeout=5)[0].offset == -1
    raw.close()


def test_admin_clients_are_silent(broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str]) -> None:
    admin = open_admin({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "session.timeout.ms": 6000})
    admin.list_topics(timeout=5)
    assert capfd.readouterr() == ("", "")
